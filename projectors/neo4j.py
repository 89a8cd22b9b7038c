"""The one door to Neo4j: memories, entities and their edges, all generations in one database.

Called by the projector, rebuild and reconcile (through the port in ``door``) and by recall (``expand``).
The only file that imports the driver; statements come from ``statements`` alone.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import neo4j
from neo4j.exceptions import AuthError, ClientError, DriverError, Neo4jError, TransientError

from projectors.entries import Entry, Generation, Key, Store
from projectors.graph_walk import Neighbour, ReadStep, Walk
from projectors.graph_write import (
    Places,
    ReadNode,
    ReadRelation,
    Row,
    ends_of,
    entries_of,
    node_row,
)
from projectors.names import graph_mark
from projectors.projection import GraphNode
from projectors.statements import across_users, scoped
from schemas.errors import Broken, EngramError, Misconfigured, Rejected, Retryable
from schemas.ids import check_id
from schemas.settings import Settings

R = TypeVar("R")
DROP_ROWS = 5_000
HUB_DEGREE = 200
FRONTIER = 200
# These look nothing up but by unique keys and by places, so a plan made once is always right; planning anew as the graph
# grows costs more than a small batch.
PLANNED_ONCE = frozenset({"write_nodes", "create_edges", "delete_edges", "delete_unused"})
_REFUSED = ("Neo.ClientError.Statement.TypeError", "Neo.ClientError.Statement.ArgumentError", "TokenNameError")


class Neo4jDoor:
    """A door to the server in ``settings``; connects at the first call."""

    store: Store = "neo4j"
    guarded: bool = True
    keeps_newer: bool = True
    buffered: bool = False

    def __init__(self, settings: Settings) -> None:
        self._prefix = settings.topic_prefix
        self._timeout_seconds = settings.store_timeout_seconds
        self._max_hops = settings.max_hops
        self._driver = neo4j.AsyncGraphDatabase.driver(
            settings.neo4j_uri,
            auth=(settings.neo4j_user, settings.neo4j_password.get_secret_value()),
            connection_timeout=3.0,
            connection_acquisition_timeout=settings.store_timeout_seconds,
            max_transaction_retry_time=settings.store_timeout_seconds / 2,
            notifications_min_severity="OFF",
        )

    async def healthy(self) -> None:
        """Return when the server answers; raises ``Retryable`` when it does not."""
        await self._read("answering", across_users("ping"))

    async def close(self) -> None:
        """Close the connections."""
        await self._driver.close()

    async def prepare(self, generation: Generation) -> None:
        """Create the constraints and the index of every generation; safe to repeat."""
        for name in ("constraint_memory", "constraint_entity", "index_memory_order"):
            await self._write("preparing the schema", _one(across_users(name)))

    async def guard_read(self, generation: Generation, keys: Sequence[Key]) -> dict[Key, Entry]:
        """Return version and hash of the nodes of ``keys`` ((memory_id,) each); placeholders are not there."""
        ids, mark = [str(key[0]) for key in keys], graph_mark(self._prefix, generation)
        rows = await self._values("reading versions", across_users("versions_of"), generation=mark, ids=ids)
        return {entry.key: entry for entry in _entries(rows, ())}

    async def fingerprints_of(
        self, generation: Generation, keys: Sequence[Key], *, deep: bool = False
    ) -> dict[Key, Entry]:
        """Return the entries of ``keys`` with the digest of the edges and relations that are really there."""
        ids, mark = [str(key[0]) for key in keys], graph_mark(self._prefix, generation)
        nodes = await self._values("reading fingerprints", across_users("fingerprints_of"), generation=mark, ids=ids)
        relations = await self._values("reading relations", across_users("relations_of"), generation=mark, ids=ids)
        return {entry.key: entry for entry in _entries(nodes, relations)}

    async def write(
        self, generation: Generation, items: Sequence[GraphNode], *, forced: bool = False
    ) -> frozenset[Key]:
        """Write nodes and replace their edges as a set, in one transaction; without ``forced`` no version goes down.

        A ``forced`` node also removes what stands under its memory's id for anybody else. Return the keys that were kept as
        they are: the store has the same or a newer version, or another user's memory.
        """
        if not items:
            return frozenset()
        mark = graph_mark(self._prefix, generation)

        async def write(transaction: neo4j.AsyncManagedTransaction) -> frozenset[Key]:
            return await _write_nodes(transaction, mark, items, forced)

        return await self._write("writing nodes", write)

    async def flush(self, generation: Generation) -> None:
        """Do nothing: a committed transaction is as fast to read as it will ever be."""

    async def fingerprints(
        self, generation: Generation, *, deep: bool = False, page: int = 16_000
    ) -> AsyncIterator[Entry]:
        """Yield every entry by rising memory id, one page in memory; the edges are always digested, ``deep`` or not."""
        mark, after, size = graph_mark(self._prefix, generation), "", max(page, 2)
        more = True
        while more:
            nodes = await self._values(
                "reading a page", across_users("fingerprints_page"), generation=mark, after=after, page=size
            )
            more = len(nodes) == size
            if more:
                # Copies of the last id may stand behind the end of the page, so it opens the next one.
                last = max(row[0] for row in nodes)
                nodes = [row for row in nodes if row[0] != last]
                if not nodes:
                    size *= 2
                    continue
            until = max(row[0] for row in nodes) if more else None
            relations = await self._values(
                "reading relations", across_users("relations_between"), generation=mark, after=after, until=until
            )
            for entry in _entries(nodes, relations):
                yield entry
            after = until or after

    async def count(self, generation: Generation) -> int:
        """Return the number of memories, tombstones included, placeholders not."""
        rows = await self._read("counting", across_users("count"), generation=graph_mark(self._prefix, generation))
        return int(rows[0]["entries"])

    async def count_edges(self, generation: Generation) -> int:
        """Return the number of edges that leave memories; relations between entities are not counted."""
        rows = await self._read(
            "counting edges", across_users("count_edges"), generation=graph_mark(self._prefix, generation)
        )
        return int(rows[0]["edges"])

    async def drop(self, generation: Generation) -> None:
        """Remove every node and edge of ``generation``, 5,000 nodes a transaction."""
        mark = graph_mark(self._prefix, generation)
        for name in ("drop_memories", "drop_entities"):
            removed = 1
            while removed:
                batch = _one(across_users(name), generation=mark, batch=DROP_ROWS)
                removed = int((await self._write("dropping", batch))[0]["removed"])

    async def expand(
        self,
        generation: Generation,
        tenant_id: str,
        user_id: str,
        memory_ids: Sequence[str],
        *,
        max_hops: int,
        limit: int,
    ) -> list[Neighbour]:
        """Return the memories of one user within ``max_hops`` edges of ``memory_ids``, nearest and strongest first.

        A memory and a memory of the same entity are two hops apart. Seeds are not returned, nor tombstones or placeholders.
        An entity with more than 200 edges is not walked through. Raises ``Rejected`` when ``max_hops`` is above the setting.
        """
        if not 0 <= max_hops <= max(self._max_hops, 1):
            raise Rejected(f"a walk may have at most {self._max_hops} hops", code="bad_limit")
        scope = self._scope(generation, tenant_id, user_id)
        seeds = await self._read("finding seeds", scoped("seeds"), **scope, memory_ids=list(memory_ids))
        walk = Walk(seeds)
        for _ in range(max_hops):
            if not walk.frontier:
                break
            ((found,),) = await self._values(
                "walking",
                scoped("neighbours"),
                **scope,
                frontier=walk.frontier[:FRONTIER],
                hub_degree=HUB_DEGREE,
                limit=max(FRONTIER, limit),
            )
            walk.advance(ReadStep(*step) for step in found)
        return sorted(walk.neighbours, key=lambda found: (found.hops, -found.weight, found.memory_id))[:limit]

    def _scope(self, generation: Generation, tenant_id: str, user_id: str) -> dict[str, str]:
        return {
            "generation": graph_mark(self._prefix, generation),
            "tenant_id": check_id("tenant_id", tenant_id),
            "user_id": check_id("user_id", user_id),
        }

    async def _read(self, doing: str, statement: str, **parameters: Any) -> list[Row]:
        async def run(session: neo4j.AsyncSession) -> list[Row]:
            return await session.execute_read(_one(statement, **parameters))

        return await self._run(doing, run)

    async def _values(self, doing: str, statement: str, **parameters: Any) -> list[list[Any]]:
        """Read many rows as lists: three times as fast as dictionaries."""

        async def work(transaction: neo4j.AsyncManagedTransaction) -> list[list[Any]]:
            return await (await transaction.run(statement, parameters)).values()

        async def run(session: neo4j.AsyncSession) -> list[list[Any]]:
            return await session.execute_read(work)

        return await self._run(doing, run)

    async def _write(self, doing: str, work: Callable[[neo4j.AsyncManagedTransaction], Awaitable[R]]) -> R:
        async def run(session: neo4j.AsyncSession) -> R:
            return await session.execute_write(work)

        return await self._run(doing, run)

    async def _run(self, doing: str, work: Callable[[neo4j.AsyncSession], Awaitable[R]]) -> R:
        """Run ``work`` in a session and translate the driver's errors; the only place that knows them."""
        try:
            async with self._driver.session() as session:
                return await work(session)
        except EngramError:
            raise
        except AuthError as error:
            raise Misconfigured("Neo4j refused user or password") from error
        except TransientError as error:
            raise Retryable(f"Neo4j failed while {doing}: {error.code}") from error
        except ClientError as error:
            if (error.code or "").endswith(_REFUSED):
                # The server's own text may quote a property of the memory; the code says enough.
                raise Rejected(f"Neo4j cannot hold this while {doing}: {error.code}", code="bad_node") from error
            raise Broken(f"Neo4j refused a statement while {doing}: {error.code}") from error
        except Neo4jError as error:
            raise Retryable(f"Neo4j failed while {doing}: {error.code}") from error
        except (DriverError, OSError) as error:
            raise Retryable(f"Neo4j failed while {doing}: {type(error).__name__}") from error


def _entries(nodes: Sequence[Sequence[Any]], relations: Sequence[Sequence[Any]]) -> list[Entry]:
    return entries_of([ReadNode(*row) for row in nodes], [ReadRelation(*row) for row in relations])


def _one(statement: str, **parameters: Any) -> Callable[[neo4j.AsyncManagedTransaction], Awaitable[list[Row]]]:
    async def work(transaction: neo4j.AsyncManagedTransaction) -> list[Row]:
        return await _rows(transaction, statement, **parameters)

    return work


async def _rows(transaction: neo4j.AsyncManagedTransaction, statement: str, **parameters: Any) -> list[Row]:
    result = await transaction.run(statement, parameters)
    return await result.data()


async def _write_nodes(
    transaction: neo4j.AsyncManagedTransaction, mark: str, items: Sequence[GraphNode], forced: bool
) -> frozenset[Key]:
    rows, ends = [node_row(node, mark) for node in items], ends_of(items)

    async def run(name: str, **parameters: Any) -> list[list[Any]]:
        statement = ("CYPHER replan=skip " if name in PLANNED_ONCE else "") + across_users(name)
        return await (await transaction.run(statement, {"generation": mark, **parameters})).values()

    ((found, entity_ids, memory_ids),) = await run(
        "write_nodes", rows=rows, entities=ends.entities, memories=ends.memories, forced=forced
    )
    nodes = {place: node for node, (place, *_) in zip(items, found, strict=True)}
    places = Places(nodes, ends, entity_ids, memory_ids)
    kept = {place: nodes[place] for place, applied, _, _ in found if not applied}
    # A version of 0 says nothing about edges: somebody else may have set it.
    replaced = [place for place, applied, linked, _ in found if applied and (forced or linked)]
    # What was named by a node that stays as it is may have been made for nothing.
    touched = {*kept, *(target for node in kept.values() for target in places.targets_of(node))}
    if forced:
        await run("move_edges_of_copies", rows=rows)
        touched.update(place for (place,) in await run("delete_copies", rows=rows))
        touched.update(place for (place,) in await run("sweep_relations", ids=[row["memory_id"] for row in rows]))
    elif related := [place for place, applied, _, relations in found if applied and relations]:
        await run("delete_relations", places=related)
    if replaced:
        touched.update(place for (place,) in await run("delete_edges", places=replaced))
    wanted = [places.edges_row(place, node) for place, node in nodes.items() if place not in kept]
    if edges := [row for row in wanted if row is not None]:
        await run("create_edges", rows=edges)
    if touched:
        await run("delete_unused", places=list(touched))
    return frozenset((node.memory_id,) for node in kept.values())
