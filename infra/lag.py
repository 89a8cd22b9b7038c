"""How far each worker is behind: what it has still to read or to publish.

Called by ``engram status``. Looks from outside, at committed offsets and the outbox, so it tells the truth of a worker that
hangs as well. What cannot be asked now is left out, not guessed.
"""

import asyncio

from infra.workers import worker_name
from projectors.entries import STORES, Generation
from projectors.generations import ROLE as PROJECTOR_ROLE
from projectors.generations import live_generation
from projectors.names import group_name
from schemas.errors import EngramError
from schemas.settings import Settings
from schemas.topics import ADMITTED, CHAT_TURNS, EXTRACTED, PROPOSALS, UPDATED, WORKING, Topic
from streams.faust_stage import group_of
from streams.kafka import committed_offsets, end_offsets
from streams.postgres import connect, sql

RELAY_ROLE = "engram_relay"
STAGES: dict[str, Topic] = {
    "extract": CHAT_TURNS,
    "admit": EXTRACTED,
    "embed": ADMITTED,
    "remember": PROPOSALS,
    "working": CHAT_TURNS,
}


async def lags(settings: Settings) -> dict[str, int]:
    """Return per worker name the records it has still to process (for the relay: the rows still to publish)."""
    groups = {worker_name(role): (group_of(role, settings), topic) for role, topic in STAGES.items()}
    for generation in await _live(settings):
        topic = WORKING if generation.store == "influx" else UPDATED
        groups[worker_name(generation.store)] = (group_name(settings.topic_prefix, generation), topic)
    found = await asyncio.gather(*(_behind(settings, group, topic) for group, topic in groups.values()))
    known = {name: lag for name, lag in zip(groups, found, strict=True) if lag is not None}
    try:
        waiting, _ = await outbox(settings)
    except EngramError:
        return known
    return {**known, worker_name("relay"): waiting}


async def outbox(settings: Settings) -> tuple[int, int]:
    """Return the rows still to be published and the dead ones; raises ``Retryable`` when Postgres is away."""
    connection = await connect(settings, RELAY_ROLE, autocommit=True)
    try:
        row = await (await connection.execute(sql("outbox_waiting"))).fetchone()
        return (row[0], row[1]) if row else (0, 0)
    finally:
        await connection.close()


async def _live(settings: Settings) -> list[Generation]:
    try:
        connection = await connect(settings, PROJECTOR_ROLE, autocommit=True)
    except EngramError:
        return []
    try:
        found = []
        for store in STORES:
            try:
                found.append(await live_generation(connection, store))
            except EngramError:
                continue
        return found
    finally:
        await connection.close()


async def _behind(settings: Settings, group: str, topic: Topic) -> int | None:
    name = topic.named(settings.topic_prefix)
    try:
        ends, committed = await asyncio.gather(end_offsets(settings, name), committed_offsets(settings, group, [name]))
    except EngramError:
        return None
    reached = {partition.partition: offset for partition, offset in committed.items()}
    return sum(max(0, end - reached.get(partition, 0)) for partition, end in ends.items())
