"""The reconciler in memory: what each store, and the log, should show; the real two looks; and repairs through the outbox."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from model_system import CODEC, PARTITIONS, System
from store_in_memory import Projecting
from tables_in_memory import Id, Tables

from projectors.entries import STORES, Entry, Fingerprint, Key
from projectors.projection import milvus_fingerprint, neo4j_fingerprint
from reconcile.audit import Comparison, compare_entries
from reconcile.diff import Difference
from reconcile.plan import EVENT_TYPE, LOG, Audited, rows_of
from reconcile.published import log_fingerprint
from schemas.digests import vector_digest
from schemas.ids import derived_id
from schemas.memories import GONE, MemoryUpdated
from schemas.routing import partition_of
from schemas.topics import UPDATED


@dataclass(frozen=True, slots=True)
class Audit:
    """What is compared with the truth: one generation of a store, or the log."""

    name: Audited
    generation: int
    projecting: Projecting | None = None


def audits(system: System) -> list[Audit]:
    """Return everything that must equal the truth."""
    stores = [Audit(store, one.generation.number, one) for store in STORES for one in system.standing(store)]
    return [*stores, Audit(LOG, 0)]


def expected(tables: Tables, audit: Audit) -> dict[Key, Entry]:
    """Return what follows from the truth for each key."""
    if audit.name == "influx":
        found = [
            Entry(
                (e.tenant_id, e.user_id, e.session_id, e.sequence, e.occurred_at_ms),
                e.tenant_id,
                e.user_id,
                Fingerprint(e.sequence, e.content_hash, "", e.event_id),
            )
            for e in tables.working.values()
        ]
    else:
        found = [_entry(tables, audit, name) for name in tables.memories]
    return {entry.key: entry for entry in found}


def _entry(tables: Tables, audit: Audit, name: Id) -> Entry:
    memory = tables.memory(name)
    digests = {vector.revision: vector_digest(vector.values) for vector in tables.vectors.get(name, ())}
    content = memory.status not in GONE
    if audit.name == "neo4j":
        fingerprint = neo4j_fingerprint(
            memory.version, memory.content_hash, memory.status, memory.edges, memory.relations
        )
    elif audit.projecting is not None:
        revision = audit.projecting.generation.revision
        digest = digests.get(revision, "")
        fingerprint = milvus_fingerprint(memory.version, memory.content_hash, memory.status, revision, digest)
        content = bool(fingerprint.digest)
    else:
        joined = ",".join(f"{revision}:{digest}" for revision, digest in sorted(digests.items()))
        fingerprint = log_fingerprint(memory.version, memory.content_hash, memory.status, joined)
    return Entry((name[2],), name[0], name[1], fingerprint, content)


class _Truth:
    def __init__(self, tables: Tables, audit: Audit) -> None:
        self._tables, self._audit = tables, audit

    async def pages(self) -> AsyncIterator[Sequence[Entry]]:
        found = expected(self._tables, self._audit)
        for page in _pages([found[key] for key in sorted(found)]):
            yield page

    async def of_keys(self, keys: Sequence[Key]) -> Mapping[Key, Entry]:
        found = expected(self._tables, self._audit)
        return {key: found[key] for key in keys if key in found}


class _Store:
    def __init__(self, system: System, audit: Audit) -> None:
        self._system, self._audit = system, audit

    async def pages(self) -> AsyncIterator[Sequence[Entry]]:
        for page in _pages([entry for _, entry in sorted((await self._entries()).items())]):
            yield page

    async def of_keys(self, keys: Sequence[Key]) -> Mapping[Key, Entry]:
        found = await self._entries()
        return {key: found[key] for key in keys if key in found}

    async def _entries(self) -> dict[Key, Entry]:
        if self._audit.projecting is None or self._audit.name == LOG:
            return published_entries(self._system)
        door, generation = self._system.stores[self._audit.name], self._audit.projecting.generation
        return {entry.key: entry async for entry in door.fingerprints(generation, deep=True)}


class _Fence:
    def __init__(self, system: System) -> None:
        self._system = system

    async def passed(self, suspects: Sequence[Difference]) -> None:
        await self._system.publish()


def _pages(entries: Sequence[Entry], rows: int = 7) -> list[Sequence[Entry]]:
    return [entries[start : start + rows] for start in range(0, len(entries), rows)]


def published_entries(system: System) -> dict[Key, Entry]:
    """Return what the newest record per memory in the log says."""
    found: dict[Key, Entry] = {}
    for record in system.log.newest(UPDATED.name).values():
        update = CODEC.decode(record.value, MemoryUpdated)
        digests = ",".join(sorted(f"{v.revision}:{vector_digest(v.values)}" for v in update.vectors))
        fingerprint = log_fingerprint(update.version, update.content_hash, update.status, digests)
        key: Key = (update.memory_id,)
        found[key] = Entry(key, update.tenant_id, update.user_id, fingerprint, content=update.memory is not None)
    return found


async def compared(system: System, audit: Audit) -> Comparison:
    """Look twice, as the reconciler does; between the looks everything committed so far arrives."""
    return await compare_entries(_Truth(system.pool.tables, audit), _Store(system, audit), _Fence(system))


def enqueue(system: System, audit: Audit, differences: Sequence[Difference]) -> int:
    """Ask for repairs as ``repair_memories.sql`` and ``repair_others.sql`` do; return how many are new."""
    tables, enqueued = system.pool.tables, 0
    for row in rows_of(audit.name, audit.generation, differences):
        name: Id = (row.tenant_id, row.user_id, row.aggregate_id)
        if row.known and row.target == "memory":
            memory = tables.memories.get(name)
            if memory is None or memory.version != row.version:
                continue
        if (row.tenant_id, row.dedupe_key) in tables.repairs:
            continue
        tables.add_outbox(
            event_id=derived_id("repair", str(tables.numbers.get("outbox", 0))),
            aggregate_id=row.aggregate_id,
            tenant_id=row.tenant_id,
            user_id=row.user_id,
            shard=partition_of(row.tenant_id, row.user_id, PARTITIONS),
            aggregate_version=row.version,
            event_type=EVENT_TYPE,
            target=row.target,
            repair=msgspec.json.encode(row.header).decode(),
            payload=None,
        )
        tables.repairs[row.tenant_id, row.dedupe_key] = tables.numbers["outbox"]
        enqueued += 1
    return enqueued
