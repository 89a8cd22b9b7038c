"""What the demo shows of the stores: memories, pending and refused entries of its users, counts, and emptying a store.

Called by ``engram demo``. It reads as every other reader does, one user at a time, and drops data as a rebuild does.
"""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

from msgspec import Struct

from projectors.doors import open_door
from projectors.entries import STORES, Store
from projectors.generations import ROLE as PROJECTOR_ROLE
from projectors.generations import live_generation
from projectors.neo4j import Neo4jDoor
from recall.live import LiveMemory
from recall.postgres import ROLE as READER_ROLE
from recall.postgres import Reader
from schemas.settings import Settings
from streams.postgres import connect, pool

ROWS = 1_000
_HELD = ("active", "tentative", "review")
_ENDED = ("superseded", "historical", "expired", "deleted")


class Remembered(Struct, frozen=True):
    """What is kept of one user: memories that hold, memories that ended, pending texts with reason, refusals."""

    tenant: str
    user: str
    held: tuple[LiveMemory, ...]
    ended: tuple[LiveMemory, ...]
    pending: tuple[tuple[Any, ...], ...]
    quarantined: tuple[tuple[Any, ...], ...]


class Counts(Struct, frozen=True):
    """How much each derived store holds: rows of Milvus, nodes and edges of Neo4j, points of InfluxDB."""

    vectors: int
    nodes: int
    edges: int
    working_events: int


async def remembered(settings: Settings, users: Iterable[tuple[str, str]]) -> tuple[Remembered, ...]:
    """Return what is kept of each (tenant, user)."""
    connections = await pool(settings, READER_ROLE, 1)
    try:
        found = []
        for tenant, user in users:
            reader = Reader(connections, tenant, user)
            every = {"state": "", "limit": ROWS}
            found.append(
                Remembered(
                    tenant,
                    user,
                    tuple(await reader.listed(statuses=_HELD, categories=(), limit=ROWS)),
                    tuple(await reader.listed(statuses=_ENDED, categories=(), limit=ROWS)),
                    tuple(await reader.rows("pending_list", every)),
                    tuple(await reader.rows("quarantine_list", every)),
                )
            )
        return tuple(found)
    finally:
        await connections.close()


async def counts(settings: Settings) -> Counts:
    """Return how much the live generations hold."""
    async with AsyncExitStack() as resources:
        connection = await connect(settings, PROJECTOR_ROLE, autocommit=True)
        resources.push_async_callback(connection.close)
        found: dict[Store, int] = {}
        edges = 0
        for store in STORES:
            door = open_door(settings, store)
            resources.push_async_callback(door.close)
            generation = await live_generation(connection, store)
            found[store] = await door.count(generation)
            if isinstance(door, Neo4jDoor):
                edges = await door.count_edges(generation)
        return Counts(found["milvus"], found["neo4j"], edges, found["influx"])


async def empty(settings: Settings, store: Store) -> int:
    """Throw away everything that the live generation of ``store`` holds; return how many entries that were."""
    async with AsyncExitStack() as resources:
        connection = await connect(settings, PROJECTOR_ROLE, autocommit=True)
        resources.push_async_callback(connection.close)
        door = open_door(settings, store)
        resources.push_async_callback(door.close)
        generation = await live_generation(connection, store)
        before = await door.count(generation)
        await door.drop(generation)
        return before
