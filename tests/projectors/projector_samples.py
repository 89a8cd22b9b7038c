"""Updates and events for the tests of this folder: small, telling apart, always the same."""

import hashlib
import uuid
from collections.abc import Sequence

import numpy as np

from schemas.candidates import Relation, Vector
from schemas.inputs import Origin, Sealed
from schemas.memories import GONE, Edge, Memory, MemoryUpdated
from schemas.working import WorkingEvent

REVISION = "test-1"
DIMENSION = 8


def memory_id(number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))


def vector(number: int, revision: str = REVISION) -> Vector:
    values = np.random.default_rng(number).standard_normal(DIMENSION).astype("<f4")
    return Vector(revision, values.tobytes())


def update(
    number: int,
    *,
    version: int = 1,
    status: str = "active",
    tenant_id: str = "t1",
    user_id: str = "u1",
    edges: Sequence[Edge] = (),
    relations: Sequence[Relation] = (),
    vectors: Sequence[Vector] | None = None,
    category: str = "preference",
    tags: tuple[str, ...] = (),
    content: str = "",
    importance: float = 0.5,
) -> MemoryUpdated:
    """Return the snapshot of memory ``number``; its hash follows from all that is given."""
    said = repr((number, version, status, sorted(edges), sorted(map(repr, relations)), content))
    content_hash = hashlib.sha256(said.encode()).hexdigest()
    memory = Memory(
        memory_id=memory_id(number),
        tenant_id=tenant_id,
        user_id=user_id,
        subject="user",
        category=category,
        type="preference",
        entity_type="",
        entity_id="",
        attribute="likes",
        dedupe_key=f"user/likes/{number}",
        value='"tea"',
        content=content or f"The user likes tea {number}.",
        language="en",
        importance=importance,
        confidence=0.9,
        source="user_statement",
        status=status,
        version=version,
        body_version=1,
        content_hash=content_hash,
        stated_at_ms=1_790_000_000_000 + number,
        created_at_ms=1_790_000_000_000,
        updated_at_ms=1_790_000_000_000,
        tags=tags,
        edges=tuple(edges),
        relations=tuple(relations),
    )
    return MemoryUpdated(
        event_id=f"event-{number}-{version}",
        memory_id=memory.memory_id,
        tenant_id=tenant_id,
        user_id=user_id,
        op="created" if version == 1 else "updated",
        status=status,
        version=version,
        content_hash=content_hash,
        occurred_at_ms=1_790_000_000_000,
        cause="test",
        memory=None if status in GONE else memory,
        vectors=tuple((vector(number),) if vectors is None else vectors) if status not in GONE else (),
    )


def belongs(entity: str, weight: float = 1.0) -> Edge:
    return Edge(kind="BELONGS_TO", target_kind="entity", target_id=entity, weight=weight)


def follows(number: int) -> Edge:
    return Edge(kind="FOLLOWS", target_kind="memory", target_id=memory_id(number))


def relation(subject: str, predicate: str, target: str, weight: float = 1.0) -> Relation:
    subject_type, _, subject_id = subject.partition(":")
    object_type, _, object_id = target.partition(":")
    return Relation(
        subject_type=subject_type,
        subject_id=subject_id,
        predicate=predicate,
        object_type=object_type,
        object_id=object_id,
        weight=weight,
    )


def event(
    sequence: int,
    *,
    tenant_id: str = "t1",
    user_id: str = "u1",
    session_id: str = "s1",
    event_type: str = "UserAskedQuestion",
    event_id: str = "",
    content_hash: str = "",
    body: Sealed | None = None,
    occurred_at_ms: int = 0,
) -> WorkingEvent:
    name = f"{tenant_id}.{user_id}.{session_id}.{sequence}"
    return WorkingEvent(
        event_id=event_id or f"event-{name}",
        tenant_id=tenant_id,
        user_id=user_id,
        session_id=session_id,
        sequence=sequence,
        event_type=event_type,
        state_from="idle",
        state_to="querying_knowledge",
        occurred_at_ms=occurred_at_ms or 1_790_000_000_000 + sequence * 1000,
        content_hash=content_hash or hashlib.sha256(name.encode()).hexdigest(),
        origin=Origin(0, sequence),
        body=body,
    )
