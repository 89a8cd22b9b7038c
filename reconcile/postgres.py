"""What Postgres says each store should hold, read page by page as ``engram_reconcile``: ids, versions, hashes, digests.

Owns the SQL of the comparison and of repairs. Called by ``reconcile.run`` and ``reconcile.fence``. It never reads a
memory's text and never changes a memory; the one thing it writes is outbox rows without a payload.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from projectors.entries import Entry, Fingerprint, Generation, Key
from projectors.projection import milvus_fingerprint, neo4j_fingerprint
from reconcile.plan import EVENT_TYPE, RepairRow
from reconcile.published import log_fingerprint
from schemas.candidates import Relation
from schemas.ids import is_memory_id
from schemas.memories import GONE, Edge
from schemas.routing import partition_of
from streams.postgres import OUTBOX_CHANNEL, Connection, sql, translated

ROLE = "engram_reconcile"
_FOLDER = Path(__file__).parent / "sql"
_FIRST_ID = "00000000-0000-0000-0000-000000000000"
_EDGES = msgspec.json.Decoder(tuple[Edge, ...])
_RELATIONS = msgspec.json.Decoder(tuple[Relation, ...])


class Truth(Protocol):
    """Postgres as one side of the comparison (``reconcile.audit.Entries``)."""

    def pages(self) -> AsyncIterator[Sequence[Entry]]:
        """Yield every entry, in rising key order, page by page."""
        ...

    async def of_keys(self, keys: Sequence[Key]) -> Mapping[Key, Entry]:
        """Return the entries of these keys as they are now."""
        ...


async def _rows(connection: Connection, name: str, arguments: dict[str, Any]) -> list[tuple[Any, ...]]:
    with translated():
        cursor = await connection.execute(sql(name, _FOLDER), arguments)
        return await cursor.fetchall()


class MemoryTruth:
    """What a store, or the log, should hold of each memory; ``page_rows`` memories are in memory at a time.

    ``statement`` begins the names of the two SQL files, ``arguments`` are given to both, ``entry_of`` reads a row.
    """

    def __init__(
        self,
        connection: Connection,
        statement: str,
        entry_of: Callable[[tuple[Any, ...]], Entry],
        page_rows: int,
        arguments: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._connection = connection
        self._statement = statement
        self._entry_of = entry_of
        self._page_rows = page_rows
        self._arguments = arguments

    async def pages(self) -> AsyncIterator[Sequence[Entry]]:
        """Yield every memory in the order of ids."""
        after = _FIRST_ID
        while page := await self._read("page", {"after": after, "rows": self._page_rows}):
            yield page
            after = str(page[-1].key[0])

    async def of_keys(self, keys: Sequence[Key]) -> Mapping[Key, Entry]:
        """Return the memories with these ids; an id that is no UUID is nobody's."""
        ids = [text for text in (str(key[0]) for key in keys) if is_memory_id(text)]
        return {entry.key: entry for entry in await self._read("keys", {"ids": ids})}

    async def _read(self, what: str, arguments: dict[str, Any]) -> list[Entry]:
        rows = await _rows(self._connection, f"{self._statement}_{what}", {**self._arguments, **arguments})
        return [self._entry_of(row) for row in rows]


class WorkingTruth:
    """What InfluxDB should hold of each event of a session."""

    def __init__(self, connection: Connection, page_rows: int) -> None:
        self._connection = connection
        self._page_rows = page_rows

    async def pages(self) -> AsyncIterator[Sequence[Entry]]:
        """Yield every event by tenant, user, session and sequence."""
        after: Key = ("", "", "", 0)
        while page := [
            _influx_entry(row)
            for row in await _rows(self._connection, "influx_page", {**_scope(after), "rows": self._page_rows})
        ]:
            yield page
            after = page[-1].key

    async def of_keys(self, keys: Sequence[Key]) -> Mapping[Key, Entry]:
        """Return the events with these keys."""
        columns = ("tenant_ids", "user_ids", "session_ids", "sequences")
        arguments = {name: [key[place] for key in keys] for place, name in enumerate(columns)}
        return {
            entry.key: entry for entry in map(_influx_entry, await _rows(self._connection, "influx_keys", arguments))
        }


def truth_of(connection: Connection, generation: Generation, page_rows: int) -> Truth:
    """Return the side of Postgres that ``generation`` is compared with."""
    match generation.store:
        case "influx":
            return WorkingTruth(connection, page_rows)
        case "neo4j":
            return MemoryTruth(connection, "neo4j", _neo4j_entry, page_rows)
        case _:
            revision = generation.revision
            arguments = {"revision": revision}
            return MemoryTruth(connection, "milvus", lambda row: _milvus_entry(row, revision), page_rows, arguments)


def truth_of_log(connection: Connection, page_rows: int) -> Truth:
    """Return the side of Postgres that the newest records of ``memory.updated`` are compared with."""
    return MemoryTruth(connection, "log", _log_entry, page_rows)


async def pending_outbox(connection: Connection, target: str, aggregates: Sequence[tuple[str, str]]) -> list[int]:
    """Return the outbox rows of these (tenant, aggregate) pairs that are still to be published."""
    arguments = {
        "target": target,
        "tenant_ids": [tenant_id for tenant_id, _ in aggregates],
        "aggregate_ids": [aggregate_id for _, aggregate_id in aggregates],
    }
    return [int(row[0]) for row in await _rows(connection, "outbox_pending", arguments)]


async def outbox_left(connection: Connection, outbox_ids: Sequence[int]) -> int:
    """Return how many of these outbox rows are still there."""
    rows = await _rows(connection, "outbox_left", {"ids": list(outbox_ids)})
    return int(rows[0][0])


async def insert_repairs(connection: Connection, rows: Sequence[RepairRow], partitions: int) -> int:
    """Insert one outbox row per repair in one transaction and wake the relay; return how many were new."""
    inserted = 0
    with translated():
        async with connection.transaction():
            for known_memory in (True, False):
                batch = [row for row in rows if (row.known and row.target == "memory") == known_memory]
                for target in sorted({row.target for row in batch}):
                    some = [row for row in batch if row.target == target]
                    name = "repair_memories" if known_memory else "repair_others"
                    cursor = await connection.execute(
                        sql(name, _FOLDER), _columns(some, partitions, target, known_memory)
                    )
                    inserted += cursor.rowcount
            await connection.execute("SELECT pg_notify(%s, '')", (OUTBOX_CHANNEL,))
    return inserted


def _columns(rows: Sequence[RepairRow], partitions: int, target: str, known_memory: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "aggregate_ids": [row.aggregate_id for row in rows],
        "tenant_ids": [row.tenant_id for row in rows],
        "user_ids": [row.user_id for row in rows],
        "shards": [partition_of(row.tenant_id, row.user_id, partitions) for row in rows],
        "versions": [row.version for row in rows],
        "headers": [msgspec.json.encode(row.header).decode() for row in rows],
        "dedupe_keys": [row.dedupe_key for row in rows],
        "event_type": EVENT_TYPE,
    }
    return columns if known_memory else {**columns, "target": target}


def _milvus_entry(row: tuple[Any, ...], revision: str) -> Entry:
    memory_id, tenant_id, user_id, version, content_hash, status, digest = row
    fingerprint = milvus_fingerprint(version, content_hash, status, revision, digest)
    return Entry((memory_id,), tenant_id, user_id, fingerprint, content=bool(fingerprint.digest))


def _neo4j_entry(row: tuple[Any, ...]) -> Entry:
    memory_id, tenant_id, user_id, version, content_hash, status, edges, relations = row
    fingerprint = neo4j_fingerprint(version, content_hash, status, _EDGES.decode(edges), _RELATIONS.decode(relations))
    return Entry((memory_id,), tenant_id, user_id, fingerprint, content=status not in GONE)


def _log_entry(row: tuple[Any, ...]) -> Entry:
    memory_id, tenant_id, user_id, version, content_hash, status, digests = row
    fingerprint = log_fingerprint(version, content_hash, status, digests)
    return Entry((memory_id,), tenant_id, user_id, fingerprint, content=status not in GONE)


def _influx_entry(row: tuple[Any, ...]) -> Entry:
    tenant_id, user_id, session_id, sequence, occurred_at_ms, event_id, content_hash = row
    key = (tenant_id, user_id, session_id, sequence, occurred_at_ms)
    return Entry(key, tenant_id, user_id, Fingerprint(sequence, content_hash, "", event_id))


def _scope(key: Key) -> dict[str, Any]:
    return {"tenant_id": key[0], "user_id": key[1], "session_id": key[2], "sequence": key[3]}
