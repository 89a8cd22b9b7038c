"""The group ``relay``: outbox rows a second with many waiting, against the raw producer with the same messages.

Called by ``stores``. The relay runs in this process, as its worker would run it, with nothing else going on.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.figures import Figure, Goal, Group, Table, share_rows
from bench.show import Shown
from bench.topics import read_topic
from schemas.codec import Codec
from schemas.settings import Settings
from schemas.topics import CHANGES, UPDATED, Topic
from streams.kafka import ensure_topics, producer, started
from streams.postgres_outbox import Outbox
from streams.relay import Relay

GOAL_ROWS_PER_SECOND = 5_000
RAW_BATCH = 500
Sent = tuple[str, bytes, bytes, int]


async def publish(settings: Settings, rows: int, shown: Shown, what: str) -> tuple[float, float]:
    """Run a relay until ``rows`` outbox rows are published; return (rows after its first batch, seconds for them).

    The clock starts when the first batch is done: connecting and taking the shards happen once in a relay's life.
    """
    relay, stop = Relay(settings, Codec()), asyncio.Event()
    task = asyncio.create_task(relay.run(stop))
    first, began, ended = 0, 0.0, 0.0
    while relay.published < rows and not task.done():
        await asyncio.sleep(0.002)
        if not first and relay.published:
            first, began = relay.published, time.perf_counter()
        ended = time.perf_counter()
        shown.doing(what, relay.published, rows)
    stop.set()
    await task
    return rows - first, ended - began


async def measure(settings: Settings, rows: int, shown: Shown, load_average: float) -> Group:
    """Publish the waiting memory rows, measured, and compare with the raw producer."""
    worked = time.process_time()
    with _timed() as seconds:
        done, spent = await publish(settings, rows, shown, "relay: publishing memories")
    worked = time.process_time() - worked
    messages = [*await _messages(settings, CHANGES), *await _messages(settings, UPDATED)]
    shown.doing("relay: the raw producer with the same messages")
    raw_worked = time.process_time()
    raw = await _raw(settings, messages)
    raw_worked = time.process_time() - raw_worked
    per_row = len(messages) / rows
    figure = Figure(
        name="memory rows published",
        value=done / spent,
        unit="rows/s",
        raw=len(messages) / raw / per_row,
        method="outbox rows with a change and a snapshot with vector each; raw: the same messages, same producer settings",
        goal=Goal("at_least", GOAL_ROWS_PER_SECOND),
    )
    table = Table("where the relay's time goes", ("step", "seconds", "share"), share_rows(seconds, spent))
    size = sum(len(value) for _, _, value, _ in messages) / len(messages)
    note = (
        f"{rows:,} rows made {len(messages):,} messages of {size:,.0f} bytes on average; "
        f"this process used {worked:.2f} s of processor time, the raw producer {raw_worked:.2f} s in {raw:.2f} s"
    )
    return Group(name="relay", load_average=load_average, figures=(figure,), tables=(table,), notes=(note,))


@contextmanager
def _timed() -> Iterator[dict[str, float]]:
    """Count the time in the calls to Postgres while the context lasts; what is left is encoding and Kafka."""
    seconds: dict[str, float] = {}
    kept = {name: getattr(Outbox, name) for name in ("claim", "claim_behind", "truth_of", "done")}

    def counted(name: str) -> None:
        call = kept[name]

        async def timed(*arguments: object) -> object:
            began = time.perf_counter()
            try:
                return await call(*arguments)
            finally:
                seconds[f"Postgres: {name}"] = seconds.get(f"Postgres: {name}", 0.0) + time.perf_counter() - began

        setattr(Outbox, name, timed)

    for name in kept:
        counted(name)
    try:
        yield seconds
    finally:
        for name, call in kept.items():
            setattr(Outbox, name, call)


async def _messages(settings: Settings, topic: Topic) -> list[Sent]:
    records = await read_topic(settings, topic)
    return [(topic.name, record.key, record.value, record.partition) for record in records]


async def _raw(settings: Settings, messages: Sequence[Sent]) -> float:
    """Return the seconds for the messages on topics of their own, in batches that are awaited as the relay awaits its own."""
    own = settings.model_copy(update={"topic_prefix": f"{settings.topic_prefix}raw."})
    await ensure_topics(own)
    async with started(producer(own)) as client:
        await client.send_and_wait(own.topic_prefix + messages[0][0], messages[0][2], partition=messages[0][3])
        began = time.perf_counter()
        for start in range(0, len(messages), RAW_BATCH):
            sent = [
                await client.send(own.topic_prefix + topic, value, key=key, partition=partition)
                for topic, key, value, partition in messages[start : start + RAW_BATCH]
            ]
            await asyncio.gather(*sent)
        return time.perf_counter() - began
