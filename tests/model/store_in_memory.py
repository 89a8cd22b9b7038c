"""A derived store in memory whose writes can end half way, and the real projector that fills one generation of it."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import neighbours  # noqa: F401 - before the kits of other folders
from fakes import FakeDoor
from log_in_memory import Batch, Group, LogInMemory, LogRecord
from simulated_crash import CrashAt, SimulatedCrash

from projectors.batch import Conflict
from projectors.door import Door
from projectors.entries import Generation, Key, Store
from projectors.mapping import Mapping
from projectors.projector import Projector, Surroundings
from schemas.errors import Rejected, Retryable
from schemas.settings import Settings
from streams.crash import CrashPoints


class StoreInMemory(FakeDoor[Any]):
    """``half`` makes the next write end after that many items, with the process."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.half: int | None = None

    async def write(self, generation: Generation, items: Sequence[Any], *, forced: bool = False) -> set[Key]:
        if self.half is None:
            return await super().write(generation, items, forced=forced)
        await super().write(generation, items[: self.half], forced=forced)
        raise SimulatedCrash("half_written")

    def held(self, generation: Generation) -> dict[Key, Any]:
        """Return what a generation holds, for whoever looks or does damage."""
        return self._held[generation.number]


class _Polled:
    """A client whose poll answers one batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    async def getmany(self, *, timeout_ms: int, max_records: int) -> Any:
        return self._batch


class Projecting:
    """The projector of one generation: its consumer group, its process, and a batch in the hands of an owner before it."""

    commits_first = False
    """Whether the offset moves before the store is written: the mistake that a test makes on purpose."""

    def __init__(
        self, settings: Settings, mapping: Mapping[Any], door: Door[Any], generation: Generation, log: LogInMemory
    ) -> None:
        self._settings = settings
        self._mapping = mapping
        self._door = door
        self.generation = generation
        self.group = Group(log, mapping.topic.name)
        self.conflicts: list[Conflict] = []
        self.dead: list[tuple[LogRecord, Rejected]] = []
        self._held_back: Batch = {}

    def _process(self, crash: CrashPoints | None = None) -> Projector[Any]:
        async def on_rejected(record: Any, error: Rejected) -> None:
            self.dead.append((record, error))

        async def on_conflict(conflict: Conflict) -> None:
            self.conflicts.append(conflict)

        around = Surroundings(on_rejected, on_conflict, lambda _state, _detail: None, crash or CrashPoints())
        return Projector(self._settings, self._door, self._mapping, self.generation, around)

    async def step(self, limit: int, fault: str = "", visit: int = 1) -> None:
        """Poll, write, commit; ``fault`` names how that fails, if it does."""
        batch = self.group.poll(limit)
        if not batch:
            return
        if fault == "moved_away":
            # The partitions get another owner, who reads from what is committed; the batch in hand is written later.
            self._held_back = batch
            self.group.crash()
            return
        crash = None
        if fault == "after_write":
            crash = CrashAt(f"after_{self.generation.store}", 1)
        if isinstance(self._door, StoreInMemory):
            self._door.away = fault == "away"
            self._door.half = visit - 1 if fault == "half_written" else None
        if self.commits_first:
            self.group.commit()
        try:
            written = await self._write(batch, crash, too_late=fault == "too_late")
            if not written or fault == "before_commit":
                self.group.crash()
                return
        except (SimulatedCrash, Retryable):
            self.group.crash()
            return
        finally:
            if isinstance(self._door, StoreInMemory):
                self._door.away, self._door.half = False, None
        self.group.commit()

    def become(self, state: str) -> None:
        """Enter another state: building, live, draining, dropped."""
        self.generation = dataclasses.replace(self.generation, state=state)

    async def wake(self) -> None:
        """Let the owner before this one write the batch that it held in its hands; it may not commit any more."""
        held, self._held_back = self._held_back, {}
        if held:
            await self._write(held)

    async def _write(self, batch: Batch, crash: CrashPoints | None = None, *, too_late: bool = False) -> bool:
        projector, client = self._process(crash), _Polled(batch)
        read = await projector._read(client)
        if too_late:
            read = dataclasses.replace(read, polled_at=time.monotonic() - 1e6)
        return await projector._project(read)
