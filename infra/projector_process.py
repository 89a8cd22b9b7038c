"""Runs the projectors of one store in this process: topics, dead letters, the door, the watch over generations.

Called by the roles ``milvus``, ``neo4j`` and ``influx``; knows no store by name.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from infra.projector_watch import watch_projectors
from infra.stage_process import first_of, now_ms
from infra.worker_process import Here
from projectors.door import Door
from projectors.generations import ROLE, Detail
from projectors.mapping import Mapping, Record
from projectors.worker import Process, dead_letters, run_projectors
from schemas.errors import Rejected
from streams.kafka import ensure_topics, producer, started
from streams.log_watch import known_log, watch_log

Item = TypeVar("Item")
OnRejected = Callable[[Record, Rejected], Awaitable[None]]
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
            on_rejected = _counted(here, door.store, dead_letters(settings, here.codec, client, door.store, now_ms))
            process = Process(settings, here.crash, now_ms, report, on_rejected, here.stop)
            topic = mapping.topic.named(settings.topic_prefix)
            watchdog = watch_projectors(here, door.store, topic, patience_seconds=settings.max_poll_seconds / 2)
            await first_of(run_projectors(process, door, mapping, detail), watch_log(settings, log), watchdog)
    finally:
        await door.close()


def _counted(here: Here, store: str, keep: OnRejected) -> OnRejected:
    """Return ``keep`` with the dead letters counted."""
    rejected = 0

    async def on_rejected(record: Record, error: Rejected) -> None:
        nonlocal rejected
        await keep(record, error)
        rejected += 1

    said = "Records that cannot be projected and became dead letters."
    here.metrics.show("engram_projector_rejected", said, ("store",), lambda: {(store,): rejected}, counter=True)
    return on_rejected
