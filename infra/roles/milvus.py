"""The role ``milvus``: follows ``memory.updated`` into collections of vectors."""

from infra.projector_process import run_store
from infra.worker_process import Here
from projectors.generations import Detail
from projectors.mapping import MilvusMapping
from projectors.milvus import MilvusDoor
from streams.embedding import UseEmbedder


async def run(here: Here) -> None:
    """Project until asked to stop."""
    # The class knows its revision and dimension; the model itself is not needed here.
    first = Detail(UseEmbedder.revision, UseEmbedder.dimension)
    await run_store(here, MilvusDoor(here.settings), MilvusMapping(here.codec), first)
