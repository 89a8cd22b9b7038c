"""Postgres in memory as ``remember`` sees it: a pool whose connections answer the three statements of the write path.

The real ``remember``, ``postgres_truth`` and ``postgres_positions`` run on it. What the SQL functions ``decision_states`` and
``remembered`` promise is done here on dictionaries; ``test_truth`` runs one suite on this and on the real server.
"""

import base64
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
import numpy as np
from tables_in_memory import HistoryRow, Id, Tables, User

from schemas.candidates import Vector
from schemas.memories import GONE, Edge, Memory, PendingEntry, QuarantineEntry, ReviewEntry
from streams.changes import CommandOutcome
from streams.decision_state import LIVE, ChainKey, chain_key
from streams.postgres import sql
from streams.vector_bytes import postgres_vector

_KEPT_UNDER_A_KEY = (*LIVE, "review", "historical")
_NO_ID = "00000000-0000-0000-0000-000000000000"


class Rows:
    """What a statement answered."""

    def __init__(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._rows = list(rows)

    async def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    async def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows[0] if self._rows else None


class ConnectionInMemory:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def transaction(self) -> AbstractAsyncContextManager[None]:
        return self._tables.transaction()

    async def close(self) -> None:
        """Nothing to give back."""

    async def execute(self, statement: str, names: dict[str, Any], *, binary: bool = False) -> Rows:
        match statement:
            case _ if statement == sql("positions_lock"):
                return Rows(_locked(self._tables, **names))
            case _ if statement == sql("decision_states"):
                requests = msgspec.json.decode(names["requests"])
                return Rows([_state(self._tables, request) for request in requests])
            case _ if statement == sql("remember_write"):
                return Rows([(_remembered(self._tables, **names), 0)])
        raise AssertionError(f"Postgres in memory does not know the statement {statement}")


class PoolInMemory:
    """``tables`` is the whole database."""

    def __init__(self) -> None:
        self.tables = Tables()

    async def getconn(self) -> ConnectionInMemory:
        return ConnectionInMemory(self.tables)

    async def putconn(self, connection: ConnectionInMemory) -> None:
        """Nothing to keep."""

    async def close(self) -> None:
        """Nothing to close."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tables]:
        async with self.tables.transaction():
            yield self.tables


def _locked(tables: Tables, role: str, partitions: Sequence[int], topic_identity: str) -> list[tuple[int, str, int]]:
    for partition in partitions:
        tables.positions.setdefault((role, partition), (topic_identity, -1))
    return [(partition, *tables.positions[role, partition]) for partition in partitions]


def _state(tables: Tables, asked: dict[str, Any]) -> tuple[int, str, bytes | None]:
    user: User = (asked["tenant_id"], asked["user_id"])
    memories: dict[str, Memory] = {name: tables.memory((*user, name)) for name in tables.of_user("memories", user)}
    wanted, keys, waiting = _wanted(tables, user, memories, asked)
    marks = tables.of_user("marks", user)
    names, packed = _recent_vectors(tables, user, memories, asked["vectors"])
    outcome = tables.outcomes.get((*user, asked["proposal_id"]))
    history = [
        row.record
        for (name, _), row in tables.history.items()
        if asked["history"] and row.record is not None and name[:2] == user and name[2] in asked.get("memory_ids", ())
    ]
    found = {
        "memories": [memories[name] for name in sorted(wanted)],
        "memory_keys": {name: tables.keys.get((*user, name)) for name in wanted},
        **waiting,
        "before": {key: at_ms for key, at_ms in marks.items() if not key or key in keys},
        "history": history,
        "vectors": names,
        "outcome": outcome and {"outcome": outcome.outcome, "reason": outcome.reason},
    }
    return asked["place"], msgspec.json.encode(found).decode(), packed


def _wanted(
    tables: Tables, user: User, memories: dict[str, Memory], asked: dict[str, Any]
) -> tuple[set[str], set[str], dict[str, Any]]:
    """Return the ids of the memories that a request needs, the dedupe keys it means, and the entries of the queues."""
    named = [memories[name] for name in asked.get("memory_ids", ()) if name in memories]
    pending, reviews = tables.of_user("pending", user), tables.of_user("review", user)
    entries = [queue[name] for queue in (pending, reviews) for name in asked.get("entry_ids", ()) if name in queue]
    keys = {*asked.get("keys", ()), *(m.dedupe_key for m in named), *(e.dedupe_key for e in entries)}
    groups = {*asked.get("link_groups", ()), *(m.link_group for m in named)}
    groups |= {m.link_group for m in memories.values() if m.dedupe_key in keys}
    columns = ("chain_ms", "chain_created", "chain_ordinals", "chain_ids")
    points: list[ChainKey] = list(zip(*(asked.get(column, ()) for column in columns), strict=True))
    points += [chain_key(memory) for memory in named]
    for entry in entries:
        said = msgspec.json.decode(entry.candidate)
        since = said.get("valid_from_ms")
        points.append((asked["stated_at_ms"] if since is None else since, asked["now_ms"], said["ordinal"], _NO_ID))
    wanted = {m.memory_id for m in named} | _neighbours(memories, points, {m.memory_id for m in named})
    for name, memory in memories.items():
        under_key = memory.dedupe_key in keys and memory.status in _KEPT_UNDER_A_KEY
        in_group = memory.link_group and memory.link_group in groups and memory.status in LIVE
        if under_key or in_group or (asked["whole_user"] and memory.status not in GONE):
            wanted.add(name)
    waiting = {
        table: [
            {**msgspec.to_builtins(entry), "key_id": tables.keys.get((*user, entry.entry_id))}
            for entry in queue.values()
            if entry.state == "waiting" and (asked["whole_user"] or entry.dedupe_key in keys)
        ]
        for table, queue in (("pending", pending), ("reviews", reviews))
    }
    waiting["quarantine"] = [
        {**msgspec.to_builtins(entry), "key_id": tables.keys.get((*user, entry.entry_id))}
        for entry in tables.of_user("quarantine", user).values()
        if entry.entry_id in asked.get("entry_ids", ()) or (asked["whole_user"] and entry.state == "waiting")
    ]
    return wanted, keys, waiting


def _neighbours(memories: dict[str, Memory], points: Iterable[ChainKey], named: set[str]) -> set[str]:
    chain = sorted(chain_key(m) for m in memories.values() if m.status not in GONE and m.memory_id not in named)
    found: set[str] = set()
    for point in points:
        found |= {place[3] for place in [place for place in chain if place < tuple(point)][-2:]}
        found |= {place[3] for place in [place for place in chain if place > tuple(point)][:2]}
    return found


def _recent_vectors(
    tables: Tables, user: User, memories: dict[str, Memory], limit: int
) -> tuple[list[tuple[str, str]], bytes | None]:
    active = sorted(
        (m for m in memories.values() if m.status == "active"), key=lambda m: (-m.created_at_ms, m.memory_id)
    )
    found = sorted(
        (memory.memory_id, vector.revision, vector.values)
        for memory in active[:limit]
        for vector in tables.vectors.get((*user, memory.memory_id), ())
    )
    packed = b"".join(postgres_vector(values) for _, _, values in found)
    return [(name, revision) for name, revision, _ in found], packed or None


def _remembered(
    tables: Tables, documents: str, partitions: Sequence[int], offsets: Sequence[int], shards: Sequence[int]
) -> int:
    """Write what proposals led to; return how many memories were not one version older than their change."""
    missed = 0
    for document in msgspec.json.decode(documents, type=list[dict[str, msgspec.Raw]]):
        rows = {name: msgspec.json.decode(raw) for name, raw in document.items() if name != "memories"}
        user: User = (rows["tenant_id"], rows["user_id"])
        memories = msgspec.json.decode(document.get("memories", msgspec.Raw(b"[]")), type=list[dict[str, msgspec.Raw]])
        missed += sum(not _write_memory(tables, user, columns) for columns in memories)
        _write_history(tables, user, rows)
        _write_edges(tables, user, rows)
        _write_relations(tables, user, rows)
        _write_vectors(tables, user, rows)
        _write_queues(tables, user, rows)
        _write_outbox(tables, user, rows)
    for partition, offset in zip(partitions, offsets, strict=True):
        identity, _ = tables.positions["remember", partition]
        tables.positions["remember", partition] = (identity, offset)
    return missed


def _write_memory(tables: Tables, user: User, columns: dict[str, msgspec.Raw]) -> bool:
    plain = {name: msgspec.json.decode(raw) for name, raw in columns.items() if name != "value"}
    key_id = plain.pop("key_id")
    # The column is JSON, not text: what comes back is the same value in another writing.
    value = msgspec.json.encode(msgspec.json.decode(columns["value"])).decode()
    memory = msgspec.convert({**plain, "value": value}, Memory)
    name: Id = (*user, memory.memory_id)
    known = tables.memories.get(name)
    if known is not None and known.version != memory.version - 1:
        return False
    tables.memories[name] = memory
    tables.keys.pop(name, None)
    if key_id:
        tables.keys[name] = key_id
    return True


def _write_history(tables: Tables, user: User, rows: dict[str, Any]) -> None:
    for row in rows.get("history", ()):
        name: Id = (*user, row["memory_id"])
        assert (name, row["version"]) not in tables.history, "a version was written twice"
        record = None if row["record"] is None else msgspec.convert(row["record"], Memory)
        kept = ("op", "status", "content_hash", "event_id", "occurred_at_ms", "proposal_id")
        tables.history[name, row["version"]] = HistoryRow(**{column: row[column] for column in kept}, record=record)


def _write_edges(tables: Tables, user: User, rows: dict[str, Any]) -> None:
    for memory_id in rows.get("edges_of", ()):
        given = [edge for edge in rows.get("edges", ()) if edge["memory_id"] == memory_id]
        edges = [msgspec.convert(edge, Edge) for edge in given]
        tables.edges[*user, memory_id] = tuple(sorted(edges))


def _write_relations(tables: Tables, user: User, rows: dict[str, Any]) -> None:
    columns = ("subject_type", "subject_id", "predicate", "object_type", "object_id")
    for memory_id in rows.get("relations_of", ()):
        given = [row for row in rows.get("relations", ()) if row["memory_id"] == memory_id]
        tables.relations.pop((*user, memory_id), None)
        if given:
            tables.relations[*user, memory_id] = frozenset(tuple(row[column] for column in columns) for row in given)


def _write_vectors(tables: Tables, user: User, rows: dict[str, Any]) -> None:
    for memory_id in rows.get("vectors_of", ()):
        given = sorted((row for row in rows.get("vectors", ()) if row["memory_id"] == memory_id), key=_revision)
        vectors = [Vector(row["revision"], np.asarray(row["numbers"], "<f4").tobytes()) for row in given]
        tables.vectors.pop((*user, memory_id), None)
        if vectors:
            tables.vectors[*user, memory_id] = tuple(vectors)


def _revision(row: dict[str, Any]) -> str:
    return str(row["revision"])


def _write_queues(tables: Tables, user: User, rows: dict[str, Any]) -> None:
    kinds: tuple[tuple[str, type[msgspec.Struct]], ...] = (
        ("pending", PendingEntry),
        ("review", ReviewEntry),
        ("quarantine", QuarantineEntry),
    )
    for table, kind in kinds:
        queue: dict[Id, Any] = getattr(tables, table)
        for row in rows.get(table, ()):
            name: Id = (*user, row["entry_id"])
            if name in queue:
                queue[name] = msgspec.structs.replace(queue[name], state=row["state"])
                continue
            queue[name] = msgspec.convert(row, kind)
            if row["key_id"]:
                tables.keys[name] = row["key_id"]
    for mark in rows.get("marks", ()):
        name = (*user, mark["dedupe_key"])
        tables.marks[name] = max(tables.marks.get(name, 0), mark["before_ms"])
    if "outcome" in rows:
        outcome = msgspec.convert(rows["outcome"], CommandOutcome)
        tables.outcomes.setdefault((*user, outcome.proposal_id), outcome)


def _write_outbox(tables: Tables, user: User, rows: dict[str, Any]) -> None:
    for row in rows.get("outbox", ()):
        tables.add_outbox(
            event_id=row["event_id"],
            aggregate_id=row["aggregate_id"],
            tenant_id=user[0],
            user_id=user[1],
            shard=rows["shard"],
            aggregate_version=row["version"],
            event_type=row["event_type"],
            target="memory",
            repair=None,
            payload=base64.b64decode(row["payload"]),
        )
    if "origin_offset" in rows:
        known = tables.user_positions.get(user)
        if known is None or known[1] < rows["origin_offset"]:
            tables.user_positions[user] = (rows["origin_partition"], rows["origin_offset"])
