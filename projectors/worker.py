"""The process of one store: watches the table of generations and runs one projector for each that is not dropped.

Called by ``engram worker milvus|neo4j|influx``. A generation that appears is projected from offset 0 within half a second, one
that is dropped is left alone as soon. Without any it makes the first one, live.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from projectors.batch import Conflict
from projectors.door import Door
from projectors.entries import Generation
from projectors.generations import ROLE, Detail, ensure_first, generations, record_conflict
from projectors.mapping import Mapping, Record
from projectors.projector import Projector, Surroundings
from schemas.codec import Codec
from schemas.errors import Rejected, Retryable
from schemas.inputs import Origin
from schemas.settings import Settings
from schemas.topics import WORKING
from streams.crash import CrashPoints
from streams.dead_letters import dead_letter, dead_output, kept_bytes
from streams.kafka import AIOKafkaProducer, send
from streams.postgres import Connection, connect

Item = TypeVar("Item")
R = TypeVar("R")
WATCH_SECONDS = 0.4
Report = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Process:
    """What the process gives its projectors: settings, crash points, the clock, a place to report to, and its end.

    ``counts`` is filled by them: per generation, how many records had which verdict, since the start.
    """

    settings: Settings
    crash: CrashPoints
    now_ms: Callable[[], int]
    report: Report
    on_rejected: Callable[[Record, Rejected], Awaitable[None]]
    stop: asyncio.Event
    counts: dict[int, Counter[str]] = field(default_factory=dict)


@dataclass(slots=True)
class _Running(Generic[Item]):
    projector: Projector[Item]
    stop: asyncio.Event
    task: asyncio.Task[None]


@dataclass(slots=True)
class _Table:
    """The table of generations over one connection, opened again after a failure."""

    settings: Settings
    connection: Connection | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def use(self, work: Callable[[Connection], Awaitable[R]]) -> R:
        async with self.lock:
            if self.connection is None:
                self.connection = await connect(self.settings, ROLE, autocommit=True)
            try:
                return await work(self.connection)
            except Retryable:
                await self._forget()
                raise

    async def _forget(self) -> None:
        broken, self.connection = self.connection, None
        if broken is not None:
            await broken.close()

    async def close(self) -> None:
        async with self.lock:
            await self._forget()


async def run_projectors(process: Process, door: Door[Item], mapping: Mapping[Item], detail: Detail) -> None:
    """Run until ``process.stop``; ``detail`` describes the vectors of a first generation (empty but for Milvus).

    Raises ``Broken`` when a projector cannot go on; everything that is only away is waited for in place.
    """
    table = _Table(process.settings)
    running: dict[int, _Running[Item]] = {}
    told = _Told(process.report)
    try:
        while not process.stop.is_set():
            try:
                found = await table.use(lambda connection: _found(connection, door, detail, process.now_ms))
            except Retryable as error:
                # Postgres being away stops no projector; it only hides what is new in the table.
                if not running:
                    process.report("waiting", str(error))
            else:
                await _follow(found, running, _Starter(process, door, mapping, table, told))
            for one in running.values():
                if one.task.done():
                    one.task.result()
            await _pause(process.stop, WATCH_SECONDS)
    finally:
        await _end(running, process.settings.stop_seconds / 2)
        await table.close()


async def _found(
    connection: Connection, door: Door[Any], detail: Detail, now_ms: Callable[[], int]
) -> tuple[Generation, ...]:
    found = await generations(connection, door.store)
    if not found:
        await ensure_first(connection, door.store, detail, now_ms())
        found = await generations(connection, door.store)
    return found


@dataclass(frozen=True, slots=True)
class _Starter(Generic[Item]):
    process: Process
    door: Door[Item]
    mapping: Mapping[Item]
    table: _Table
    told: "_Told"

    def start(self, generation: Generation) -> _Running[Item]:
        async def on_conflict(conflict: Conflict) -> None:
            await self.table.use(lambda connection: record_conflict(connection, conflict, self.process.now_ms()))

        number = generation.number
        around = Surroundings(
            on_rejected=self.process.on_rejected,
            on_conflict=on_conflict,
            report=lambda state, detail: self.told.hear(number, state, detail),
            crash=self.process.crash,
        )
        projector = Projector(self.process.settings, self.door, self.mapping, generation, around)
        self.process.counts[number] = projector.counts
        stop = asyncio.Event()
        return _Running(projector, stop, asyncio.create_task(projector.run(stop)))


async def _follow(found: tuple[Generation, ...], running: dict[int, _Running[Item]], starter: _Starter[Item]) -> None:
    for generation in found:
        one = running.get(generation.number)
        if generation.state != "dropped":
            if one is None:
                running[generation.number] = starter.start(generation)
            else:
                one.projector.building = generation.state == "building"
        elif one is not None:
            # Its data goes next, so nothing of it may be written any more.
            await _end({generation.number: one}, starter.process.settings.stop_seconds / 2)
            del running[generation.number]
            starter.told.forget(generation.number)


class _Told:
    """Joins what the projectors say into the one state of the process: waiting if any waits."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._states: dict[int, tuple[str, str]] = {}

    def hear(self, number: int, state: str, detail: str) -> None:
        self._states[number] = (state, f"generation {number}: {detail}" if detail else "")
        self._tell()

    def forget(self, number: int) -> None:
        self._states.pop(number, None)
        self._tell()

    def _tell(self) -> None:
        waiting = [said for said in self._states.values() if said[0] == "waiting"]
        if waiting:
            self._report(*waiting[0])
        elif self._states:
            self._report("ready", "")


async def _end(running: dict[int, _Running[Item]], seconds: float) -> None:
    for one in running.values():
        one.stop.set()
    tasks = [one.task for one in running.values()]
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def dead_letters(
    settings: Settings, codec: Codec, client: AIOKafkaProducer, stage: str, now_ms: Callable[[], int]
) -> Callable[[Record, Rejected], Awaitable[None]]:
    """Return an ``on_rejected`` that writes to ``memory.dead``.

    ``memory.updated`` is plain text and is compacted, the dead letters stay for ever: of its records only the position is kept.
    """
    sealed_topic = WORKING.named(settings.topic_prefix)

    async def on_rejected(record: Record, error: Rejected) -> None:
        letter = dead_letter(
            stage,
            record.topic,
            Origin(record.partition, record.offset),
            record.value if record.topic == sealed_topic else None,
            error,
            at_ms=now_ms(),
            key=record.key,
            limit_bytes=kept_bytes(settings),
        )
        out = dead_output(letter, codec)
        await send(client, out.topic.named(settings.topic_prefix), out.value, key=out.key, partition=record.partition)

    return on_rejected


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
