"""A process that behaves like a worker: keeps a heartbeat, and fails in the way its first argument says."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def beat(state: str, detail: str = "") -> None:
    path = Path(os.environ["ENGRAM_HEARTBEAT_FILE"])
    content = {
        "pid": os.getpid(),
        "role": "test",
        "state": state,
        "detail": detail,
        "at_ms": time.time_ns() // 1_000_000,
    }
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(content))
    draft.replace(path)


def main() -> None:
    behaviour = sys.argv[1]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if behaviour == "misconfigured":
        beat("starting", "ENGRAM_EMBEDDER is wrong")
        sys.exit(78)
    if behaviour == "crash":
        sys.exit(3)
    if behaviour == "crash-once" and os.environ.get("CRASH_NOW"):
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour == "parent":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        Path(os.environ["CHILD_FILE"]).write_text(str(child.pid))
    while True:
        beat("ready")
        if behaviour == "silent":
            time.sleep(600)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
