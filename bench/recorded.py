"""A door and a mapping that pass everything on and note what was written, when it was flushed, and how long each step took.

Used by the groups of the derived stores: the raw library is then given the same rows with flushes at the same places.
"""

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from projectors.batch import Change
from projectors.door import Door
from projectors.entries import Entry, Generation, Key, Store
from projectors.mapping import Mapping, Record
from schemas.errors import Rejected
from schemas.topics import Topic

Items = Sequence[Any]
# A batch of rows, or None for a flush.
Step = Items | None


class RecordedDoor:
    """Passes on to a real door; ``steps`` are its writes and flushes in order, ``seconds`` the time in each call."""

    def __init__(self, door: Door[Any]) -> None:
        self._door = door
        self.store: Store = door.store
        self.guarded: bool = door.guarded
        self.keeps_newer: bool = door.keeps_newer
        self.buffered: bool = door.buffered
        self.steps: list[Step] = []
        self.rows = 0
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.ended_at = 0.0

    async def healthy(self) -> None:
        """Pass on."""
        await self._door.healthy()

    async def prepare(self, generation: Generation) -> None:
        """Pass on."""
        await self._door.prepare(generation)

    async def guard_read(self, generation: Generation, keys: Sequence[Key]) -> dict[Key, Entry]:
        """Pass on and count the time."""
        began = time.perf_counter()
        found = await self._door.guard_read(generation, keys)
        self._note("guard read", began)
        return found

    async def fingerprints_of(
        self, generation: Generation, keys: Sequence[Key], *, deep: bool = False
    ) -> dict[Key, Entry]:
        """Pass on."""
        return await self._door.fingerprints_of(generation, keys, deep=deep)

    async def write(self, generation: Generation, items: Items, *, forced: bool = False) -> Collection[Key]:
        """Pass on, keep the items and count the time."""
        began = time.perf_counter()
        kept = await self._door.write(generation, items, forced=forced)
        self._note("store write", began)
        self.steps.append(items)
        self.rows += len(items)
        return kept

    async def flush(self, generation: Generation) -> None:
        """Pass on, keep the place and count the time."""
        began = time.perf_counter()
        await self._door.flush(generation)
        self._note("store flush", began)
        self.steps.append(None)

    def fingerprints(self, generation: Generation, *, deep: bool = False, page: int = 16_000) -> AsyncIterator[Entry]:
        """Pass on."""
        return self._door.fingerprints(generation, deep=deep, page=page)

    async def count(self, generation: Generation) -> int:
        """Pass on."""
        return await self._door.count(generation)

    async def drop(self, generation: Generation) -> None:
        """Pass on."""
        await self._door.drop(generation)

    async def close(self) -> None:
        """Pass on."""
        await self._door.close()

    def _note(self, name: str, began: float) -> None:
        self.ended_at = time.perf_counter()
        self.seconds[name] += self.ended_at - began


class RecordedMapping:
    """Passes on to a real mapping; ``began_at`` is when the first records came, ``seconds`` the time spent decoding."""

    def __init__(self, mapping: Mapping[Any]) -> None:
        self._mapping = mapping
        self.topic: Topic = mapping.topic
        self.began_at: float | None = None
        self.seconds = 0.0

    async def changes(self, records: Sequence[Record], generation: Generation) -> list[Change[Any] | Rejected]:
        """Pass on and count the time."""
        began = time.perf_counter()
        self.began_at = began if self.began_at is None else self.began_at
        found = await self._mapping.changes(records, generation)
        self.seconds += time.perf_counter() - began
        return found


def in_batches(steps: Sequence[Step], rows: int) -> list[Step]:
    """Return the same rows in batches of ``rows``, flushed once at the end: how a bulk load would do it."""
    items = [item for step in steps if step is not None for item in step]
    return [*(items[start : start + rows] for start in range(0, len(items), rows)), None]
