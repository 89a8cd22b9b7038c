"""What an outbox row becomes on the topics: the change, the memory's newest snapshot, the event of a session.

Called by the relay. Pure: rows and snapshots come in, messages go out, in the order in which they must be sent.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from schemas.candidates import Vector
from schemas.codec import Codec
from schemas.errors import Broken, Rejected
from schemas.ids import routing_key
from schemas.inputs import Origin, Sealed
from schemas.memories import GONE, ORPHANED, REPAIR_HEADER, Memory, MemoryUpdated, Repair
from schemas.topics import CHANGES, UPDATED, WORKING, Topic
from schemas.working import WorkingEvent
from streams.canonical import canonical_value
from streams.changes import effect_id

REVECTORED = "revectored"
# Most values are a text without escapes or a small whole number: these have one JSON form only.
_IS_CANONICAL = re.compile(r"""(?:"[^"\\\x00-\x1f]*"|0|-?[1-9][0-9]{0,14}|true|false|null)\Z""")
_WITH_SNAPSHOT = ("memory", "vectors")


class OutboxRow(msgspec.Struct, frozen=True):
    """One row of the outbox; ``repair`` is the JSON of the repair header, ``payload`` the framed event (none for repairs)."""

    outbox_id: int
    event_id: str
    aggregate_id: str
    tenant_id: str
    user_id: str
    shard: int
    aggregate_version: int
    event_type: str
    target: str
    repair: str | None
    payload: bytes | None
    attempts: int

    @property
    def user(self) -> str:
        """The user as in the routing key."""
        return f"{self.tenant_id}/{self.user_id}"

    @property
    def wants_snapshot(self) -> bool:
        """Whether the memory's newest state is published with this row."""
        return self.target == "memory" and (
            self.repair is not None or self.event_type.partition(".")[0] in _WITH_SNAPSHOT
        )

    @property
    def is_of_vectors(self) -> bool:
        """Whether the row says that a memory has other vectors."""
        return self.event_type.startswith("vectors.")

    @property
    def wants_working_event(self) -> bool:
        """Whether the event of a session must be read again: a repair has no payload of its own."""
        return self.target == "working" and self.repair is not None


class Snapshot(msgspec.Struct, frozen=True):
    """The current row of a memory and the change that made it."""

    memory: Memory
    op: str
    event_id: str
    occurred_at_ms: int
    proposal_id: str
    vectors: tuple[Vector, ...]


class Message(msgspec.Struct, frozen=True):
    """One record to send, with its explicit partition."""

    topic: Topic
    key: bytes
    partition: int
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Truth:
    """What was read for a batch of rows: snapshots by memory id, events of sessions by event id."""

    snapshots: Mapping[str, Snapshot]
    working_events: Mapping[str, WorkingEvent]


def snapshot_of(columns: tuple[str, str, str, int, str], vectors: tuple[Vector, ...]) -> Snapshot:
    """Return a snapshot from what Postgres gives: record (JSON), op, event id, time (ms since the epoch), proposal id."""
    record_json, op, event_id, occurred_at_ms, proposal_id = columns
    memory = msgspec.json.decode(record_json, type=Memory)
    if not _IS_CANONICAL.match(memory.value):
        memory = msgspec.structs.replace(memory, value=canonical_value(memory.value))
    return Snapshot(memory, op, event_id, occurred_at_ms, proposal_id, vectors)


def last_of_memory(rows: Sequence[OutboxRow]) -> frozenset[int]:
    """Return the rows (by number) with which snapshots are sent: the last one of each memory, and every repair.

    A snapshot is the memory's current row, so one per batch says the same as one per row. New vectors of a version go with the
    change that made the version, where both are here: the change is what happened.
    """
    last: dict[str, OutboxRow] = {}
    for row in rows:
        if not row.wants_snapshot or row.repair is not None:
            continue
        known = last.get(row.aggregate_id)
        is_part = known is not None and not known.is_of_vectors and known.aggregate_version == row.aggregate_version
        if not (is_part and row.is_of_vectors):
            last[row.aggregate_id] = row
    return frozenset(row.outbox_id for row in last.values()) | {row.outbox_id for row in rows if row.repair is not None}


def messages_of(row: OutboxRow, truth: Truth, codec: Codec, *, with_snapshot: bool, limit_bytes: int) -> list[Message]:
    """Return what ``row`` becomes, in order.

    Raises ``Rejected`` when the row cannot be published (``too_large``, ``bad_record``): it fails on its own.
    """
    if row.target == "working":
        messages = [_working_message(row, truth, codec)]
    elif row.repair is not None:
        messages = [_updated_message(row, truth, codec)]
    else:
        if row.payload is None:
            raise Rejected(f"outbox row {row.outbox_id} has no payload", code="bad_record")
        messages = [Message(CHANGES, _key(row.tenant_id, row.user_id), row.shard, row.payload)]
        if with_snapshot:
            messages.append(_updated_message(row, truth, codec))
    for message in messages:
        if len(message.value) > limit_bytes:
            reason = f"the event has {len(message.value)} bytes, the limit of {message.topic.name} is {limit_bytes}"
            raise Rejected(reason, code="too_large")
    return messages


_key = lru_cache(maxsize=4096)(routing_key)


def _headers(row: OutboxRow) -> tuple[tuple[str, bytes], ...]:
    return () if row.repair is None else ((REPAIR_HEADER, row.repair.encode()),)


def _updated_message(row: OutboxRow, truth: Truth, codec: Codec) -> Message:
    found = truth.snapshots.get(row.aggregate_id)
    if found is None and row.repair is None:
        raise Broken(f"memory {row.aggregate_id} has an outbox row and no record")
    event = _orphan(row) if found is None else _updated(row, found)
    return Message(UPDATED, row.aggregate_id.encode(), row.shard, codec.encode(event), _headers(row))


def _updated(row: OutboxRow, found: Snapshot) -> MemoryUpdated:
    memory = found.memory
    gone = memory.status in GONE
    # Vectors that came with the change of this version, in one proposal, are a part of it, sent together or not.
    revectored = (
        row.is_of_vectors
        and row.aggregate_version == memory.version
        and row.event_id != effect_id(found.proposal_id, "vectors", memory.memory_id, memory.version, REVECTORED)
    )
    return MemoryUpdated(
        event_id=row.event_id if revectored or row.repair is not None else found.event_id,
        memory_id=memory.memory_id,
        tenant_id=memory.tenant_id,
        user_id=memory.user_id,
        op=REVECTORED if revectored else found.op,
        status=memory.status,
        version=memory.version,
        content_hash=memory.content_hash,
        occurred_at_ms=found.occurred_at_ms,
        cause=found.proposal_id,
        memory=None if gone else memory,
        vectors=() if gone else found.vectors,
    )


def _orphan(row: OutboxRow) -> MemoryUpdated:
    """Return the tombstone for an id that a store shows and Postgres does not know."""
    return MemoryUpdated(
        event_id=row.event_id,
        memory_id=row.aggregate_id,
        tenant_id=row.tenant_id,
        user_id=row.user_id,
        op=ORPHANED,
        status="erased",
        version=row.aggregate_version,
        content_hash="",
        occurred_at_ms=0,
        cause="reconcile",
    )


def _working_message(row: OutboxRow, truth: Truth, codec: Codec) -> Message:
    key = _key(row.tenant_id, row.user_id)
    if row.repair is None:
        if row.payload is None:
            raise Rejected(f"outbox row {row.outbox_id} has no payload", code="bad_record")
        return Message(WORKING, key, row.shard, row.payload)
    event = truth.working_events.get(row.aggregate_id) or _orphaned_event(row)
    return Message(WORKING, key, row.shard, codec.encode(event), _headers(row))


def _orphaned_event(row: OutboxRow) -> WorkingEvent:
    """Return the event that removes the point of an event which Postgres does not know; the repair header says where it is."""
    try:
        place = msgspec.json.decode(row.repair or "{}", type=Repair).place
        session_id, sequence, occurred_at_ms = place.split("/")
        position = (int(sequence), int(occurred_at_ms))
    except (msgspec.MsgspecError, ValueError) as error:
        raise Rejected(f"outbox row {row.outbox_id} does not say where its event stands", code="bad_record") from error
    return WorkingEvent(
        event_id=row.aggregate_id,
        tenant_id=row.tenant_id,
        user_id=row.user_id,
        session_id=session_id,
        sequence=position[0],
        event_type=ORPHANED,
        state_from="",
        state_to="",
        occurred_at_ms=position[1],
        content_hash="",
        origin=Origin(row.shard, -1),
    )


def working_event_of(columns: Sequence[object]) -> WorkingEvent:
    """Return the event in a row of ``working_events`` (the columns of ``outbox_working_events.sql``)."""
    names = (
        "event_id",
        "tenant_id",
        "user_id",
        "session_id",
        "sequence",
        "event_type",
        "state_from",
        "state_to",
        "occurred_at_ms",
        "content_hash",
    )
    plain = dict(zip(names, columns, strict=False))
    partition, offset, key_id, nonce, ciphertext = columns[len(names) :]
    body = None if key_id is None else msgspec.convert((key_id, nonce, ciphertext), tuple[str, bytes, bytes])
    event = msgspec.convert({**plain, "origin": {"partition": partition, "offset": offset}}, WorkingEvent)
    return msgspec.structs.replace(event, body=None if body is None else Sealed(*body))
