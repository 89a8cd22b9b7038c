"""Which worker processes a stack runs, and how each is started.

Owned by ``infra``; called by the stack commands, tests and measurements. What a worker does is the business of
``infra.commands.worker``.
"""

import sys
from collections.abc import Iterable, Mapping

from infra.processes import ProcessSpec
from infra.state import StateDirectory
from projectors.entries import STORES

ROLES = ("extract", "admit", "embed", "remember", "working", "relay", "milvus", "neo4j", "influx")


# Of what shares the processors, truth comes first: ingest never waits for a derived store.
DERIVED_NICENESS = 10


def niceness_of(name: str) -> int:
    """Return the niceness of a server or role: derived stores and their projectors let the others go first."""
    return DERIVED_NICENESS if name in STORES else 0


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
        niceness=niceness_of(role),
    )


def worker_specs(state: StateDirectory, roles: Iterable[str] = ROLES) -> list[ProcessSpec]:
    """Describe one worker for each role."""
    return [worker_spec(state, role) for role in roles]
