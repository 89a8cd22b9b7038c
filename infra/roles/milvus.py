"""The role ``milvus``: follows ``memory.updated`` into collections of vectors."""

import asyncio

from infra.projector_process import run_store
from infra.worker_process import Here
from projectors.generations import Detail
from projectors.mapping import MilvusMapping
from projectors.milvus import MilvusDoor
from schemas.settings import Settings
from streams.embedding import embedder_dimension, embedder_traits


async def run(here: Here) -> None:
    """Project until asked to stop."""
    first = await asyncio.to_thread(first_generation, here.settings)
    await run_store(here, MilvusDoor(here.settings), MilvusMapping(here.codec), first)


def first_generation(settings: Settings) -> Detail:
    """Return what the first generation holds: the vectors of the configured embedder. Raises ``Misconfigured``."""
    return Detail(embedder_traits(settings.embedder).revision, embedder_dimension(settings.embedder))
