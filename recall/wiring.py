"""Opens what recall needs: the embedder, the doors to Milvus and Neo4j, a pool of ``engram_reader``.

Called by every entry of the read path. The only file of ``recall`` that builds adapters.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from projectors.milvus import MilvusDoor
from projectors.neo4j import Neo4jDoor
from recall.postgres import ROLE
from recall.recall import Deps
from schemas.settings import Settings
from streams.embedding import Embedder, load_embedder
from streams.postgres import pool

CONNECTIONS = 8


@asynccontextmanager
async def opened(settings: Settings, embedder: Embedder | None = None) -> AsyncIterator[Deps]:
    """Yield what ``recall`` needs; the doors connect at their first call, so a dead store costs its arm only.

    ``embedder`` is loaded as the settings say unless one is given. Raises ``Retryable`` when Postgres does not answer.
    """
    async with AsyncExitStack() as resources:
        connections = await pool(settings, ROLE, CONNECTIONS)
        resources.push_async_callback(connections.close)
        vectors, graph = MilvusDoor(settings), Neo4jDoor(settings)
        resources.push_async_callback(vectors.close)
        resources.push_async_callback(graph.close)
        if embedder is None:
            embedder = await asyncio.to_thread(load_embedder, settings.embedder)
        yield Deps(settings=settings, embedder=embedder, vectors=vectors, graph=graph, pool=connections)
