"""Reads the parts of the truth that proposals can touch, and writes what was decided; both inside the caller's transaction.

Called by ``remember`` alone. It decides nothing: states and documents go through as they are. All SQL stands in named files and
in functions of the database, which serve one user after the other, each in the scope of that user alone.

Plain statements, never a pipeline: at the end of a pipeline the server does not arm its time-out for idle transactions, and a
process frozen there would hold its partitions for ever.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from schemas.candidates import Vector
from schemas.errors import Broken
from schemas.memories import Memory, MemoryVectors, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.proposals import Proposal
from streams.canonical import canonical_value
from streams.decision_state import Needs, UserState
from streams.postgres import Connection, sql
from streams.truth_rows import Document
from streams.vector_bytes import values_in


class KnownOutcome(Struct, frozen=True):
    """The outcome of a proposal that was decided before."""

    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was found: the state, the data keys by record, an earlier outcome."""

    state: UserState
    key_ids: dict[str, str]
    outcome: KnownOutcome | None = None


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
    vectors: tuple[tuple[str, str], ...]
    outcome: KnownOutcome | None = None


Entry = TypeVar("Entry")
_STATE_ROW = msgspec.json.Decoder(_StateRow)
_NOTHING = b"[]"


async def load(
    connection: Connection, asked: Sequence[tuple[Proposal, Needs]], *, similar_memories: int
) -> list[Loaded]:
    """Return, for each proposal, the part of its user's state that its needs name; one round trip for all of them."""
    if not asked:
        return []
    requests = [_request(place, *one, similar_memories) for place, one in enumerate(asked)]
    cursor = await connection.execute(sql("decision_states"), {"requests": _json(requests)}, binary=True)
    found = {place: _loaded(_STATE_ROW.decode(state), vectors) for place, state, vectors in await cursor.fetchall()}
    if len(found) != len(asked):
        raise Broken("the state of a user came back empty")
    return [found[place] for place in range(len(asked))]


def _request(place: int, envelope: Proposal, needs: Needs, similar_memories: int) -> dict[str, Any]:
    """Return what the SQL function ``decision_states`` looks for; what is absent is not looked for."""
    request: dict[str, Any] = {
        "place": place,
        "tenant_id": envelope.tenant_id,
        "user_id": envelope.user_id,
        "proposal_id": envelope.proposal_id,
        "stated_at_ms": envelope.stated_at_ms,
        "now_ms": envelope.occurred_at_ms,
        "whole_user": needs.whole_user,
        "history": needs.history,
        "vectors": similar_memories if needs.vectors else 0,
    }
    for name in ("keys", "link_groups", "memory_ids", "entry_ids"):
        if getattr(needs, name):
            request[name] = getattr(needs, name)
    if needs.chain_points:
        names = ("chain_ms", "chain_created", "chain_ordinals", "chain_ids")
        request |= dict(zip(names, zip(*needs.chain_points, strict=True), strict=True))
    return request


def _loaded(row: _StateRow, vectors: bytes | None) -> Loaded:
    recent: dict[str, list[Vector]] = {}
    for (memory_id, revision), values in zip(row.vectors, values_in(vectors or b""), strict=True):
        recent.setdefault(memory_id, []).append(Vector(revision, values))
    key_ids = {name: key_id for name, key_id in row.memory_keys.items() if key_id}
    for raw in (row.pending, row.reviews, row.quarantine):
        key_ids |= {k.entry_id: k.key_id for k in _entries(raw, _Key) if k.key_id}
    state = UserState(
        memories={m.memory_id: as_decided(m) for m in row.memories},
        recent=tuple(MemoryVectors(memory_id=name, vectors=tuple(found)) for name, found in recent.items()),
        pending={e.entry_id: e for e in _entries(row.pending, PendingEntry)},
        reviews={e.entry_id: e for e in _entries(row.reviews, ReviewEntry)},
        quarantine={e.entry_id: e for e in _entries(row.quarantine, QuarantineEntry)},
        before=row.before,
        history={(m.memory_id, m.version): as_decided(m) for m in row.history},
    )
    return Loaded(state, key_ids, row.outcome)


def _entries(raw: Raw, entry_type: type[Entry]) -> list[Entry]:
    text = bytes(raw)
    return [] if text == _NOTHING else msgspec.json.decode(text, type=list[entry_type])  # type: ignore[valid-type]


def as_decided(memory: Memory) -> Memory:
    """Return a memory read from Postgres as it was decided: ``jsonb`` writes values in a form of its own."""
    return replace(memory, value=canonical_value(memory.value))


async def write(connection: Connection, documents: Sequence[Document], moved: Mapping[int, int]) -> None:
    """Write the documents in their order and the offsets that partitions were ``moved`` to, and wake the relay.

    The caller's transaction commits it. Raises ``Broken`` when a memory is not exactly one version older than its change.
    """
    names = {
        "documents": _json(documents),
        "partitions": list(moved),
        "offsets": list(moved.values()),
        "shards": sorted({document["shard"] for document in documents if "outbox" in document}),
    }
    row = await (await connection.execute(sql("remember_write"), names)).fetchone()
    if row is None or row[0] != 0:
        raise Broken("a memory was written by somebody else: remember must be the only writer")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
