"""How far each worker is behind: what it has still to read or to publish.

Called by ``engram status``. Looks from outside, at committed offsets and the outbox, so it tells the truth of a worker that
hangs as well. What cannot be asked now is left out, not guessed.
"""

import asyncio

from msgspec import Struct

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
from streams.postgres import connect
from streams.postgres_outbox import Standing, standing

HELD_BACK_AT_MOST = 20
STAGES: dict[str, Topic] = {
    "extract": CHAT_TURNS,
    "admit": EXTRACTED,
    "embed": ADMITTED,
    "remember": PROPOSALS,
    "working": CHAT_TURNS,
}


class Look(Struct, frozen=True):
    """What is behind: records (for the relay: rows) still to process by worker name, and how the outbox stands, if known."""

    lags: dict[str, int]
    outbox: Standing | None = None


async def look(settings: Settings) -> Look:
    """Return how far each worker is behind, and whom dead rows of the outbox hold back (at most 20 are named)."""
    groups = {worker_name(role): (group_of(role, settings), topic) for role, topic in STAGES.items()}
    for generation in await _live(settings):
        topic = WORKING if generation.store == "influx" else UPDATED
        groups[worker_name(generation.store)] = (group_name(settings.topic_prefix, generation), topic)
    found = await asyncio.gather(*(_behind(settings, group, topic) for group, topic in groups.values()))
    known = {name: lag for name, lag in zip(groups, found, strict=True) if lag is not None}
    try:
        outbox = await standing(settings, HELD_BACK_AT_MOST)
    except EngramError:
        return Look(known)
    return Look({**known, worker_name("relay"): outbox.waiting}, outbox)


async def lags(settings: Settings) -> dict[str, int]:
    """Return per worker name the records it has still to process (for the relay: the rows still to publish)."""
    return (await look(settings)).lags


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
