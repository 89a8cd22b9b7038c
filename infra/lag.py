"""How far each worker is behind: what it has still to read or to publish.

Called by ``engram status``, ``engram lag`` and whoever watches a worker. Looks from outside, at committed offsets and the
outbox, so it tells the truth of a worker that hangs as well. What cannot be asked now is left out, not guessed.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from infra.conflicts import conflict_counts
from infra.workers import worker_name
from projectors.entries import STORES, Generation
from projectors.generations import ROLE as PROJECTOR_ROLE
from projectors.generations import generations
from projectors.names import group_name
from schemas.errors import EngramError
from schemas.settings import Settings
from schemas.topics import ADMITTED, CHAT_TURNS, EXTRACTED, PROPOSALS, UPDATED, WORKING, Topic
from streams.faust_stage import group_of
from streams.kafka import AIOKafkaConsumer, TopicPartition, committed_offsets, connection, consumer, started, translated
from streams.postgres import connected, sql
from streams.postgres import translated as translated_postgres
from streams.postgres_outbox import ROLE as RELAY_ROLE
from streams.postgres_outbox import Standing, standing

HELD_BACK_AT_MOST = 20
FIRST_RECORD_MS = 1_000
SMALL_FETCH_BYTES = 65_536
SQL_FOLDER = Path(__file__).parent / "sql"
STAGES: dict[str, Topic] = {
    "extract": CHAT_TURNS,
    "admit": EXTRACTED,
    "embed": ADMITTED,
    "remember": PROPOSALS,
    "working": CHAT_TURNS,
}


class PartitionLag(Struct, frozen=True):
    """One partition of a group: next offset to be written, next one to be read, and the age of the oldest unread record.

    ``oldest_age_seconds`` is ``None`` where nothing is unread or it was not asked for.
    """

    partition: int
    end: int
    committed: int
    oldest_age_seconds: float | None = None

    @property
    def lag(self) -> int:
        """Return how many records are unread."""
        return max(0, self.end - self.committed)


class GroupLag(Struct, frozen=True):
    """One consumer group: its worker's role, its topic, and for a projector the generation and its state."""

    role: str
    group: str
    topic: str
    partitions: tuple[PartitionLag, ...]
    generation: int | None = None
    state: str = ""

    @property
    def lag(self) -> int:
        """Return how many records are unread."""
        return sum(one.lag for one in self.partitions)

    @property
    def oldest_age_seconds(self) -> float | None:
        """Return the age of the oldest unread record that is known."""
        return max(
            (one.oldest_age_seconds for one in self.partitions if one.oldest_age_seconds is not None), default=None
        )


class OutboxLag(Struct, frozen=True):
    """How the outbox stands: rows to publish, age of the oldest, dead rows, users who wait for a late or dead row.

    ``oldest_row`` is the number of the oldest row that waits for nobody; ``None`` when there is none.
    """

    waiting: int
    oldest_age_seconds: float
    dead: int
    held_back_users: int
    oldest_row: int | None = None


class Look(Struct, frozen=True):
    """What is behind: records (for the relay: rows) still to process by worker name; how the outbox stands, if known; conflicts
    that are not settled, by store.
    """

    lags: dict[str, int]
    outbox: Standing | None = None
    conflicts: dict[str, int] = {}


async def look(settings: Settings) -> Look:
    """Return how far each worker is behind, and whom dead rows of the outbox hold back (at most 20 are named)."""
    known = {
        worker_name(one.role): one.lag for one in await group_lags(settings, ages=False) if one.state in ("", "live")
    }
    try:
        outbox = await standing(settings, HELD_BACK_AT_MOST)
    except EngramError:
        return Look(known)
    conflicts: dict[str, int] = {}
    with suppress(EngramError):
        conflicts = dict(await conflict_counts(settings))
    return Look({**known, worker_name("relay"): outbox.waiting}, outbox, conflicts)


async def lags(settings: Settings) -> dict[str, int]:
    """Return per worker name the records it has still to process (for the relay: the rows still to publish)."""
    return (await look(settings)).lags


async def group_lags(settings: Settings, *, ages: bool) -> tuple[GroupLag, ...]:
    """Return how far every group is behind: the stages, then the projectors of every generation that is not dropped.

    With ``ages`` the first unread record of each partition is read for its time. A group that cannot be asked is left out.
    """
    wanted = [
        GroupLag(role, group_of(role, settings), topic.named(settings.topic_prefix), ())
        for role, topic in STAGES.items()
    ]
    for one in await _generations(settings):
        topic = (WORKING if one.store == "influx" else UPDATED).named(settings.topic_prefix)
        wanted.append(GroupLag(one.store, group_name(settings.topic_prefix, one), topic, (), one.number, one.state))
    try:
        async with started(consumer(settings, group=None)) as client:
            ends = await _ends(settings, client, {one.topic for one in wanted})
    except EngramError:
        return ()
    found = await asyncio.gather(*(_measured(settings, one, ends) for one in wanted))
    known = [one for one in found if one is not None]
    return tuple([await _with_ages(settings, one) for one in known] if ages else known)


async def outbox_lag(settings: Settings) -> OutboxLag:
    """Return how the outbox stands; raises ``Retryable`` when Postgres is away."""
    stands = await standing(settings, 0)
    async with connected(settings, RELAY_ROLE) as postgres:
        with translated_postgres():
            row = await (await postgres.execute(sql("outbox_oldest", SQL_FOLDER))).fetchone()
            held = await (await postgres.execute(sql("outbox_held_users", SQL_FOLDER))).fetchone()
    number, age_seconds = row or (None, 0.0)
    return OutboxLag(stands.waiting, age_seconds, stands.dead, held[0] if held else 0, number)


async def _generations(settings: Settings) -> list[Generation]:
    found: list[Generation] = []
    with suppress(EngramError):
        async with connected(settings, PROJECTOR_ROLE) as postgres:
            for store in STORES:
                with suppress(EngramError):
                    found += [one for one in await generations(postgres, store) if one.state != "dropped"]
    return found


async def _ends(settings: Settings, client: AIOKafkaConsumer, topics: set[str]) -> dict[TopicPartition, int]:
    partitions = [TopicPartition(topic, number) for topic in sorted(topics) for number in range(settings.partitions)]
    async with translated("reading end offsets"):
        found: dict[TopicPartition, int] = await client.end_offsets(partitions)
        return found


async def _measured(settings: Settings, one: GroupLag, ends: dict[TopicPartition, int]) -> GroupLag | None:
    try:
        committed = await committed_offsets(settings, one.group, [one.topic])
    except EngramError:
        return None
    partitions = [
        PartitionLag(where.partition, end, committed.get(where, 0))
        for where, end in ends.items()
        if where.topic == one.topic
    ]
    return replace(one, partitions=tuple(sorted(partitions, key=lambda found: found.partition)))


async def _with_ages(settings: Settings, one: GroupLag) -> GroupLag:
    """Return ``one`` with the ages of its oldest unread records; where Kafka does not give one in a second, it is left out."""
    behind = {TopicPartition(one.topic, found.partition): found.committed for found in one.partitions if found.lag}
    if not behind:
        return one
    written_ms: dict[int, int] = {}
    client = AIOKafkaConsumer(
        **connection(settings),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=SMALL_FETCH_BYTES,
    )
    with suppress(EngramError):
        async with started(client), translated("reading the oldest unread records"):
            until = time.monotonic() + FIRST_RECORD_MS / 1_000
            client.assign(list(behind))
            for where, offset in behind.items():
                client.seek(where, offset)
            while len(written_ms) < len(behind) and time.monotonic() < until:
                for where, records in (
                    await client.getmany(timeout_ms=FIRST_RECORD_MS // 4, max_records=len(behind))
                ).items():
                    written_ms.setdefault(where.partition, records[0].timestamp)
                    client.pause(where)
    return replace(one, partitions=_aged(one.partitions, written_ms, time.time_ns() // 1_000_000))


def _aged(partitions: Sequence[PartitionLag], written_ms: dict[int, int], now_ms: int) -> tuple[PartitionLag, ...]:
    def age(number: int) -> float | None:
        return max(0.0, (now_ms - written_ms[number]) / 1_000) if number in written_ms else None

    return tuple(replace(one, oldest_age_seconds=age(one.partition)) for one in partitions)
