"""Which worker processes a stack runs, and how each is started.

Owned by ``infra``; called by the stack commands, tests and measurements. What a worker does is the business of
``infra.commands.worker``.
"""

import sys
from collections.abc import Iterable, Mapping

from infra.processes import ProcessSpec
from infra.state import StateDirectory

ROLES = ("extract", "admit", "embed", "remember", "working", "relay", "milvus", "neo4j", "influx")


def worker_name(role: str) -> str:
    """Return the name of the process of a role; servers of the same product have the bare name."""
    return f"{role}-worker"


def worker_spec(
    state: StateDirectory,
    role: str,
    environment: Mapping[str, str] | None = None,
    first_environment: Mapping[str, str] | None = None,
) -> ProcessSpec:
    """Describe one worker; ``first_environment`` counts for its first start only, as a fault to be had once does."""
    heartbeat = state.workers / f"{role}.json"
    return ProcessSpec(
        name=worker_name(role),
        command=(sys.executable, "-m", "infra.cli", "worker", role),
        environment={"ENGRAM_HEARTBEAT_FILE": str(heartbeat), **(environment or {})},
        first_environment=first_environment or {},
        ready=heartbeat,
    )


def worker_specs(state: StateDirectory, roles: Iterable[str] = ROLES) -> list[ProcessSpec]:
    """Describe one worker for each role."""
    return [worker_spec(state, role) for role in roles]
