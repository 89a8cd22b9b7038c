"""A second process of a role beside the first, in the same consumer group."""

import time
from pathlib import Path

from chaos_kit import status_of, until

from infra.lifecycle import State
from infra.processes import ProcessSpec
from infra.stack import LocalStack
from infra.supervisor import read_heartbeat
from infra.workers import worker_spec

SHORT_SESSION = {"ENGRAM_SESSION_TIMEOUT_SECONDS": "6"}


async def start_second(stack: LocalStack, role: str, name: str) -> Path:
    """Run a second worker of a role, which the supervisor does not take for hung; return its heartbeat once it is ready."""
    one = worker_spec(stack.state, role)
    heartbeat = stack.state.workers / f"{name}.json"
    heartbeat.unlink(missing_ok=True)
    own = {"ENGRAM_HEARTBEAT_FILE": str(heartbeat), "ENGRAM_STATE_DIR": str(stack.state.root / name)}
    stack.start_workers([ProcessSpec(name=name, command=one.command, environment={**SHORT_SESSION, **own})])
    await until(lambda: beats(heartbeat), lambda: f"{name} is not ready: {status_of(stack, name)}")
    return heartbeat


def beats(heartbeat: Path) -> bool:
    """Tell whether a worker says that it is ready, and has said so after this question."""
    asked_at = time.time()
    while (found := read_heartbeat(heartbeat)) is not None and heartbeat.stat().st_mtime < asked_at:
        if time.time() > asked_at + 3:
            return False
        time.sleep(0.1)
    return found is not None and found.state is State.READY
