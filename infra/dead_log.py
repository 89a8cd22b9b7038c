"""The dead letters in Kafka: reads ``memory.dead`` backwards, and puts inputs back onto the topics they came from.

Called by ``engram dead``. What may be put back, and where, is decided in ``infra.replay``.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from infra.replay import obstacle, position_text, route
from schemas.codec import Codec
from schemas.dead import DeadLetter
from schemas.errors import Rejected, Retryable
from schemas.inputs import Origin
from schemas.settings import Settings
from schemas.topics import DEAD
from streams.dead_letters import REPLAY_OF, REPLAYED, replayed_note
from streams.kafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
    consumer,
    producer,
    send,
    started,
    translated,
)

WINDOW_RECORDS = 500
READ_SECONDS = 30.0


class Kept(Struct, frozen=True):
    """A dead letter where it stands in ``memory.dead``; ``replays`` are the places where its input was put back, newest first."""

    position: Origin
    letter: DeadLetter
    replays: tuple[str, ...] = ()


class Replayed(Struct, frozen=True):
    """What became of the replay of one letter: where the input stands now, or why it was not put back."""

    position: Origin
    put_back_at: str = ""
    why_not: str = ""


class DeadLog:
    """``memory.dead`` behind one consumer without a group; make one with ``opened``."""

    def __init__(self, settings: Settings, client: AIOKafkaConsumer, codec: Codec) -> None:
        self._settings = settings
        self._client = client
        self._codec = codec
        self._topic = DEAD.named(settings.topic_prefix)

    async def newest(self, wanted: Callable[[DeadLetter], bool], limit: int, *, since_ms: int = 0) -> tuple[Kept, ...]:
        """Return at most ``limit`` letters that are ``wanted``, newest first, without their bytes.

        Reads backwards in windows, so that a long log costs only what is asked for. A record that is no letter is passed over.
        """
        found: list[Kept] = []
        for partition, (begin, end) in (await self._bounds(self._topic)).items():
            replays: dict[str, list[str]] = {}
            kept: list[Kept] = []
            high = end
            while high > begin and len(kept) < limit:
                low = max(begin, high - WINDOW_RECORDS)
                letters = await self._letters(partition, low, high, replays)
                kept += [one for one in letters if one.letter.at_ms >= since_ms and wanted(one.letter)]
                high = low
                if letters and letters[-1].letter.at_ms < since_ms:
                    break
            found += kept[:limit]
        return tuple(sorted(found, key=lambda one: (one.letter.at_ms, one.position), reverse=True)[:limit])

    async def at(self, position: Origin) -> Kept:
        """Return the letter at ``position`` with its bytes; raises ``Rejected`` (``not_found``) when none stands there."""
        partition, offset = position.partition, position.offset
        begin, end = (await self._bounds(self._topic)).get(partition, (0, 0))
        replays: dict[str, list[str]] = {}
        for low in reversed(range(offset + 1, end, WINDOW_RECORDS)):
            await self._letters(partition, low, min(end, low + WINDOW_RECORDS), replays)
        if begin <= offset < end:
            for one in await self._letters(partition, offset, offset + 1, replays, with_value=True):
                return one
        raise Rejected(f"there is no dead letter at {position_text(position)}", code="not_found")

    async def original(self, letter: DeadLetter) -> tuple[bytes | None, bytes] | None:
        """Return key and value of the input as its topic still has it; ``None`` when it has it no more."""
        begin, end = (await self._bounds(letter.topic)).get(letter.partition, (0, 0))
        if not begin <= letter.offset < end:
            return None
        async for record in self._read(letter.topic, letter.partition, letter.offset, letter.offset + 1):
            if record.offset == letter.offset and record.value is not None:
                return record.key, record.value
        return None

    async def _letters(
        self, partition: int, low: int, high: int, replays: dict[str, list[str]], *, with_value: bool = False
    ) -> list[Kept]:
        """Return the letters from ``low`` up to ``high``, newest first; notes of replays go into ``replays``."""
        found: list[tuple[Origin, DeadLetter]] = []
        noted: dict[str, list[str]] = {}
        async for record in self._read(self._topic, partition, low, high):
            try:
                letter = self._codec.decode(record.value or b"", DeadLetter)
            except Rejected:
                continue
            of = dict(record.headers).get(REPLAYED)
            if of is None:
                found.append((Origin(partition, record.offset), letter if with_value else replace(letter, value=None)))
            else:
                place = f"{letter.topic} {letter.partition}:{letter.offset}"
                noted.setdefault(of.decode(errors="replace"), []).insert(0, place)
        for name, places in noted.items():
            replays.setdefault(name, []).extend(places)
        return [Kept(where, letter, tuple(replays.get(position_text(where), ()))) for where, letter in reversed(found)]

    async def _bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        partitions = [TopicPartition(topic, number) for number in range(self._settings.partitions)]
        async with translated(f"looking at {topic}"):
            begins = await self._client.beginning_offsets(partitions)
            ends = await self._client.end_offsets(partitions)
        return {one.partition: (begins[one], ends[one]) for one in partitions}

    async def _read(self, topic: str, partition: int, low: int, high: int) -> AsyncIterator[Any]:
        """Yield the records from ``low`` up to ``high`` (not included), in order; raises ``Retryable`` when Kafka is silent."""
        where = TopicPartition(topic, partition)
        until = time.monotonic() + READ_SECONDS
        async with translated(f"reading {topic}"):
            self._client.assign([where])
            self._client.seek(where, low)
            while await self._client.position(where) < high:
                if time.monotonic() > until:
                    raise Retryable(f"Kafka did not give the records of {topic} in {READ_SECONDS:.0f} s")
                for records in (await self._client.getmany(timeout_ms=200, max_records=WINDOW_RECORDS)).values():
                    for record in records:
                        if record.offset < high:
                            yield record


@asynccontextmanager
async def opened(settings: Settings, codec: Codec) -> AsyncIterator[DeadLog]:
    """Open ``memory.dead`` for reading; raises ``Retryable`` when Kafka is away."""
    async with started(consumer(settings, group=None)) as client:
        yield DeadLog(settings, client, codec)


@asynccontextmanager
async def replaying(settings: Settings, codec: Codec, now_ms: int) -> AsyncIterator["Replayer"]:
    """Open ``memory.dead`` for reading and the topics for putting back; raises ``Retryable`` when Kafka is away."""
    async with opened(settings, codec) as log, started(producer(settings)) as client:
        yield Replayer(settings, codec, log, client, now_ms)


@dataclass(frozen=True, slots=True)
class Replayer:
    """Puts inputs back; make one with ``replaying``.

    The input is sent first and the note about it second: a death between the two leaves an input that could be put back twice,
    which changes nothing, since every stage knows its event by its id. The other way round it could be lost.
    """

    settings: Settings
    codec: Codec
    log: DeadLog
    client: AIOKafkaProducer
    now_ms: int

    async def replay(self, positions: Iterable[Origin], *, again: bool, dry_run: bool) -> tuple[Replayed, ...]:
        """Put the inputs of the letters at ``positions`` back onto their topics, in order; return what became of each."""
        done: list[Replayed] = []
        for position in positions:
            try:
                done.append(await self._one(position, again=again, dry_run=dry_run))
            except Rejected as error:
                done.append(Replayed(position, why_not=error.reason))
        return tuple(done)

    async def _one(self, position: Origin, *, again: bool, dry_run: bool) -> Replayed:
        kept = await self.log.at(position)
        why_not = obstacle(kept.letter, self.settings.topic_prefix)
        if not why_not and kept.replays and not again:
            why_not = f"it was put back already ({kept.replays[0]}): say --again to do it once more"
        if why_not:
            return Replayed(position, why_not=why_not)
        letter, place = kept.letter, route(kept.letter, self.settings.partitions)
        key, value = place.key, letter.value
        if key is None or value is None:
            original = await self.log.original(letter)
            if original is None:
                gone = (
                    f"its bytes were not kept, and {letter.topic} {letter.partition}:{letter.offset} is there no more"
                )
                return Replayed(position, why_not=gone)
            key, value = original[0] if key is None else key, original[1]
        topic = place.topic.named(self.settings.topic_prefix)
        if dry_run:
            return Replayed(position, put_back_at=f"{topic} {place.partition}")
        name = position_text(position).encode()
        headers = ((REPLAY_OF, name),)
        sent = await send(self.client, topic, value, key=key, partition=place.partition, headers=headers)
        note = self.codec.encode(replayed_note(letter, position, topic, sent, self.now_ms))
        dead = DEAD.named(self.settings.topic_prefix)
        headers = ((REPLAYED, name),)
        await send(self.client, dead, note, key=letter.key, partition=position.partition, headers=headers)
        return Replayed(position, put_back_at=f"{topic} {position_text(sent)}")
