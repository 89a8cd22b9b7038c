"""Three stores that agree with Postgres, with their projectors and the relay running in this process."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from populated import DIMENSION, REVISION, World, insert, made, project

from projectors.doors import open_door
from projectors.entries import STORES, Generation, Store
from projectors.generations import Detail
from projectors.mapping import InfluxMapping, MilvusMapping, Neo4jMapping
from projectors.worker import Process, run_projectors
from reconcile.report import Report
from reconcile.run import Options, reconcile
from schemas.codec import Codec
from schemas.errors import Rejected, Retryable
from schemas.settings import Settings
from streams.crash import CrashPoints
from streams.relay import Relay


@dataclass(slots=True)
class Running:
    """Three stores with their projectors and the relay, in this process."""

    settings: Settings
    world: World
    doors: dict[Store, Any]
    stops: dict[str, asyncio.Event]

    def generation(self, store: Store) -> Generation:
        return Generation(store, 1, "live", *((REVISION, DIMENSION) if store == "milvus" else ()))

    async def compared(self, **options: Any) -> Report:
        return await reconcile(self.settings, self.doors, Options(**({"wait_seconds": 30.0} | options)))


@asynccontextmanager
async def running_stores(topics: Settings, count: int) -> AsyncIterator[Running]:
    """Write ``count`` memories and events into Postgres and the three stores, and keep relay and projectors running."""
    settings = topics.model_copy(update={"relay_poll_seconds": 0.1})
    world = made(count)
    insert(settings, world)
    codec = Codec()
    found = Running(settings, world, {store: open_door(settings, store) for store in STORES}, {})
    mappings = {"milvus": MilvusMapping(codec), "neo4j": Neo4jMapping(codec), "influx": InfluxMapping(codec, _nothing)}
    tasks = []
    for store, door in found.doors.items():
        await door.prepare(found.generation(store))
        await project(door, found.generation(store), world)
        stop = found.stops[store] = asyncio.Event()
        process = Process(settings, CrashPoints(), _now_ms, lambda _state, _detail: None, _refused, stop)
        detail = Detail(REVISION, DIMENSION) if store == "milvus" else Detail()
        tasks.append(asyncio.create_task(run_projectors(process, door, mappings[store], detail)))
    stop = found.stops["relay"] = asyncio.Event()
    tasks.append(asyncio.create_task(Relay(settings, codec).run(stop)))
    await _live(found)
    yield found
    for stop in found.stops.values():
        stop.set()
    await asyncio.gather(*tasks)
    for store, door in found.doors.items():
        await door.drop(found.generation(store))
        await door.close()


async def _nothing(events: Sequence[object]) -> list[None]:
    return [None for _ in events]


async def _refused(_record: object, error: Rejected) -> None:
    raise AssertionError(f"a record was refused: {error}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _live(found: Running) -> None:
    """Wait until every worker has made its first generation."""
    async with asyncio.timeout(30):
        while True:
            try:
                await found.compared()
            except (Rejected, Retryable):
                await asyncio.sleep(0.1)
            else:
                return
