"""The role ``neo4j``: follows ``memory.updated`` into nodes and edges."""

from infra.projector_process import run_store
from infra.worker_process import Here
from projectors.mapping import Neo4jMapping
from projectors.neo4j import Neo4jDoor


async def run(here: Here) -> None:
    """Project until asked to stop."""
    await run_store(here, Neo4jDoor(here.settings), Neo4jMapping(here.codec))
