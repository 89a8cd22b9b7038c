"""The authoritative record and what is published about it.

``Memory`` is a row of Postgres with its outgoing edges and relations; ``MemoryChanged`` is one committed effect in
``memory.changes``; ``MemoryUpdated`` is the newest full snapshot in ``memory.updated``, a public contract.
"""

from msgspec import Struct

from schemas.candidates import Relation, Vector
from schemas.inputs import Origin, Sealed

STATUSES = ("active", "tentative", "review", "superseded", "historical", "expired", "deleted", "erased")
GONE = ("deleted", "erased")
# What a repair travels under: the record's header, and what is said of something that Postgres does not know.
REPAIR_HEADER = "repair"
ORPHANED = "orphaned"


class Edge(Struct, frozen=True, kw_only=True, order=True):
    """An outgoing edge: FOLLOWS, SIMILAR_TO, CAUSES (to a memory) or BELONGS_TO (to an entity ``type:id``); weight 0 to 1."""

    kind: str
    target_kind: str
    target_id: str
    weight: float = 1.0


class Memory(Struct, frozen=True, kw_only=True):
    """A fact with version, hash, confidence and provenance; times are milliseconds since the epoch, ``value`` is a JSON text."""

    memory_id: str
    tenant_id: str
    user_id: str
    subject: str
    category: str
    type: str
    entity_type: str
    entity_id: str
    attribute: str
    dedupe_key: str
    value: str
    content: str
    language: str
    importance: float
    confidence: float
    source: str
    status: str
    version: int
    body_version: int
    content_hash: str
    stated_at_ms: int
    created_at_ms: int
    updated_at_ms: int
    org_unit: str = ""
    intent: str = "inform"
    locked: bool = False
    tags: tuple[str, ...] = ()
    slot_hint: str = ""
    scope: str = ""
    link_group: str = ""
    needs_check: str = ""
    event_time_ms: int | None = None
    valid_from_ms: int | None = None
    valid_to_ms: int | None = None
    expires_at_ms: int | None = None
    last_confirmed_at_ms: int | None = None
    superseded_at_ms: int | None = None
    deleted_at_ms: int | None = None
    confirmations: int = 0
    supersedes: tuple[str, ...] = ()
    source_event_ids: tuple[str, ...] = ()
    source_message_ids: tuple[str, ...] = ()
    source_memory_ids: tuple[str, ...] = ()
    provenance: dict[str, str] = {}
    edges: tuple[Edge, ...] = ()
    relations: tuple[Relation, ...] = ()


class PendingEntry(Struct, frozen=True, kw_only=True):
    """A candidate of low confidence that waits for a confirmation, as JSON, with the key it would have."""

    entry_id: str
    dedupe_key: str
    content: str
    confidence: float
    candidate: str
    reason: str
    source_event_id: str
    created_at_ms: int
    expires_at_ms: int
    state: str = "waiting"


class ReviewEntry(Struct, frozen=True, kw_only=True):
    """A change too big to believe at once: the memory that stays, and what was said instead (a candidate as JSON).

    ``other_memory_id`` names the memory kept beside it, if there is one. ``state`` is waiting, approved, rejected or forgotten.
    """

    entry_id: str
    memory_id: str
    dedupe_key: str
    content: str
    candidate: str
    reason: str
    source_event_id: str
    created_at_ms: int
    other_memory_id: str = ""
    state: str = "waiting"


class QuarantineEntry(Struct, frozen=True, kw_only=True):
    """Refused content kept for review: which gate and rule, and a masked excerpt; never the text itself."""

    entry_id: str
    gate: str
    rule_id: str
    gate_version: str
    outcome: str
    side: str
    excerpt: str
    source_event_id: str
    created_at_ms: int
    state: str = "waiting"


class MemoryVectors(Struct, frozen=True, kw_only=True):
    """The vectors of one memory, one per live revision."""

    memory_id: str
    vectors: tuple[Vector, ...]


class MemoryChanged(Struct, frozen=True, kw_only=True):
    """One committed effect of a proposal, in order per user; the fold of these is the whole of memory.

    ``kind`` names the sealed body: memory (``Memory``), vectors (``MemoryVectors``), pending (``PendingEntry``), quarantine
    (``QuarantineEntry``), review (``ReviewEntry``). Ids, version, op, status and hash stand outside ``body``, so a fold passes
    over erased memories. Two kinds have no body: before (``aggregate_id`` is the forgotten key, empty for the whole user,
    ``version`` the time of the click) and command (``aggregate_id`` is the input's event, else the proposal, ``op`` the kind of
    proposal, ``status`` the outcome, ``version`` the number of refused candidates); every proposal ends in one.
    ``position`` is the place of the proposal in ``memory.proposals``, ``origin`` that of the input in ``chat.turns``.
    """

    event_id: str
    tenant_id: str
    user_id: str
    aggregate_id: str
    kind: str
    op: str
    status: str
    version: int
    content_hash: str
    occurred_at_ms: int
    proposal_id: str
    actor: str
    reason: str = ""
    position: Origin | None = None
    origin: Origin | None = None
    body: Sealed | None = None


class MemoryUpdated(Struct, frozen=True, kw_only=True):
    """The newest state of one memory for projectors and other services; ``memory`` is ``None`` once deleted or erased.

    ``op`` is created, updated, superseded, restored, deleted, erased, revectored or orphaned. Dedupe by ``memory_id``
    and ``version``.
    """

    event_id: str
    memory_id: str
    tenant_id: str
    user_id: str
    op: str
    status: str
    version: int
    content_hash: str
    occurred_at_ms: int
    cause: str
    memory: Memory | None = None
    vectors: tuple[Vector, ...] = ()


class Repair(Struct, frozen=True, kw_only=True):
    """The header of a repair: the store and generation it is for, and exactly what the reconciler saw there.

    Travels as the Kafka header ``repair`` (JSON). ``observed_version`` is -1 when the store had nothing. ``place`` is where an
    event that Postgres does not know stands in InfluxDB: ``session_id/sequence/occurred_at_ms``, so that it can be removed.
    """

    store: str
    generation: int
    observed_version: int
    observed_hash: str = ""
    observed_digest: str = ""
    place: str = ""
