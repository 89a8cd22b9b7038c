"""The health check of a worker's container: looks at the heartbeat of the worker beside it.

Run by Docker as ``python -m infra.container_health``. Exit code 0: the worker lives and says that it is ready or waits for
a store; 1: it does not. It asks no server anything.
"""

import os
import sys
import time
from pathlib import Path

from infra.lifecycle import Policy, State
from infra.supervisor import read_heartbeat

HEALTHY = frozenset({State.READY, State.WAITING})


def is_healthy(heartbeat: Path, now_seconds: float) -> bool:
    """Tell whether the heartbeat is fresh at ``now_seconds`` (since the epoch) and says that the worker works."""
    beat = read_heartbeat(heartbeat)
    if beat is None or beat.state not in HEALTHY:
        return False
    return now_seconds - heartbeat.stat().st_mtime <= Policy().hung_seconds


def main() -> None:
    """Look once."""
    heartbeat = Path(os.environ["ENGRAM_HEARTBEAT_FILE"])
    sys.exit(0 if is_healthy(heartbeat, time.time()) else 1)


if __name__ == "__main__":
    main()
