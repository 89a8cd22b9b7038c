"""The rows that the changes of one proposal make, as the one document that Postgres is given for it.

Called by ``remember``. It decides nothing: what a change says is what the rows say.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from msgspec import Raw
from msgspec.structs import asdict

from schemas.candidates import Relation
from schemas.memories import GONE, Memory, MemoryVectors, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.proposals import Proposal
from streams.changes import BeforeMark, Change, CommandOutcome
from streams.content_hash import vector_digest
from streams.decision_state import LIVE, UserState
from streams.evolve import evolve_memory

Document: TypeAlias = dict[str, Any]
"""Plain data by the names that the SQL function ``remembered`` knows; what is absent is not touched."""


@dataclass(frozen=True, slots=True)
class Published:
    """One change with its event id, the data key that seals it (empty: nothing to seal), and its framed bytes."""

    change: Change
    event_id: str
    key_id: str
    payload: bytes


@dataclass(slots=True)
class _Rows:
    memories: list[Any] = field(default_factory=list)
    history: list[Any] = field(default_factory=list)
    edges: list[Any] = field(default_factory=list)
    edges_of: list[str] = field(default_factory=list)
    relations: list[Any] = field(default_factory=list)
    relations_of: list[str] = field(default_factory=list)
    prune: bool = False
    vectors: list[Any] = field(default_factory=list)
    vectors_of: list[str] = field(default_factory=list)
    pending: list[Any] = field(default_factory=list)
    review: list[Any] = field(default_factory=list)
    quarantine: list[Any] = field(default_factory=list)
    marks: list[Any] = field(default_factory=list)
    outcome: CommandOutcome | None = None
    outbox: list[Any] = field(default_factory=list)


def document_of(envelope: Proposal, published: Sequence[Published], known: UserState, shard: int) -> Document:
    """Return every row of a proposal's changes, its outbox rows and how far its user's inputs are."""
    rows = _Rows()
    for one in published:
        change, body = one.change, one.change.body
        rows.outbox.append(_outbox_row(one))
        match body:
            case BeforeMark() | PendingEntry() | ReviewEntry() | QuarantineEntry():
                _add_entry(rows, body, one.key_id or None)
            case CommandOutcome():
                rows.outcome = body
            case MemoryVectors():
                _add_vectors(rows, body)
            case Memory() | None:
                _add_memory(rows, envelope, one, known.memories.get(change.aggregate_id))
    # Absent in place of empty: the server looks at a list only where there is one.
    found = {name: getattr(rows, name) for name in _Rows.__slots__ if getattr(rows, name)}
    document = {"tenant_id": envelope.tenant_id, "user_id": envelope.user_id, "shard": shard, **found}
    if envelope.origin is not None:
        document |= {"origin_partition": envelope.origin.partition, "origin_offset": envelope.origin.offset}
    return document


def _outbox_row(one: Published) -> dict[str, Any]:
    return {
        "event_id": one.event_id,
        "aggregate_id": one.change.aggregate_id,
        "version": one.change.version,
        "event_type": f"{one.change.kind}.{one.change.op}",
        "payload": one.payload,
    }


def _add_entry(
    rows: _Rows, body: BeforeMark | PendingEntry | ReviewEntry | QuarantineEntry, key_id: str | None
) -> None:
    match body:
        case BeforeMark():
            rows.marks.append(body)
        case PendingEntry():
            rows.pending.append({**asdict(body), "key_id": key_id})
        case ReviewEntry():
            rows.review.append({**asdict(body), "key_id": key_id})
        case QuarantineEntry():
            rows.quarantine.append({**asdict(body), "key_id": key_id})


def _add_vectors(rows: _Rows, body: MemoryVectors) -> None:
    rows.vectors_of.append(body.memory_id)
    rows.vectors += [
        {
            "memory_id": body.memory_id,
            "revision": vector.revision,
            "digest": vector_digest(vector.values),
            # The shortest text of a float64 gives back the float32 that it came from, bit by bit.
            "numbers": np.frombuffer(vector.values, "<f4").tolist(),
        }
        for vector in body.vectors
    ]


def _add_memory(rows: _Rows, envelope: Proposal, one: Published, known: Memory | None) -> None:
    change = one.change
    memory = evolve_memory(known, change)
    plain = asdict(memory)
    edges = plain.pop("edges")
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
    live, stated = memory.status in LIVE, _stated(memory)
    if known is None or _stated(known) != stated or (known.status in LIVE) != live:
        rows.prune = rows.prune or bool(known and known.relations)
        rows.relations_of.append(memory.memory_id)
        rows.relations += [{"memory_id": memory.memory_id, **asdict(r), "live": live} for r in stated]


def _stated(memory: Memory) -> tuple[Relation, ...]:
    """Return the relations that a memory states: one that is deleted or erased states none, whatever it was before."""
    return () if memory.status in GONE else memory.relations
