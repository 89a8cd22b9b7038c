"""The mapping: what an update of a memory, or an event of a session, looks like in each derived store.

Owns which content goes where. Called by the projectors, and by reconcile for what it expects. Pure: the same update
always gives the same row, node or point. No text of a memory goes to Milvus or Neo4j.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from projectors.entries import Fingerprint, Key
from schemas.candidates import Relation
from schemas.digests import vector_digest
from schemas.errors import Rejected
from schemas.ids import check_id
from schemas.memories import GONE, ORPHANED, Edge, MemoryUpdated
from schemas.working import WorkingEvent, WorkingPayload

ACTIVE = "active"
NAME_BYTES = 256
TAGS = 64
MEASUREMENT = "working_memory"
SEQUENCES = 1_000_000  # nanoseconds in a millisecond: a sequence is the part of the time below it
MEMORY_TARGET, ENTITY_TARGET = "memory", "entity"
_NOT_A_WORD = re.compile(r"\W+")
_EMPTY = WorkingPayload(masked_input="")


@dataclass(frozen=True, slots=True)
class MilvusRow:
    """A row of a collection: a real ``vector`` for an active memory, else a tombstone with a constant unit vector."""

    memory_id: str
    tenant_id: str
    user_id: str
    category: str
    tags: tuple[str, ...]
    status: str
    importance: float
    confidence: float
    event_time: int
    fingerprint: Fingerprint
    tombstone: bool
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A memory's node with the set of its outgoing edges and the relations it states; a tombstone has none of them."""

    memory_id: str
    tenant_id: str
    user_id: str
    fingerprint: Fingerprint
    status: str
    tombstone: bool
    properties: dict[str, Any] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True)
class InfluxPoint:
    """An event of a session; ``time_ns`` is unique within it.

    ``delete`` removes every point of this event id instead: the repair of a point that Postgres does not know.
    """

    tenant_id: str
    user_id: str
    session_id: str
    event_type: str
    sequence: int
    time_ns: int
    event_id: str
    content_hash: str
    state_from: str
    state_to: str
    masked_input: str
    fields: str
    delete: bool = False

    @property
    def key(self) -> Key:
        """Return (tenant, user, session, sequence, milliseconds); for a delete (tenant, user, event)."""
        if self.delete:
            return (self.tenant_id, self.user_id, self.event_id)
        return (self.tenant_id, self.user_id, self.session_id, self.sequence, self.time_ns // 1_000_000)


def unit_vector(dimension: int) -> NDArray[np.float32]:
    """Return the constant vector of every tombstone: 1 in the first place, 0 elsewhere."""
    vector = np.zeros(dimension, dtype="<f4")
    vector[0] = 1.0
    return vector


def milvus_fingerprint(version: int, content_hash: str, status: str, revision: str, digest: str) -> Fingerprint:
    """Return what Milvus should show for a memory whose vector of ``revision`` has ``digest`` (empty: no vector)."""
    return Fingerprint(version, content_hash, revision, digest if status == ACTIVE else "")


def milvus_row(update: MemoryUpdated, revision: str, dimension: int) -> MilvusRow:
    """Return the row of ``update`` in a collection of ``revision``; raises ``Rejected`` for what the collection cannot hold."""
    _check_scope(update.memory_id, update.tenant_id, update.user_id)
    _name("content_hash", update.content_hash)
    memory = update.memory
    values = next((vector.values for vector in update.vectors if vector.revision == revision), b"")
    digest = vector_digest(values) if values and memory is not None else ""
    fingerprint = milvus_fingerprint(update.version, update.content_hash, update.status, revision, digest)
    if memory is None or not fingerprint.digest:
        return MilvusRow(
            update.memory_id,
            update.tenant_id,
            update.user_id,
            category="",
            tags=(),
            status=update.status,
            importance=0.0,
            confidence=0.0,
            event_time=0,
            fingerprint=fingerprint,
            tombstone=True,
            vector=unit_vector(dimension),
        )
    return MilvusRow(
        update.memory_id,
        update.tenant_id,
        update.user_id,
        category=_name("category", memory.category),
        tags=_tags(memory.tags),
        status=update.status,
        importance=memory.importance,
        confidence=memory.confidence,
        event_time=memory.stated_at_ms if memory.event_time_ms is None else memory.event_time_ms,
        fingerprint=fingerprint,
        tombstone=False,
        vector=_vector(values, dimension),
    )


def neo4j_fingerprint(
    version: int, content_hash: str, status: str, edges: Sequence[Edge], relations: Sequence[Relation]
) -> Fingerprint:
    """Return what a deep read of Neo4j should show for a memory with these outgoing edges and relations."""
    return Fingerprint(version, content_hash, "", "" if status in GONE else edges_digest(edges, relations))


def neo4j_node(update: MemoryUpdated) -> GraphNode:
    """Return the node of ``update``; raises ``Rejected`` when an id or an edge's name cannot stand in the graph."""
    _check_scope(update.memory_id, update.tenant_id, update.user_id)
    fingerprint = Fingerprint(update.version, update.content_hash)
    memory = update.memory
    if memory is None or update.status in GONE:
        return GraphNode(
            update.memory_id, update.tenant_id, update.user_id, fingerprint, status=update.status, tombstone=True
        )
    for edge in memory.edges:
        edge_type(edge.kind)
        if edge.target_kind not in (MEMORY_TARGET, ENTITY_TARGET):
            raise Rejected("an edge leads to a memory or an entity", code="bad_edge")
    for relation in memory.relations:
        edge_type(relation.predicate)
    return GraphNode(
        update.memory_id,
        update.tenant_id,
        update.user_id,
        fingerprint,
        status=update.status,
        tombstone=False,
        properties={
            "category": memory.category,
            "type": memory.type,
            "subject": memory.subject,
            "attribute": memory.attribute,
            "entity_type": memory.entity_type,
            "importance": memory.importance,
            "confidence": memory.confidence,
            "event_time_ms": memory.stated_at_ms if memory.event_time_ms is None else memory.event_time_ms,
        },
        edges=memory.edges,
        relations=memory.relations,
    )


@lru_cache(maxsize=4096)
def edge_type(name: str) -> str:
    """Return the relationship type of an edge's kind or a relation's predicate: ``works_for`` gives ``WORKS_FOR``."""
    found = _NOT_A_WORD.sub("_", name).strip("_").upper()
    if not found or len(found.encode()) > NAME_BYTES:
        raise Rejected("an edge's kind must have 1 to 256 bytes of letters, digits and _", code="bad_edge")
    return found


def entity_of(target_id: str) -> tuple[str, str]:
    """Split the target ``type:id`` of an edge to an entity; a text without a type is all id."""
    entity_type, _, entity_id = target_id.partition(":")
    return (entity_type, entity_id) if entity_type and entity_id else ("", target_id)


def entity_target(entity_type: str, entity_id: str) -> str:
    """Return the target text of an entity: the inverse of ``entity_of``."""
    return f"{entity_type}:{entity_id}" if entity_type else entity_id


def edges_digest(edges: Sequence[Edge], relations: Sequence[Relation]) -> str:
    """Return 32 hex digits over the set of outgoing edges and relations, in any order; empty when there are none."""
    if not edges and not relations:
        return ""
    out: list[list[str | float]] = [["edge", e.kind, e.target_kind, e.target_id, float(e.weight)] for e in edges]
    out += [
        ["relation", r.subject_type, r.subject_id, r.predicate, r.object_type, r.object_id, float(r.weight)]
        for r in relations
    ]
    out += [["states", *entity] for entity in stated_entities(relations)]
    return lines_digest(out)


def stated_entities(relations: Sequence[Relation]) -> tuple[tuple[str, str], ...]:
    """Return the entities (type, id) that relations name, each once: the memory's STATES edges lead to them."""
    found = {(r.subject_type, r.subject_id) for r in relations} | {(r.object_type, r.object_id) for r in relations}
    return tuple(sorted(found))


def lines_digest(lines: Sequence[Sequence[str | float]]) -> str:
    """Return 32 hex digits over lines of texts and numbers, in any order."""
    digest = hashlib.sha256()
    for line in sorted(msgspec.json.encode(list(line)) for line in lines):
        digest.update(line + b"\n")
    return digest.hexdigest()[:32]


def influx_point(event: WorkingEvent, payload: WorkingPayload | None) -> InfluxPoint:
    """Return the point of ``event``; without ``payload`` (its key is destroyed) the point has no masked input and no fields.

    An event of type ``orphaned`` gives a delete; its session and sequence may be empty. Raises ``Rejected`` for ids and
    sequences that cannot stand in a point.
    """
    _check_owner(event.tenant_id, event.user_id)
    orphaned = event.event_type == ORPHANED
    if not orphaned:
        _check_session(event.session_id, event.event_type)
        if not 0 < event.sequence < SEQUENCES:
            raise Rejected(f"a session holds sequences 1 to {SEQUENCES - 1}", code="bad_sequence")
    shown = payload or _EMPTY
    return InfluxPoint(
        tenant_id=event.tenant_id,
        user_id=event.user_id,
        session_id=event.session_id,
        event_type=event.event_type,
        sequence=event.sequence,
        time_ns=event.occurred_at_ms * SEQUENCES + event.sequence,
        event_id=event.event_id,
        content_hash=event.content_hash,
        state_from=event.state_from,
        state_to=event.state_to,
        masked_input=shown.masked_input,
        fields=msgspec.json.encode(shown.fields, order="sorted").decode(),
        delete=orphaned,
    )


def _check_scope(memory_id: str, tenant_id: str, user_id: str) -> None:
    check_id("memory_id", memory_id)
    _check_owner(tenant_id, user_id)


@lru_cache(maxsize=4096)
def _check_owner(tenant_id: str, user_id: str) -> None:
    check_id("tenant_id", tenant_id)
    check_id("user_id", user_id)


@lru_cache(maxsize=4096)
def _check_session(session_id: str, event_type: str) -> None:
    check_id("session_id", session_id)
    check_id("event_type", event_type)


def _name(field_name: str, text: str) -> str:
    if len(text.encode()) > NAME_BYTES:
        raise Rejected(f"{field_name} is longer than {NAME_BYTES} bytes", code="too_large")
    return text


def _tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    if len(tags) > TAGS:
        raise Rejected(f"a memory has at most {TAGS} tags in Milvus", code="too_large")
    return tuple(_name("tag", tag) for tag in tags)


def _vector(values: bytes, dimension: int) -> NDArray[np.float32]:
    if len(values) != dimension * 4:
        raise Rejected(f"the vector has {len(values) // 4} values, the collection {dimension}", code="bad_vector")
    vector = np.frombuffer(values, dtype="<f4")
    if not np.isfinite(vector).all():
        raise Rejected("the vector has values that are not finite", code="bad_vector")
    return vector
