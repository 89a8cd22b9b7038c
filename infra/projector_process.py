"""Runs the projectors of one store in this process: topics, dead letters, the door, the watch over generations.

Called by the roles ``milvus``, ``neo4j`` and ``influx``; knows no store by name.
"""

from typing import TypeVar

from infra.stage_process import first_of, now_ms
from infra.worker_process import Here
from projectors.door import Door
from projectors.generations import ROLE, Detail
from projectors.mapping import Mapping
from projectors.worker import Process, dead_letters, run_projectors
from streams.kafka import ensure_topics, producer, started
from streams.log_watch import known_log, watch_log

Item = TypeVar("Item")
NO_VECTORS = Detail()


async def run_store(here: Here, door: Door[Item], mapping: Mapping[Item], detail: Detail = NO_VECTORS) -> None:
    """Project into one store until asked to stop, then close its door."""
    settings = here.settings

    def report(state: str, detail: str) -> None:
        here.was_ready = here.was_ready or state == "ready"
        here.heartbeat.set(state, detail)

    try:
        await ensure_topics(settings)
        log = await known_log(settings, ROLE)
        async with started(producer(settings)) as client:
            on_rejected = dead_letters(settings, here.codec, client, door.store, now_ms)
            process = Process(settings, here.crash, now_ms, report, on_rejected, here.stop)
            await first_of(run_projectors(process, door, mapping, detail), watch_log(settings, log))
    finally:
        await door.close()
