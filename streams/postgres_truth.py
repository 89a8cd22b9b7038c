"""Reads the part of the truth that a proposal can touch, and writes what was decided; both inside the caller's transaction.

Called by ``remember`` alone. It decides nothing: state and changes go through as they are. All SQL stands in named files.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

from schemas.candidates import Vector
from schemas.errors import Broken, Misconfigured
from schemas.inputs import Origin
from schemas.memories import Memory, MemoryVectors, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.proposals import Proposal
from streams.canonical import canonical_value
from streams.changes import BeforeMark, Change, CommandOutcome
from streams.content_hash import vector_digest
from streams.decision_state import LIVE, Needs, UserState
from streams.evolve import evolve_memory
from streams.postgres import Connection, VectorParameter, sql
from streams.vector_bytes import postgres_vector, values_of

_QUEUES = ("pending", "review", "quarantine")


class KnownOutcome(Struct, frozen=True):
    """The outcome of a proposal that was decided before."""

    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was found: the last offset of the partition, the state, the data keys by record, an earlier outcome."""

    last_offset: int
    state: UserState
    key_ids: dict[str, str]
    outcome: KnownOutcome | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """One change with its event id, the data key that seals it (empty: nothing to seal), and its framed bytes."""

    change: Change
    event_id: str
    key_id: str
    payload: bytes


class _Key(Struct, frozen=True):
    entry_id: str
    key_id: str | None = None


class _StateRow(Struct, frozen=True):
    memories: tuple[Memory, ...]
    memory_keys: dict[str, str | None]
    pending: Raw
    reviews: Raw
    quarantine: Raw
    before: dict[str, int]
    history: tuple[Memory, ...]
    outcome: KnownOutcome | None = None


async def lock_position(connection: Connection, partition: int, topic_identity: str) -> int:
    """Take the partition's row for this transaction; return the last decided offset (-1: none).

    ``topic_identity`` has the ids of cluster and topic (``known_log``). Raises ``Misconfigured`` when the offsets stored here
    belong to another one.
    """
    names = {"partition": partition, "topic_identity": topic_identity}
    row = await (await connection.execute(sql("remember_position_lock"), names)).fetchone()
    if row is None:
        await connection.execute(sql("remember_position_create"), names)
        row = await (await connection.execute(sql("remember_position_lock"), names)).fetchone()
    if row is None:
        raise Broken(f"the position of partition {partition} cannot be stored")
    if row[0] != topic_identity:
        raise Misconfigured(
            f"Postgres holds positions of the Kafka topic {row[0]}, but this is {topic_identity}: Kafka was reset or the topic was "
            "made anew; restore Kafka's data, or start with an empty database"
        )
    return int(row[1])


async def load(
    connection: Connection,
    envelope: Proposal,
    needs: Needs,
    *,
    partition: int,
    topic_identity: str,
    similar_memories: int,
) -> Loaded:
    """Lock the position, then read the state that ``needs`` names.

    Plain statements, one after the other: at the end of a pipeline the server does not arm its time-out for idle
    transactions, and a process frozen here would hold its partition for ever.
    """
    scope = {"tenant_id": envelope.tenant_id, "user_id": envelope.user_id, "similar_memories": similar_memories}
    last_offset = await lock_position(connection, partition, topic_identity)
    row = await (await connection.execute(sql("decision_state"), _state_names(envelope, needs))).fetchone()
    vectors: Sequence[tuple[Any, ...]] = ()
    if needs.vectors:
        vectors = await (await connection.execute(sql("decision_vectors"), scope, binary=True)).fetchall()
    if row is None:
        raise Broken("the state of a user came back empty")
    return _loaded(last_offset, msgspec.json.decode(row[0], type=_StateRow), vectors)


def _state_names(envelope: Proposal, needs: Needs) -> dict[str, Any]:
    return {
        "tenant_id": envelope.tenant_id,
        "user_id": envelope.user_id,
        "proposal_id": envelope.proposal_id,
        "stated_at_ms": envelope.stated_at_ms,
        "now_ms": envelope.occurred_at_ms,
        "keys": list(needs.keys),
        "link_groups": list(needs.link_groups),
        "memory_ids": list(needs.memory_ids),
        "entry_ids": list(needs.entry_ids),
        "whole_user": needs.whole_user,
        "history": needs.history,
        "chain_ms": [point[0] for point in needs.chain_points],
        "chain_created": [point[1] for point in needs.chain_points],
        "chain_ordinals": [point[2] for point in needs.chain_points],
        "chain_ids": [point[3] for point in needs.chain_points],
    }


def _loaded(last_offset: int, row: _StateRow, vectors: Sequence[tuple[Any, ...]]) -> Loaded:
    recent: dict[str, list[Vector]] = {}
    for memory_id, revision, vector in vectors:
        recent.setdefault(str(memory_id), []).append(Vector(revision, values_of(vector)))
    key_ids = {name: key_id for name, key_id in row.memory_keys.items() if key_id}
    for raw in (row.pending, row.reviews, row.quarantine):
        key_ids |= {k.entry_id: k.key_id for k in msgspec.json.decode(raw, type=list[_Key]) if k.key_id}
    state = UserState(
        memories={m.memory_id: as_decided(m) for m in row.memories},
        recent=tuple(MemoryVectors(memory_id=name, vectors=tuple(found)) for name, found in recent.items()),
        pending={e.entry_id: e for e in msgspec.json.decode(row.pending, type=list[PendingEntry])},
        reviews={e.entry_id: e for e in msgspec.json.decode(row.reviews, type=list[ReviewEntry])},
        quarantine={e.entry_id: e for e in msgspec.json.decode(row.quarantine, type=list[QuarantineEntry])},
        before=row.before,
        history={(m.memory_id, m.version): as_decided(m) for m in row.history},
    )
    return Loaded(last_offset, state, key_ids, row.outcome)


def as_decided(memory: Memory) -> Memory:
    """Return a memory read from Postgres as it was decided: ``jsonb`` writes values in a form of its own."""
    return replace(memory, value=canonical_value(memory.value))


@dataclass(slots=True)
class _Rows:
    memories: list[Any] = field(default_factory=list)
    history: list[Any] = field(default_factory=list)
    edges: list[Any] = field(default_factory=list)
    edges_of: list[str] = field(default_factory=list)
    relations: list[Any] = field(default_factory=list)
    relations_of: list[str] = field(default_factory=list)
    prune: bool = False
    vectors: list[dict[str, Any]] = field(default_factory=list)
    vectors_of: list[str] = field(default_factory=list)
    entries: dict[str, list[Any]] = field(default_factory=lambda: {queue: [] for queue in _QUEUES})
    marks: dict[str, int] = field(default_factory=dict)
    outcome: CommandOutcome | None = None


async def write(
    connection: Connection,
    envelope: Proposal,
    published: Sequence[Published],
    known: UserState,
    *,
    shard: int,
    position: Origin,
) -> None:
    """Write every change, its outbox row and the position; the caller's transaction commits it.

    Raises ``Broken`` when a memory is not exactly one version older than its change.
    """
    rows = _rows_of(envelope, published, known)
    scope = {"tenant_id": envelope.tenant_id, "user_id": envelope.user_id}
    async with connection.pipeline():
        written = None
        if rows.memories:
            written = await connection.execute(sql("memories_write"), {"memories": _json(rows.memories)})
            await connection.execute(sql("history_write"), {"history": _json(rows.history)})
        if rows.edges_of:
            names = {**scope, "memory_ids": rows.edges_of, "edges": _json(rows.edges)}
            await connection.execute(sql("edges_write"), names)
        await _write_relations(connection, scope, rows)
        if rows.vectors_of:
            await connection.execute(sql("vectors_clear"), {**scope, "memory_ids": rows.vectors_of})
        for vector in rows.vectors:
            await connection.execute(sql("vectors_write"), {**scope, **vector})
        for queue, entries in rows.entries.items():
            if entries:
                await connection.execute(sql(f"{queue}_write"), {**scope, "entries": _json(entries)})
        if rows.marks:
            marks = {"keys": list(rows.marks), "before_ms": list(rows.marks.values())}
            await connection.execute(sql("before_write"), {**scope, **marks})
        if rows.outcome is not None:
            outcome = {**scope, **asdict(rows.outcome), "memory_ids": list(rows.outcome.memory_ids)}
            await connection.execute(sql("outcome_write"), outcome)
        await connection.execute(sql("outbox_write"), {**scope, "shard": shard, **_outbox(published)})
    # Outside the pipeline, so that the server counts the time from here to the commit.
    await move_position(connection, envelope, position)
    await connection.execute(sql("outbox_notify"), {"shard": str(shard)})
    if written is not None and written.rowcount != len(rows.memories):
        raise Broken("a memory was written by somebody else: remember must be the only writer")


async def _write_relations(connection: Connection, scope: dict[str, Any], rows: _Rows) -> None:
    if rows.prune:
        await connection.execute(sql("relations_clear"), {**scope, "memory_ids": rows.relations_of})
    if rows.relations:
        await connection.execute(sql("relations_write"), {**scope, "relations": _json(rows.relations)})
    if rows.prune:
        await connection.execute(sql("entities_prune"), scope)


async def move_position(connection: Connection, envelope: Proposal | None, position: Origin) -> None:
    """Store that the proposal at ``position`` is decided, and how far its user's inputs are."""
    names = {"partition": position.partition, "offset": position.offset}
    await connection.execute(sql("remember_position_move"), names)
    if envelope is not None and envelope.origin is not None:
        scope = {"tenant_id": envelope.tenant_id, "user_id": envelope.user_id}
        origin = {"partition": envelope.origin.partition, "offset": envelope.origin.offset}
        await connection.execute(sql("user_position_move"), {**scope, **origin})


def _rows_of(envelope: Proposal, published: Sequence[Published], known: UserState) -> _Rows:
    rows = _Rows()
    for one in published:
        change, body = one.change, one.change.body
        match body:
            case BeforeMark():
                rows.marks[body.dedupe_key] = body.before_ms
            case CommandOutcome():
                rows.outcome = body
            case MemoryVectors():
                rows.vectors_of.append(body.memory_id)
                rows.vectors += [
                    {
                        "memory_id": body.memory_id,
                        "revision": vector.revision,
                        "digest": vector_digest(vector.values),
                        "vector": VectorParameter(postgres_vector(vector.values)),
                    }
                    for vector in body.vectors
                ]
            case PendingEntry() | ReviewEntry() | QuarantineEntry():
                rows.entries[change.kind].append({**asdict(body), "key_id": one.key_id or None})
            case Memory() | None:
                _add_memory(rows, envelope, one, known.memories.get(change.aggregate_id))
    return rows


def _add_memory(rows: _Rows, envelope: Proposal, one: Published, known: Memory | None) -> None:
    change = one.change
    memory = evolve_memory(known, change)
    plain = asdict(memory)
    edges, relations = plain.pop("edges"), memory.relations
    rows.memories.append({**plain, "value": Raw(memory.value.encode()), "key_id": one.key_id or None})
    rows.history.append(
        {
            "tenant_id": memory.tenant_id,
            "user_id": memory.user_id,
            "memory_id": memory.memory_id,
            "version": change.version,
            "event_id": one.event_id,
            "op": change.op,
            "status": change.status,
            "content_hash": change.content_hash,
            "reason": change.reason,
            "actor": envelope.actor,
            "proposal_id": envelope.proposal_id,
            "source_event_id": envelope.event_id,
            "occurred_at_ms": change.occurred_at_ms,
            "record": change.body,
        }
    )
    if known is None or known.edges != memory.edges:
        rows.edges_of.append(memory.memory_id)
        rows.edges += [{"memory_id": memory.memory_id, **asdict(edge)} for edge in edges]
    live = memory.status in LIVE
    if known is None or known.relations != relations or (known.status in LIVE) != live:
        rows.prune = rows.prune or bool(known and known.relations)
        rows.relations_of.append(memory.memory_id)
        if memory.status not in ("deleted", "erased"):
            rows.relations += [{"memory_id": memory.memory_id, **asdict(r), "live": live} for r in relations]


def _outbox(published: Sequence[Published]) -> dict[str, Any]:
    return {
        "event_ids": [one.event_id for one in published],
        "aggregate_ids": [one.change.aggregate_id for one in published],
        "versions": [one.change.version for one in published],
        "event_types": [f"{one.change.kind}.{one.change.op}" for one in published],
        "payloads": [one.payload for one in published],
    }


def _json(rows: list[Any]) -> str:
    return msgspec.json.encode(rows).decode()
