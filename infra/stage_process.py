"""Runs one stage in this process: producer, attempts, Faust, watchdog.

Called by the roles of the write path; knows no stage by name.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from infra.metrics import MeasuredStage
from infra.watched import WatchedGroups
from infra.worker_process import Here
from schemas.errors import Broken
from streams.attempts import Attempts
from streams.delivery import Delivery, Surroundings
from streams.faust_stage import KafkaSender, assigned, faust_app, group_of, on_assignment
from streams.kafka import ensure_topics, producer, started
from streams.key_store import KeyStore
from streams.log_watch import watch_log
from streams.stage import Stage
from streams.watchdog import watch


def now_ms() -> int:
    """Return the time in milliseconds since the epoch; handed to everything that needs one."""
    return time.time_ns() // 1_000_000


@asynccontextmanager
async def open_keys(here: Here) -> AsyncIterator[KeyStore]:
    """Open the key store and close it in the end; raises ``Retryable`` when it is away."""
    keys = await KeyStore.open(here.settings)
    try:
        yield keys
    finally:
        await keys.close()


async def run_stage(here: Here, stage: Stage, *, log: Mapping[str, str] | None = None) -> None:
    """Run one stage in Faust until asked to stop; raises ``Broken`` when Faust or a partition has stopped working.

    ``log`` has the ids of the topics (``known_log``) for a stage that keeps offsets in Postgres: it ends when they change.
    """
    settings = here.settings
    await ensure_topics(settings)
    with Attempts(settings.state_dir / "attempts", stage.name) as attempts:
        async with started(producer(settings)) as client:
            sender = KafkaSender(client, settings, here.heartbeat)
            around = Surroundings(settings, here.codec, sender, attempts, here.heartbeat, here.crash)
            delivery = Delivery(MeasuredStage(stage, here.metrics), around)
            _show_inputs(here, stage.name, delivery)
            app = faust_app(stage, delivery, settings)
            app.finalize()
            joined = on_assignment(app)
            await app.start()
            with suppress(TimeoutError):
                # Ready means that the next event is worked on at once. A group that is slow to settle is no failure.
                await asyncio.wait_for(joined.wait(), settings.session_timeout_seconds)
            here.ready()
            group, topic = group_of(stage.name, settings), stage.source.named(settings.topic_prefix)
            watchdog = watch(
                settings,
                group,
                topic,
                lambda: assigned(app),
                here.heartbeat,
                patience_seconds=settings.max_poll_seconds / 2,
                tell=WatchedGroups(here.metrics).teller(group, topic),
            )
            watched = [watch_log(settings, log)] if log else []
            await first_of(here.stop.wait(), watchdog, _crash_of(app), *watched)
            await app.stop()


def _show_inputs(here: Here, stage: str, delivery: Delivery) -> None:
    def counts() -> dict[tuple[str, ...], float]:
        return {(stage, status): count for status, count in dict(delivery.counts).items()}

    here.metrics.show("engram_inputs", "Inputs by what became of them.", ("stage", "status"), counts, counter=True)


async def _crash_of(app: Any) -> None:
    await app.wait_until_stopped()
    raise Broken(f"Faust stopped by itself ({type(app.crash_reason).__name__})")


async def first_of(*work: Awaitable[object]) -> None:
    """Return when the first of ``work`` returns, or raise what it raised; the others are cancelled."""
    tasks = [asyncio.ensure_future(part) for part in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
