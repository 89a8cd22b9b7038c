"""A derived store in memory: what the three doors promise, without a server.

It passes the behaviour suite of ``test_doors`` like the real ones, or it would not be a fake. Tests that prove something
about a store use the real store.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Generic, TypeVar

from projectors.entries import Entry, Fingerprint, Generation, Key, Store
from projectors.projection import GraphNode, InfluxPoint, MilvusRow, edges_digest
from schemas.errors import Rejected, Retryable

Item = TypeVar("Item", MilvusRow, GraphNode, InfluxPoint)


class FakeDoor(Generic[Item]):
    """``away`` makes every call fail as if the server were down; ``refused`` are memory ids that it can never hold."""

    def __init__(self, store: Store) -> None:
        self.store: Store = store
        self.guarded = store != "influx"
        self.keeps_newer = store == "neo4j"
        self.buffered = store == "milvus"
        self.away = False
        self.refused: set[str] = set()
        self.flushes = 0
        self.writes: list[int] = []
        self._held: dict[int, dict[Key, Item]] = {}

    def _of(self, generation: Generation) -> dict[Key, Item]:
        if self.away:
            raise Retryable("the fake store is away")
        if generation.number not in self._held:
            raise Retryable("the generation is not prepared")
        return self._held[generation.number]

    async def healthy(self) -> None:
        if self.away:
            raise Retryable("the fake store is away")

    async def prepare(self, generation: Generation) -> None:
        await self.healthy()
        self._held.setdefault(generation.number, {})

    async def guard_read(self, generation: Generation, keys: Sequence[Key]) -> dict[Key, Entry]:
        held = self._of(generation)
        return {key: _shallow(_entry(held[key])) for key in keys if key in held}

    async def fingerprints_of(
        self, generation: Generation, keys: Sequence[Key], *, deep: bool = False
    ) -> dict[Key, Entry]:
        held = self._of(generation)
        return {key: _entry(held[key]) for key in keys if key in held}

    async def write(self, generation: Generation, items: Sequence[Item], *, forced: bool = False) -> set[Key]:
        held = self._of(generation)
        if any(not isinstance(item, InfluxPoint) and item.memory_id in self.refused for item in items):
            raise Rejected("the fake store cannot hold this", code="bad_row")
        self.writes.append(len(items))
        kept: set[Key] = set()
        for item in items:
            key = _key(item)
            if isinstance(item, InfluxPoint):
                if item.delete or forced:
                    for known in [k for k, point in held.items() if _same_event(point, item)]:
                        del held[known]
                if item.delete:
                    continue
            elif self.store == "neo4j" and not forced and key in held:
                known_item = held[key]
                if (
                    not isinstance(known_item, InfluxPoint)
                    and known_item.fingerprint.version >= item.fingerprint.version
                ):
                    kept.add(key)
                    continue
            held[key] = item
        return kept

    async def flush(self, generation: Generation) -> None:
        self._of(generation)
        self.flushes += 1

    async def fingerprints(
        self, generation: Generation, *, deep: bool = False, page: int = 16_000
    ) -> AsyncIterator[Entry]:
        for _, item in sorted(self._of(generation).items()):
            yield _entry(item)

    async def count(self, generation: Generation) -> int:
        return len(self._of(generation))

    async def drop(self, generation: Generation) -> None:
        await self.healthy()
        self._held.pop(generation.number, None)

    async def close(self) -> None:
        self._held.clear()


def _key(item: MilvusRow | GraphNode | InfluxPoint) -> Key:
    return item.key if isinstance(item, InfluxPoint) else (item.memory_id,)


def _same_event(known: object, item: InfluxPoint) -> bool:
    return isinstance(known, InfluxPoint) and (known.tenant_id, known.user_id, known.event_id) == (
        item.tenant_id,
        item.user_id,
        item.event_id,
    )


def _entry(item: MilvusRow | GraphNode | InfluxPoint) -> Entry:
    if isinstance(item, InfluxPoint):
        fingerprint = Fingerprint(item.sequence, item.content_hash, "", item.event_id)
        return Entry(item.key, item.tenant_id, item.user_id, fingerprint)
    fingerprint = item.fingerprint
    if isinstance(item, GraphNode):
        fingerprint = fingerprint._replace(digest=edges_digest(item.edges, item.relations))
    return Entry((item.memory_id,), item.tenant_id, item.user_id, fingerprint, not item.tombstone)


def _shallow(entry: Entry) -> Entry:
    if entry.fingerprint.revision:
        return entry
    return Entry(entry.key, entry.tenant_id, entry.user_id, entry.fingerprint._replace(digest=""), entry.content)
