"""Rebuild: a new generation from the log, compared, switched to, the old one dropped. Readers never see a gap.

Called by ``engram rebuild``. It writes no entry itself: the store's worker projects the building generation like any
other. Killed at any point it is resumed by the next run, and until the switch the live generation is untouched.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from projectors.door import Door
from projectors.entries import Generation, Store
from projectors.generations import Detail, begin_building, generations, live_generation, mark_dropped, switch
from projectors.names import group_name
from schemas.errors import Broken, Retryable
from schemas.settings import Settings
from schemas.topics import UPDATED, WORKING
from streams.crash import CrashPoints
from streams.kafka import committed_offsets, end_offsets
from streams.postgres import Connection

# Often enough to see the end soon, and seldom enough to take nothing from the worker.
POLL_SECONDS, LAST_POLL_SECONDS = 0.5, 0.1
STALL_SECONDS = 60.0
# A worker looks at the table once a second; before its data goes, a dropped generation must have been let go of.
LET_GO_SECONDS = 3.0
Step = Literal["projecting", "comparing", "draining", "dropping"]
Compare = Callable[[Store, Generation], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rebuild is: records projected of those in the log (for the other steps 0 of 0), since when."""

    store: Store
    generation: int
    step: Step
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rebuild did. With differences nothing was switched, and the generation stays for a look or the next run."""

    store: Store
    generation: int
    switched: bool
    differences: int
    records: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Rebuild:
    """One run: ``connection`` is that of ``engram_projector``, in autocommit mode; ``compare`` returns the differences."""

    settings: Settings
    connection: Connection
    door: Door[Any]
    compare: Compare
    crash: CrashPoints
    progress: Callable[[Progress], None]
    now_ms: Callable[[], int]

    async def run(self, detail: Detail | None = None) -> Outcome:
        """Rebuild the store; ``detail`` names the vectors of the new generation (without it, those of the live one).

        Raises ``Rejected`` (``no_generation``), ``Retryable`` (something is away or makes no progress), ``Broken`` (the
        switch was lost to somebody else).
        """
        started = time.monotonic()
        await self._finish_old()
        live = await live_generation(self.connection, self.door.store)
        building = await begin_building(
            self.connection, self.door.store, detail or Detail(live.revision, live.dimension), self.now_ms()
        )
        records = await self._caught_up(building)
        self._tell(building, "comparing")
        await self.door.flush(building)
        differences = await self.compare(self.door.store, building)
        if differences:
            return Outcome(building.store, building.number, False, differences, records, time.monotonic() - started)
        if not await switch(self.connection, building, self.now_ms()):
            raise Broken(f"generation {building.number} of {building.store} is no longer being built")
        await self._finish_old()
        return Outcome(building.store, building.number, True, 0, records, time.monotonic() - started)

    async def _caught_up(self, building: Generation) -> int:
        """Wait until everything that is in the log now has been projected; return the number of records."""
        topic = (WORKING if building.store == "influx" else UPDATED).named(self.settings.topic_prefix)
        group = group_name(self.settings.topic_prefix, building)
        last = await end_offsets(self.settings, topic)
        total = sum(last.values())
        before, moved_at, pause_seconds = -1, time.monotonic(), LAST_POLL_SECONDS
        while True:
            committed = await committed_offsets(self.settings, group, [topic])
            reached = {partition.partition: offset for partition, offset in committed.items()}
            left = sum(max(0, end - reached.get(number, 0)) for number, end in last.items())
            self._tell(building, "projecting", total - left, total)
            self.crash.visit("mid_rebuild")
            if left == 0:
                return total
            if left != before:
                now = time.monotonic()
                if before > left:
                    # Half of the time that the rest will take at the rate seen last.
                    seconds_left = left * (now - moved_at) / (before - left)
                    pause_seconds = min(max(seconds_left / 2, LAST_POLL_SECONDS), POLL_SECONDS)
                before, moved_at = left, now
            elif time.monotonic() - moved_at > STALL_SECONDS:
                raise Retryable(
                    f"generation {building.number} of {building.store} made no progress for {STALL_SECONDS:.0f} seconds: "
                    f"is its worker running?"
                )
            await asyncio.sleep(pause_seconds)

    async def _finish_old(self) -> None:
        """Let draining generations drain, then drop them and what a killed run left of dropped ones."""
        for generation in await generations(self.connection, self.door.store):
            if generation.state == "draining":
                self._tell(generation, "draining")
                until_ms = generation.changed_at_ms + int(self.settings.drain_seconds * 1000)
                await asyncio.sleep(max(0, until_ms - self.now_ms()) / 1000)
                await mark_dropped(self.connection, generation, self.now_ms())
                await asyncio.sleep(LET_GO_SECONDS)
            if generation.state in ("draining", "dropped"):
                self._tell(generation, "dropping")
                await self.door.drop(generation)

    def _tell(self, generation: Generation, step: Step, done: int = 0, total: int = 0) -> None:
        self.progress(Progress(generation.store, generation.number, step, done, total))
