"""Runs a stack without servers in the foreground, with one worker: ``stack_program.py STATE_DIR BEHAVIOUR``."""

import sys
from pathlib import Path

from infra.commands.stack import run_stack
from infra.processes import ProcessSpec

WORKER = Path(__file__).with_name("worker_program.py")


def main() -> None:
    root, behaviour = Path(sys.argv[1]), sys.argv[2]
    heartbeat = root / "workers" / "one.json"
    environment = {"ENGRAM_HEARTBEAT_FILE": str(heartbeat), "CHILD_FILE": str(root / "child")}
    spec = ProcessSpec("one", (sys.executable, str(WORKER), behaviour), environment, ready=heartbeat)
    run_stack(root, steps=(), workers=[spec], servers=(), ready=lambda stack: stack.wait_for_workers(30))


if __name__ == "__main__":
    main()
