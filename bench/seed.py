"""Many memories at once, as the write path would have left them: record, history, edges, relations, vector, sealed change.

Called by the groups of the derived stores. What is seeded is made by pure functions; ``seed_memories`` and ``seed_events``
write it in bulk, as administrator.
"""

import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psycopg
from msgspec.structs import asdict, replace
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

from schemas.candidates import Relation, Vector
from schemas.codec import Codec
from schemas.digests import vector_digest
from schemas.ids import derived_id
from schemas.inputs import Origin
from schemas.memories import GONE, Edge, Memory, MemoryChanged
from schemas.routing import partition_of
from schemas.sealing import DataKey
from schemas.settings import Settings
from schemas.working import WorkingEvent, WorkingPayload
from streams.content_hash import content_hash
from streams.embedding import UseEmbedder
from streams.key_store import KeyStore
from streams.postgres import Connection, sql
from streams.sealed_records import seal_record
from streams.vector_bytes import postgres_vector

SQL_FOLDER = Path(__file__).parent / "sql"
BATCH = 500
USERS = 200
SESSION_EVENTS = 20
FIRST_MS = 1_760_000_000_000
# Nine of ten memories are active, as after some months of use.
STATUSES = ("active",) * 18 + ("superseded", "deleted")
Progress = Callable[[int], None]


class VectorParameter:
    """A parameter of type ``vector`` in Postgres' binary form."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class _VectorDumper(Dumper):
    # The type's number differs between databases; the server takes it from the column.
    format = Format.BINARY

    def dump(self, obj: VectorParameter) -> Buffer:
        return obj.data


psycopg.adapters.register_dumper(VectorParameter, _VectorDumper)


@dataclass(frozen=True, slots=True)
class Seeded:
    """A memory with its vector (none when it is gone)."""

    memory: Memory
    vector: Vector | None


def memories_of(count: int, hash_key: bytes, *, users: int = USERS, seed: int = 1) -> tuple[Seeded, ...]:
    """Return ``count`` memories with true content hashes; the users take turns. The same arguments give the same memories."""
    chance = random.Random(seed)  # noqa: S311 - data, not a secret
    vectors = np.random.default_rng(seed).standard_normal((count, UseEmbedder.dimension), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    earlier: dict[int, list[str]] = {}
    made: list[Seeded] = []
    for number in range(count):
        chain = earlier.setdefault(number % users, [])
        memory = _memory(number, number % users, chain, chance)
        memory = replace(memory, content_hash=content_hash(memory, hash_key))
        chain.append(memory.memory_id)
        vector = Vector(UseEmbedder.revision, vectors[number].astype("<f4").tobytes())
        made.append(Seeded(memory, None if memory.status in GONE else vector))
    return tuple(made)


def _memory(number: int, user: int, chain: Sequence[str], chance: random.Random) -> Memory:
    tenant_id, user_id = f"tenant{user % 2}", f"user{user}"
    status = STATUSES[number // USERS % len(STATUSES)]
    gone = status in GONE
    thing, at_ms = f"thing{number % 997}", FIRST_MS + number * 1000
    edges = [Edge(kind="BELONGS_TO", target_kind="entity", target_id=f"user:{user_id}")]
    if chain:
        edges.append(Edge(kind="FOLLOWS", target_kind="memory", target_id=chain[-1]))
        if number % 3 == 0 and len(chain) > 2:
            weight = 0.6 + 0.4 * chance.random()
            edges.append(
                Edge(kind="SIMILAR_TO", target_kind="memory", target_id=chance.choice(chain[:-1]), weight=weight)
            )
    relation = Relation(
        subject_type="user", subject_id=user_id, predicate="likes", object_type="thing", object_id=thing
    )
    return Memory(
        memory_id=derived_id("bench", tenant_id, user_id, str(number)),
        tenant_id=tenant_id,
        user_id=user_id,
        subject="user",
        category="preference",
        type="user_profile",
        entity_type="user",
        entity_id="self",
        attribute="likes",
        dedupe_key=f"user|self|likes|{number}",
        value=f'"{thing}"',
        content=f"The user likes {thing} 用户喜欢{thing}",
        language="zh" if number % 2 else "en",
        importance=0.7,
        confidence=0.85,
        source="user_statement",
        status=status,
        version=1 if status == "active" else 2,
        body_version=1,
        content_hash="",
        stated_at_ms=at_ms,
        created_at_ms=at_ms,
        updated_at_ms=at_ms,
        deleted_at_ms=at_ms if gone else None,
        tags=("likes",),
        source_event_ids=(f"event-{number}",),
        provenance={"extractor": "rules", "ordinal": "0"},
        edges=() if gone else tuple(edges),
        relations=() if gone else (relation,),
    )


async def seed_memories(
    connection: Connection, keys: KeyStore, settings: Settings, seeded: Sequence[Seeded], progress: Progress
) -> None:
    """Write the memories and one outbox row each, in batches of 500; the relay must not run meanwhile."""
    codec = Codec()
    spare = _Spare(keys, len(seeded) // USERS + 1)
    for start in range(0, len(seeded), BATCH):
        batch = seeded[start : start + BATCH]
        sealed = [(one.memory, await spare.take(one.memory.tenant_id, one.memory.user_id)) for one in batch]
        async with connection.transaction():
            await connection.execute(sql("memories_write", SQL_FOLDER), {"memories": _json(map(_record_row, sealed))})
            history = [row for memory, _ in sealed for row in _history_rows(memory)]
            await connection.execute(sql("history_write", SQL_FOLDER), {"history": _json(history)})
            await _write_graph(connection, [memory for memory, _ in sealed])
            await connection.cursor().executemany(
                sql("vectors_write", SQL_FOLDER),
                [_vector_row(one.memory, one.vector) for one in batch if one.vector is not None],
            )
            await _write_outbox(connection, [_change_row(codec, settings, *one) for one in sealed], "memory")
        progress(start + len(batch))
    await connection.execute(
        "INSERT INTO entities (tenant_id, user_id, entity_type, entity_id, names)"
        " SELECT DISTINCT tenant_id, user_id, object_type, object_id, ARRAY[object_id] FROM relations"
        " UNION SELECT DISTINCT tenant_id, user_id, subject_type, subject_id, ARRAY[subject_id] FROM relations"
        " ON CONFLICT DO NOTHING"
    )
    await connection.execute("ANALYZE")


class _Spare:
    """Data keys of a user, minted many at a time."""

    def __init__(self, keys: KeyStore, at_once: int) -> None:
        self._keys = keys
        self._at_once = at_once
        self._kept: dict[tuple[str, str], list[DataKey]] = {}

    async def take(self, tenant_id: str, user_id: str) -> DataKey:
        kept = self._kept.setdefault((tenant_id, user_id), [])
        if not kept:
            kept.extend(await self._keys.mint(tenant_id, user_id, self._at_once))
        return kept.pop()


def _record_row(sealed: tuple[Memory, DataKey]) -> dict[str, Any]:
    memory, key = sealed
    plain = {name: value for name, value in asdict(memory).items() if name != "edges"}
    return {**plain, "value": msgspec.Raw(memory.value.encode()), "key_id": key.key_id}


def _history_rows(memory: Memory) -> list[dict[str, Any]]:
    return [
        {
            "tenant_id": memory.tenant_id,
            "user_id": memory.user_id,
            "memory_id": memory.memory_id,
            "version": version,
            "event_id": _event_id(memory, version),
            "op": _op(memory, version),
            "status": memory.status if version == memory.version else "active",
            "content_hash": memory.content_hash,
            "reason": "",
            "actor": "turn",
            "proposal_id": f"proposal-{memory.memory_id}-{version}",
            "source_event_id": memory.source_event_ids[0],
            "occurred_at_ms": memory.updated_at_ms,
            "record": memory,
        }
        for version in range(1, memory.version + 1)
    ]


def _event_id(memory: Memory, version: int) -> str:
    return derived_id("bench-change", memory.memory_id, str(version))


def _op(memory: Memory, version: int) -> str:
    return "created" if version == 1 else memory.status


async def _write_graph(connection: Connection, memories: Sequence[Memory]) -> None:
    async with connection.cursor() as cursor:
        columns = "tenant_id, user_id, memory_id, kind, target_kind, target_id, weight"
        async with cursor.copy(f"COPY memory_edges ({columns}) FROM STDIN") as copy:
            for memory in memories:
                for edge in memory.edges:
                    scope = (memory.tenant_id, memory.user_id, memory.memory_id)
                    await copy.write_row((*scope, edge.kind, edge.target_kind, edge.target_id, edge.weight))
        async with cursor.copy("COPY relations FROM STDIN") as copy:
            for memory in memories:
                for relation in memory.relations:
                    r = relation
                    ends = (r.subject_type, r.subject_id, r.predicate, r.object_type, r.object_id, r.weight)
                    await copy.write_row((memory.tenant_id, memory.user_id, memory.memory_id, *ends, True))


def _vector_row(memory: Memory, vector: Vector) -> dict[str, Any]:
    return {
        "tenant_id": memory.tenant_id,
        "user_id": memory.user_id,
        "memory_id": memory.memory_id,
        "revision": vector.revision,
        "digest": vector_digest(vector.values),
        "vector": VectorParameter(postgres_vector(vector.values)),
    }


def _change_row(codec: Codec, settings: Settings, memory: Memory, key: DataKey) -> tuple[Any, ...]:
    op = _op(memory, memory.version)
    event = MemoryChanged(
        event_id=_event_id(memory, memory.version),
        tenant_id=memory.tenant_id,
        user_id=memory.user_id,
        aggregate_id=memory.memory_id,
        kind="memory",
        op=op,
        status=memory.status,
        version=memory.version,
        content_hash=memory.content_hash,
        occurred_at_ms=memory.updated_at_ms,
        proposal_id=f"proposal-{memory.memory_id}-{memory.version}",
        actor="turn",
        body=seal_record(codec, memory, key),
    )
    shard = partition_of(memory.tenant_id, memory.user_id, settings.partitions)
    scope = (memory.tenant_id, memory.user_id, shard)
    return (event.event_id, memory.memory_id, *scope, memory.version, f"memory.{op}", codec.encode(event))


async def _write_outbox(connection: Connection, rows: Iterable[tuple[Any, ...]], target: str) -> None:
    columns = "event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, payload, target"
    async with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY memory_outbox ({columns}) FROM STDIN") as copy,
    ):
        for row in rows:
            await copy.write_row((*row, target))


async def seed_events(
    connection: Connection, keys: KeyStore, settings: Settings, count: int, progress: Progress
) -> None:
    """Write ``count`` events of sessions, sealed with a key each, and one outbox row each, in batches of 500."""
    codec = Codec()
    spare = _Spare(keys, count // USERS + 1)
    for start in range(0, count, BATCH):
        made = []
        for number in range(start, min(start + BATCH, count)):
            event, payload = event_of(number, settings.partitions)
            key = await spare.take(event.tenant_id, event.user_id)
            made.append(msgspec.structs.replace(event, body=seal_record(codec, payload, key)))
        async with connection.transaction():
            await _write_events(connection, made)
            await _write_outbox(connection, [_event_row(codec, event) for event in made], "working")
        progress(start + len(made))
    await connection.execute("ANALYZE working_events")


def event_of(number: int, partitions: int) -> tuple[WorkingEvent, WorkingPayload]:
    """Return one event of a session, without its body, and the payload that goes into it."""
    user, place = number % USERS, number // USERS
    tenant_id, user_id = f"tenant{user % 2}", f"user{user}"
    event = WorkingEvent(
        event_id=derived_id("bench-event", str(number)),
        tenant_id=tenant_id,
        user_id=user_id,
        session_id=f"session{place // SESSION_EVENTS}",
        sequence=place % SESSION_EVENTS + 1,
        event_type="UserAskedQuestion",
        state_from="idle",
        state_to="querying_knowledge",
        occurred_at_ms=FIRST_MS + number * 1000,
        content_hash=uuid.uuid5(uuid.NAMESPACE_OID, str(number)).hex * 2,
        origin=Origin(partition_of(tenant_id, user_id, partitions), number),
    )
    return event, WorkingPayload(masked_input=f"What about thing{number}? 那个怎么样？", fields={"thing": str(number)})


def _event_row(codec: Codec, event: WorkingEvent) -> tuple[Any, ...]:
    scope = (event.tenant_id, event.user_id, event.origin.partition)
    return (event.event_id, event.event_id, *scope, event.sequence, event.event_type, codec.encode(event))


async def _write_events(connection: Connection, events: Sequence[WorkingEvent]) -> None:
    names = "event_id, tenant_id, user_id, session_id, sequence, event_type, state_from, state_to, occurred_at_ms, content_hash"
    places = "origin_partition, origin_offset, key_id, nonce, ciphertext"
    async with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY working_events ({names}, {places}) FROM STDIN") as copy,
    ):
        for event in events:
            body = event.body
            if body is None:
                raise ValueError("an event is sealed before it is written")
            plain = [getattr(event, name) for name in names.split(", ")]
            seal = (event.origin.partition, event.origin.offset, body.key_id, body.nonce, body.ciphertext)
            await copy.write_row((*plain, *seal))


def _json(rows: Iterable[Any]) -> str:
    return msgspec.json.encode(list(rows)).decode()
