"""The group ``projectors``: rows a second of each projector on a full topic, against the store's raw client.

Called by ``stores``. The projector runs in this process, as its worker would run it; the raw client is then given the same
rows in the same batches, with flushes at the same places.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from bench.figures import Figure, Goal, Group, Table, share_rows
from bench.raw_load import raw_seconds, rows_of
from bench.recorded import RecordedDoor, RecordedMapping
from bench.show import Shown
from bench.topics import read_topic
from projectors.batch import Change
from projectors.door import Door
from projectors.doors import open_door
from projectors.entries import STORES, Generation, Store
from projectors.generations import ROLE, Detail, ensure_first, live_generation
from projectors.influx import InfluxDoor
from projectors.mapping import InfluxMapping, Mapping, MilvusMapping, Neo4jMapping
from projectors.payloads import payload_opener
from projectors.projector import Projector, Surroundings
from schemas.codec import Codec
from schemas.errors import Broken, Retryable
from schemas.settings import Settings
from streams.crash import CrashPoints
from streams.embedding import UseEmbedder
from streams.key_store import KeyStore
from streams.postgres import connect

GOAL_SHARE = 0.6
WARM_ROWS = 2_000
WARM_GENERATION = 8_999
ANSWER_TRIES = 30
MAPPINGS: dict[str, Callable[[Codec], Mapping[Any]]] = {"milvus": MilvusMapping, "neo4j": Neo4jMapping}
FIRST = {"milvus": Detail(UseEmbedder.revision, UseEmbedder.dimension)}


async def measure(settings: Settings, rows: int, shown: Shown, load_average: float) -> Group:
    """Project everything that is on the topics into generation 1 of each store."""
    figures, tables, notes = [], [], []
    for store in STORES:
        figure, table, note = await _measure_one(settings, store, rows, shown)
        figures.append(figure)
        tables.append(table)
        notes.append(note)
    return Group(
        name="projectors", load_average=load_average, figures=tuple(figures), tables=tuple(tables), notes=tuple(notes)
    )


async def _measure_one(settings: Settings, store: Store, rows: int, shown: Shown) -> tuple[Figure, Table, str]:
    async with AsyncExitStack() as resources:
        real = open_door(settings, store)
        resources.push_async_callback(real.close)
        read = await mapping_of(settings, store, resources)
        generation = await _first(settings, store)
        await answering(real)
        shown.doing(f"{store}: warming the server up")
        await _warm_up(settings, real, read, generation)
        door, mapping = RecordedDoor(real), RecordedMapping(read)
        worked = time.process_time()
        joined = await _project(_projector(settings, door, mapping, generation), door, mapping, rows, shown)
        worked = time.process_time() - worked
        began = mapping.began_at or 0.0
        spent = door.ended_at - began
        shown.doing(f"{store}: the raw client with the same rows")
        raw = await raw_seconds(settings, door, door.steps)
    written, flushes = rows_of(door.steps), sum(step is None for step in door.steps)
    batches = len(door.steps) - flushes
    figure = Figure(
        name=f"{store} projector",
        value=written / spent,
        unit="rows/s",
        raw=written / raw,
        method="from the first batch of records to the end of the last write or flush; raw: same rows, batches and flushes",
        goal=Goal("ratio", GOAL_SHARE),
    )
    seconds = {**door.seconds, "decode and map": mapping.seconds}
    table = Table(f"where the {store} projector's time goes", ("step", "seconds", "share"), share_rows(seconds, spent))
    note = (
        f"{store}: {written:,} rows in {batches} batches with {flushes} flushes in {spent:.2f} s; raw client {raw:.2f} s; "
        f"joining the group took {joined:.2f} s before that; this process used {worked:.2f} s of processor time"
    )
    return figure, table, note


async def answering(door: Door[Any]) -> None:
    """Return when a store answers; right after its start, on a busy machine, the first connection may take its time."""
    for _ in range(ANSWER_TRIES - 1):
        try:
            return await door.healthy()
        except Retryable:
            await asyncio.sleep(1.0)
    return await door.healthy()


async def _warm_up(settings: Settings, door: Door[Any], mapping: Mapping[Any], generation: Generation) -> None:
    """Let a server of a minute's age compile its plans on rows of this shape, written to a generation that is dropped."""
    records = (await read_topic(settings, mapping.topic))[:WARM_ROWS]
    scratch = replace(generation, number=WARM_GENERATION)
    changes = await mapping.changes(records, generation)
    items = [change.item for change in changes if isinstance(change, Change)]
    await door.prepare(scratch)
    for start in range(0, len(items), settings.projector_batch_rows):
        await door.write(scratch, items[start : start + settings.projector_batch_rows])
    await door.drop(scratch)


async def mapping_of(settings: Settings, store: Store, resources: AsyncExitStack) -> Mapping[Any]:
    """Return the mapping that the store's worker would use; ``resources`` closes what it opens."""
    codec = Codec()
    if store != InfluxDoor.store:
        return MAPPINGS[store](codec)
    keys = await KeyStore.open(settings)
    resources.push_async_callback(keys.close)
    return InfluxMapping(codec, payload_opener(codec, keys))


async def _first(settings: Settings, store: Store) -> Generation:
    connection = await connect(settings, ROLE, autocommit=True)
    try:
        await ensure_first(connection, store, FIRST.get(store, Detail()), time.time_ns() // 1_000_000)
        return await live_generation(connection, store)
    finally:
        await connection.close()


async def _project(
    projector: Projector[Any], door: RecordedDoor, mapping: RecordedMapping, rows: int, shown: Shown
) -> float:
    """Run the projector until ``rows`` rows are written and flushed; return the seconds until the first records came."""
    stop = asyncio.Event()
    began = time.perf_counter()
    task = asyncio.create_task(projector.run(stop))
    while door.rows < rows and not task.done():
        await asyncio.sleep(0.02)
        shown.doing(f"{door.store}: projecting", door.rows, rows)
    stop.set()
    # What is not flushed yet is flushed on the way out.
    await task
    return (mapping.began_at or began) - began


def _projector(
    settings: Settings, door: RecordedDoor, mapping: RecordedMapping, generation: Generation
) -> Projector[Any]:
    async def refuse(_record: object, error: Exception) -> None:
        raise Broken(f"a seeded record was refused by {door.store}: {error}")

    async def conflict(found: object) -> None:
        raise Broken(f"a seeded record contradicts {door.store}: {found}")

    around = Surroundings(refuse, conflict, lambda _state, _detail: None, CrashPoints())
    return Projector(settings, door, mapping, generation, around)
