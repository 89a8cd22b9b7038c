"""What lies between an input and a memory: candidates, refusals, and the stage events that carry them.

``extract`` makes them, ``admit`` gates and classifies them, ``embed`` adds vectors. Each stage adds to the same record, so
``remember`` reads one shape and a replay needs no model.
"""

from msgspec import Struct

from schemas.inputs import Origin, Sealed


class Relation(Struct, frozen=True, kw_only=True):
    """A triple between two entities; weight 0 to 1. It belongs to the memory that states it."""

    subject_type: str
    subject_id: str
    predicate: str
    object_type: str
    object_id: str
    weight: float = 1.0


class Vector(Struct, frozen=True):
    """An embedding: ``revision`` names model and version, ``values`` are little-endian float32 of that model's dimension."""

    revision: str
    values: bytes


class Candidate(Struct, frozen=True, kw_only=True):
    """A fact proposed by extraction.

    ``subject`` is ``user`` or ``person:<name or kinship>``; ``value`` is a JSON text; ``content`` one sentence.
    ``source`` is one of official_id, business_record, user_statement, assistant, tool, inferred. ``intent`` is one of
    inform, request, cancel, correct, commit. ``negated`` says that this value no longer holds (it ends a memory, it
    makes none). ``causes`` are ordinals of candidates of the same turn. Set by ``admit``: category, tags, slot_hint, scope,
    link_group, outcome (admit, pending, quarantine, reject), rule_id. Set by ``embed``: masked_text, vectors.
    """

    ordinal: int
    type: str
    subject: str
    entity_type: str
    entity_id: str
    attribute: str
    value: str
    content: str
    language: str
    confidence: float
    importance: float
    source: str
    intent: str = "inform"
    negated: bool = False
    locked: bool = False
    tentative: bool = False
    event_time_ms: int | None = None
    valid_from_ms: int | None = None
    valid_to_ms: int | None = None
    expires_at_ms: int | None = None
    source_message_ids: tuple[str, ...] = ()
    relations: tuple[Relation, ...] = ()
    causes: tuple[int, ...] = ()
    category: str = ""
    tags: tuple[str, ...] = ()
    slot_hint: str = ""
    scope: str = ""
    link_group: str = ""
    outcome: str = ""
    rule_id: str = ""
    masked_text: str = ""
    vectors: tuple[Vector, ...] = ()


class Refusal(Struct, frozen=True, kw_only=True):
    """Why something was kept out: gate, rule, outcome (reject or quarantine), side, and a masked excerpt (≤ 200 characters).

    ``side`` is user, assistant or candidate; ``ordinal`` names the candidate, if it was one.
    """

    gate: str
    rule_id: str
    gate_version: str
    outcome: str
    side: str
    excerpt: str
    ordinal: int | None = None


class Extraction(Struct, frozen=True, kw_only=True):
    """The whole outcome of one input: candidates, refusals, and what made them.

    ``status`` is extracted, nothing, noise, refused, rejected or erased. ``prompt`` and ``reply`` are empty for rules.
    """

    status: str
    extractor: str = ""
    extractor_revision: str = ""
    prompt_version: str = ""
    prompt: str = ""
    reply: str = ""
    model: str = ""
    gate_version: str = ""
    classifier_version: str = ""
    reason: str = ""
    candidates: tuple[Candidate, ...] = ()
    refusals: tuple[Refusal, ...] = ()


class StageEvent(Struct, frozen=True, kw_only=True):
    """What travels in ``memory.extracted`` and ``memory.admitted``: the scope and times of the input, and a sealed ``Extraction``.

    ``body`` is ``None`` when nothing was found or the input was refused; the event still travels, so that waiting for a
    position always ends. ``stated_at_ms`` is the earlier of device and arrival time.
    """

    event_id: str
    tenant_id: str
    user_id: str
    session_id: str
    origin: Origin
    stated_at_ms: int
    received_at_ms: int
    status: str
    timezone_offset: str | None = None
    body: Sealed | None = None


class MemoryExtracted(StageEvent, frozen=True, kw_only=True):
    """The outcome of ``extract`` for one input."""


class MemoryAdmitted(StageEvent, frozen=True, kw_only=True):
    """The outcome of ``admit`` for one input."""
