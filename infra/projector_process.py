"""Runs the projectors of one store in this process: topics, dead letters, the door, the watch over generations.

Called by the roles ``milvus``, ``neo4j`` and ``influx``; knows no store by name.
"""

from typing import TypeVar

from infra.projector_watch import watch_projectors
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
            _show_counts(here, door.store, process)
            topic = mapping.topic.named(settings.topic_prefix)
            watchdog = watch_projectors(here, door.store, topic, patience_seconds=settings.max_poll_seconds / 2)
            await first_of(run_projectors(process, door, mapping, detail), watch_log(settings, log), watchdog)
    finally:
        await door.close()


def _show_counts(here: Here, store: str, process: Process) -> None:
    """Show how many records had which verdict of the guard, or became dead letters (``rejected``)."""

    def counts() -> dict[tuple[str, ...], float]:
        return {
            (store, str(generation), verdict): count
            for generation, counted in list(process.counts.items())
            for verdict, count in list(counted.items())
        }

    said = "Records by what became of them: the guard's verdict, or rejected."
    here.metrics.show("engram_projector_records", said, ("store", "generation", "verdict"), counts, counter=True)
