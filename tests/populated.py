"""Memories and session events written straight into Postgres and projected through the real doors, for tests of the proof."""

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import psycopg

from projectors.door import Door
from projectors.entries import Generation
from projectors.projection import influx_point, milvus_row, neo4j_node
from schemas.candidates import Relation, Vector
from schemas.digests import vector_digest
from schemas.inputs import Origin
from schemas.memories import GONE, Edge, Memory, MemoryUpdated
from schemas.settings import Settings
from schemas.working import WorkingEvent
from streams.postgres import connection_text

REVISION, DIMENSION = "test-1", 8
STATUSES = ("active", "active", "active", "active", "tentative", "superseded", "deleted", "erased")


@dataclass(frozen=True, slots=True)
class World:
    updates: tuple[MemoryUpdated, ...]
    events: tuple[WorkingEvent, ...]


def admin(settings: Settings) -> "psycopg.Connection[Any]":
    """A superuser's connection: tests set the stage past every policy."""
    return psycopg.connect(connection_text(settings, settings.postgres_admin_user), autocommit=True)


def made(count: int, *, tenants: int = 2, users: int = 4, seed: int = 1, mark: str = "") -> World:
    chance = random.Random(seed)  # noqa: S311 - test data
    updates: list[MemoryUpdated] = []
    ids: dict[tuple[str, str], list[str]] = {}
    for number in range(count):
        tenant, user = f"tenant{mark}{number % tenants}", f"user{number % users}"
        earlier = ids.setdefault((tenant, user), [])
        memory = _memory(chance, number, tenant, user, earlier)
        earlier.append(memory.memory_id)
        updates.append(_update(chance, memory))
    events = tuple(
        _event(number, f"tenant{mark}{number % tenants}", f"user{number % users}") for number in range(count)
    )
    return World(tuple(updates), events)


def _memory(chance: random.Random, number: int, tenant: str, user: str, earlier: list[str]) -> Memory:
    status = STATUSES[number % len(STATUSES)]
    edges = [Edge(kind="BELONGS_TO", target_kind="entity", target_id=f"user:{user}")]
    if earlier:
        edges.append(Edge(kind="FOLLOWS", target_kind="memory", target_id=earlier[-1]))
        edges.append(Edge(kind="SIMILAR_TO", target_kind="memory", target_id=earlier[0], weight=chance.random()))
    relations = (
        Relation(
            subject_type="user", subject_id=user, predicate="likes", object_type="thing", object_id=f"thing{number}"
        ),
    )
    return Memory(
        memory_id=str(uuid.UUID(int=chance.getrandbits(128), version=4)),
        tenant_id=tenant,
        user_id=user,
        subject="user",
        category="preference",
        type="user_profile",
        entity_type="user",
        entity_id="self",
        attribute="likes",
        dedupe_key=f"key{number}",
        value=f'"thing{number}"',
        content=f"The user likes thing{number}",
        language="en",
        importance=0.7,
        confidence=0.85,
        source="user_statement",
        status=status,
        version=1 + number % 3,
        body_version=1,
        content_hash=f"{number:064x}",
        stated_at_ms=1_700_000_000_000 + number,
        created_at_ms=1_700_000_000_000 + number,
        updated_at_ms=1_700_000_000_000 + number,
        tags=("a",),
        edges=tuple(edges) if status not in GONE else (),
        relations=relations if status not in GONE else (),
    )


def _update(chance: random.Random, memory: Memory, *, version: int | None = None) -> MemoryUpdated:
    values = np.asarray([chance.gauss(0, 1) for _ in range(DIMENSION)], dtype="<f4").tobytes()
    gone = memory.status in GONE
    return MemoryUpdated(
        event_id=str(uuid.uuid4()),
        memory_id=memory.memory_id,
        tenant_id=memory.tenant_id,
        user_id=memory.user_id,
        op="created",
        status=memory.status,
        version=memory.version,
        content_hash=memory.content_hash,
        occurred_at_ms=memory.updated_at_ms,
        cause="test",
        memory=None if gone else memory,
        vectors=() if gone else (Vector(REVISION, values),),
    )


def _event(number: int, tenant: str, user: str) -> WorkingEvent:
    return WorkingEvent(
        event_id=f"event-{tenant}-{user}-{number}",
        tenant_id=tenant,
        user_id=user,
        session_id=f"session{number % 3}",
        sequence=number + 1,
        event_type="UserAsked",
        state_from="idle",
        state_to="querying_knowledge",
        occurred_at_ms=1_700_000_000_000 + number,
        content_hash=f"{number:064x}",
        origin=Origin(0, number),
    )


def insert(settings: Settings, world: World) -> None:
    """Write the world into Postgres."""
    with admin(settings) as connection, connection.transaction():
        for update in world.updates:
            insert_memory(connection, update)
        connection.cursor().executemany(
            "INSERT INTO working_events (tenant_id, user_id, session_id, sequence, event_id, event_type, state_from, state_to,"
            " occurred_at_ms, content_hash, origin_partition, origin_offset) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 0, 0)",
            [
                (
                    event.tenant_id,
                    event.user_id,
                    event.session_id,
                    event.sequence,
                    event.event_id,
                    event.event_type,
                    event.state_from,
                    event.state_to,
                    event.occurred_at_ms,
                    event.content_hash,
                )
                for event in world.events
            ],
        )


_STORED = [field for field in Memory.__struct_fields__ if field != "edges"]


def insert_memory(connection: "psycopg.Connection[Any]", update: MemoryUpdated) -> None:
    memory = update.memory or _gone(update)
    values: dict[str, Any] = {field: getattr(memory, field) for field in _STORED}
    values |= {
        "relations": msgspec.json.encode(memory.relations).decode(),
        "provenance": msgspec.json.encode(memory.provenance).decode(),
        "tags": list(memory.tags),
        "supersedes": list(memory.supersedes),
        "source_event_ids": list(memory.source_event_ids),
        "source_message_ids": list(memory.source_message_ids),
        "source_memory_ids": list(memory.source_memory_ids),
    }
    casts = {"supersedes": "::uuid[]", "source_memory_ids": "::uuid[]", "tags": "::text[]"}
    columns = ", ".join(_STORED)
    places = ", ".join(f"%({field})s{casts.get(field, '')}" for field in _STORED)
    connection.execute(f"INSERT INTO memories ({columns}) VALUES ({places})", values)
    scope = (memory.tenant_id, memory.user_id, memory.memory_id)
    connection.execute(
        "INSERT INTO memory_history (tenant_id, user_id, memory_id, version, event_id, op, status, content_hash, reason, actor,"
        " proposal_id, source_event_id, occurred_at_ms, record)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, '', 'test', 'test', '', %s, %s)",
        (
            *scope,
            memory.version,
            update.event_id,
            update.op,
            memory.status,
            memory.content_hash,
            update.occurred_at_ms,
            msgspec.json.encode(memory).decode(),
        ),
    )
    for edge in memory.edges:
        connection.execute(
            "INSERT INTO memory_edges VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (*scope, edge.kind, edge.target_kind, edge.target_id, edge.weight),
        )
    for vector in update.vectors:
        floats = np.frombuffer(vector.values, dtype="<f4").tolist()
        connection.execute(
            "INSERT INTO memory_vectors VALUES (%s, %s, %s, %s, %s, %s::real[]::vector)",
            (*scope, vector.revision, vector_digest(vector.values), floats),
        )


def _gone(update: MemoryUpdated) -> Memory:
    blank: dict[str, Any] = dict.fromkeys(
        (
            "subject",
            "category",
            "type",
            "entity_type",
            "entity_id",
            "attribute",
            "dedupe_key",
            "content",
            "language",
            "source",
        ),
        "",
    )
    return Memory(
        **blank,
        memory_id=update.memory_id,
        tenant_id=update.tenant_id,
        user_id=update.user_id,
        value="null",
        importance=0.0,
        confidence=0.0,
        status=update.status,
        version=update.version,
        body_version=1,
        content_hash=update.content_hash,
        stated_at_ms=0,
        created_at_ms=0,
        updated_at_ms=0,
    )


async def project(door: Door[Any], generation: Generation, world: World) -> None:
    """Write the world into a store, in batches, as its projector would."""
    items: Sequence[Any]
    if generation.store == "milvus":
        items = [milvus_row(update, generation.revision, generation.dimension) for update in world.updates]
    elif generation.store == "neo4j":
        items = [neo4j_node(update) for update in world.updates]
    else:
        items = [influx_point(event, None) for event in world.events]
    for start in range(0, len(items), 500):
        await door.write(generation, items[start : start + 500])
    await door.flush(generation)
