"""Runs projectors in a test: sends snapshots as the relay does, waits for what is committed, collects what was told."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from projector_samples import DIMENSION, REVISION

from projectors.batch import Conflict
from projectors.door import Door
from projectors.entries import Entry, Generation
from projectors.generations import ROLE, Detail, generations
from projectors.mapping import InfluxMapping, Mapping, MilvusMapping, Neo4jMapping, Record
from projectors.names import group_name
from projectors.projector import Projector, Surroundings
from projectors.worker import Process, run_projectors
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.memories import MemoryUpdated, Repair
from schemas.routing import partition_of
from schemas.settings import Settings
from schemas.topics import UPDATED, WORKING
from schemas.working import WorkingEvent
from streams.crash import CrashPoints
from streams.kafka import committed_offsets, end_offsets, producer, send, started
from streams.postgres import connect

CODEC = Codec()
WAIT_SECONDS = 30.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def open_nothing(events: Sequence[WorkingEvent]) -> list[None]:
    return [None for _ in events]


def mapping_of(store: str) -> Mapping[Any]:
    if store == "influx":
        return InfluxMapping(CODEC, open_nothing)
    return MilvusMapping(CODEC) if store == "milvus" else Neo4jMapping(CODEC)


async def publish(
    settings: Settings, records: Sequence[MemoryUpdated | WorkingEvent | bytes], repair: Repair | None = None
) -> None:
    """Send records as the relay does; bytes go to ``memory.updated`` as they are."""
    headers = [("repair", msgspec.json.encode(repair))] if repair is not None else []
    async with started(producer(settings, linger_ms=20)) as client:
        sends = []
        for record in records:
            topic = WORKING if isinstance(record, WorkingEvent) else UPDATED
            partition = 0
            if not isinstance(record, bytes):
                partition = partition_of(record.tenant_id, record.user_id, settings.partitions)
            value = record if isinstance(record, bytes) else CODEC.encode(record)
            key = record.memory_id.encode() if isinstance(record, MemoryUpdated) else b"key"
            sends.append(
                send(client, topic.named(settings.topic_prefix), value, key=key, partition=partition, headers=headers)
            )
        await asyncio.gather(*sends)


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = WAIT_SECONDS) -> None:
    """Return when ``condition`` holds; fails the test when it does not in time."""
    end = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        await asyncio.sleep(0.1)


async def projected(settings: Settings, generation: Generation) -> None:
    """Wait until the group of ``generation`` has committed everything that is in its topic now."""
    topic = (WORKING if generation.store == "influx" else UPDATED).named(settings.topic_prefix)
    ends = await end_offsets(settings, topic)

    async def reached() -> bool:
        committed = await committed_offsets(settings, group_name(settings.topic_prefix, generation), [topic])
        found = {partition.partition: offset for partition, offset in committed.items()}
        return all(found.get(number, 0) >= end for number, end in ends.items())

    await until(reached)


class Told:
    """Everything that projectors said."""

    def __init__(self) -> None:
        self.rejected: list[tuple[int, str]] = []
        self.conflicts: list[Conflict] = []
        self.states: list[tuple[str, str]] = []

    async def on_rejected(self, record: Record, error: Rejected) -> None:
        self.rejected.append((record.offset, error.code))

    async def on_conflict(self, conflict: Conflict) -> None:
        self.conflicts.append(conflict)

    def report(self, state: str, detail: str) -> None:
        self.states.append((state, detail))


@asynccontextmanager
async def projecting(
    settings: Settings, door: Door[Any], generation: Generation, told: Told
) -> AsyncIterator[Projector[Any]]:
    """Run one projector; it is stopped in the end, and must end by itself."""
    stop = asyncio.Event()
    around = Surroundings(told.on_rejected, told.on_conflict, told.report, CrashPoints())
    projector = Projector(settings, door, mapping_of(generation.store), generation, around)
    task = asyncio.create_task(projector.run(stop))
    try:
        yield projector
    finally:
        stop.set()
        await asyncio.wait_for(task, settings.stop_seconds)


@asynccontextmanager
async def working(settings: Settings, door: Door[Any], told: Told) -> AsyncIterator[Process]:
    """Run the worker of a store."""
    stop = asyncio.Event()
    process = Process(settings, CrashPoints(), now_ms, told.report, told.on_rejected, stop)
    detail = Detail(REVISION, DIMENSION) if door.store == "milvus" else Detail()
    task = asyncio.create_task(run_projectors(process, door, mapping_of(door.store), detail))
    try:
        yield process
    finally:
        stop.set()
        await asyncio.wait_for(task, settings.stop_seconds * 2)


async def known_generations(settings: Settings, door: Door[Any]) -> dict[int, str]:
    connection = await connect(settings, ROLE, autocommit=True)
    try:
        return {one.number: one.state for one in await generations(connection, door.store)}
    finally:
        await connection.close()


async def all_entries(door: Door[Any], generation: Generation) -> list[Entry]:
    return [entry async for entry in door.fingerprints(generation, deep=True)]
