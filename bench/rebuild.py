"""The group ``rebuild``: a whole store from the log, against a bulk load of the same rows with the raw client.

Called by ``stores``. The store's worker process projects, as in production; only waiting for readers to leave the old
generation (``drain_seconds``) is left out.
"""

import asyncio
import time
from contextlib import AsyncExitStack

from bench.figures import Figure, Goal, Group, Table
from bench.ground import Ground
from bench.projectors import answering, mapping_of
from bench.raw_load import raw_seconds
from bench.recorded import RecordedDoor, in_batches
from bench.topics import read_topic
from projectors.batch import Change
from projectors.doors import open_door
from projectors.entries import STORES, Generation, Store
from projectors.generations import ROLE, live_generation
from projectors.rebuild import Progress, Rebuild
from reconcile.run import compare
from schemas.errors import Broken, Rejected
from schemas.settings import Settings
from streams.crash import CrashPoints
from streams.postgres import connect

GOAL_SHARE = 0.7
BULK_ROWS = (500, 2_000)


class _Times:
    """When each step of a rebuild began, in seconds since ``began``."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.first: dict[str, float] = {}
        self.records_at = 0.0

    def hear(self, progress: Progress) -> None:
        now = time.perf_counter() - self.began
        self.first.setdefault(progress.step, now)
        if progress.done and not self.records_at:
            self.records_at = now


async def measure(ground: Ground, settings: Settings, rows: int, load_average: float) -> Group:
    """Rebuild each store once; the live generation must be complete."""
    own = settings.model_copy(update={"drain_seconds": 0.0})
    figures: list[Figure] = []
    table_rows: list[tuple[str, ...]] = []
    for store in STORES:
        async with ground.workers(settings, [store]):
            await caught_up(settings, store, rows)
            ground.shown.doing(f"{store}: rebuilding")
            times, flushed, cpu = await _rebuilt(ground, own, store, rows)
        ground.shown.doing(f"{store}: the raw bulk load of the same rows")
        raw, batch = await _raw(settings, store)
        switched = times.first["draining"]
        figures.append(
            Figure(
                name=f"{store} rebuilt",
                value=rows / flushed,
                unit="rows/s",
                raw=rows / raw,
                method="from the command to the last row flushed; raw: the faster of bulk loads with 500 and 2,000 rows a batch",
                goal=Goal("ratio", GOAL_SHARE),
            )
        )
        table_rows.append((store, *(f"{spent:.2f}" for spent in (flushed, switched, cpu, raw)), f"{batch:,}"))
    columns = ("store", "to the last row", "compared and switched", "worker's processor", "raw load", "raw batch")
    table = Table("seconds of a rebuild", columns, tuple(table_rows))
    return Group(name="rebuild", load_average=load_average, figures=tuple(figures), tables=(table,))


async def _rebuilt(ground: Ground, settings: Settings, store: Store, rows: int) -> tuple[_Times, float, float]:
    """Return the times of the steps, the seconds until the last row was flushed, and the worker's processor seconds."""
    door = RecordedDoor(open_door(settings, store))
    connection = await connect(settings, ROLE, autocommit=True)
    before = ground.usages()[f"{store}-worker"].cpu_seconds
    times = _Times()

    async def differences(_store: Store, generation: Generation) -> int:
        times.first["compare"] = time.perf_counter() - times.began
        report = await compare(settings, door, generation)
        return report.missing + report.stale + report.orphan

    try:
        run = Rebuild(
            settings,
            connection,
            door,
            compare=differences,
            crash=CrashPoints(),
            progress=times.hear,
            now_ms=lambda: time.time_ns() // 1_000_000,
        )
        outcome = await run.run()
    finally:
        await connection.close()
        await door.close()
    if not outcome.switched or outcome.records != rows:
        raise Broken(
            f"the rebuild of {store} read {outcome.records} records and found {outcome.differences} differences"
        )
    return times, times.first["compare"], ground.usages()[f"{store}-worker"].cpu_seconds - before


async def _raw(settings: Settings, store: Store) -> tuple[float, int]:
    """Return the seconds of the faster bulk load, and the rows of its batches."""
    async with AsyncExitStack() as resources:
        mapping = await mapping_of(settings, store, resources)
        door = open_door(settings, store)
        resources.push_async_callback(door.close)
        connection = await connect(settings, ROLE, autocommit=True)
        resources.push_async_callback(connection.close)
        live = await live_generation(connection, store)
        changes = await mapping.changes(await read_topic(settings, mapping.topic), live)
        items = [change.item for change in changes if isinstance(change, Change)]
        return min([(await raw_seconds(settings, door, in_batches([items], rows)), rows) for rows in BULK_ROWS])


async def caught_up(settings: Settings, store: Store, rows: int) -> None:
    """Wait until the live generation of a store has ``rows`` entries; raises ``Broken`` after five minutes."""
    door = open_door(settings, store)
    connection = await connect(settings, ROLE, autocommit=True)
    try:
        await answering(door)
        until = time.monotonic() + 300
        while time.monotonic() < until:
            try:
                if await door.count(await live_generation(connection, store)) >= rows:
                    return
            except Rejected:
                pass
            await asyncio.sleep(0.5)
        raise Broken(f"the projector of {store} did not catch up in 300 s")
    finally:
        await connection.close()
        await door.close()
