"""The watchdog: notices a partition whose work has stopped, because Faust and aiokafka only log a stall.

Compares, per partition, the end offset of the topic with what the group has committed. Where there is work and the
committed offset does not move for too long, the process is unhealthy and must end, so that its supervisor starts it again.
Run beside every consuming role; ``Progress`` is pure, ``watch`` asks Kafka.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from schemas.errors import Broken, EngramError
from schemas.settings import Settings
from streams.heartbeat import Heartbeat
from streams.kafka import AIOKafkaConsumer, TopicPartition, consumer, started, translated

EVERY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Seen:
    committed: int
    since_seconds: float


@dataclass(frozen=True, slots=True)
class Watched:
    """What one look found: per partition the end offset and the next offset to read, and which partitions stand still."""

    ends: Mapping[int, int]
    committed: Mapping[int, int]
    stalled: tuple[int, ...]


def tell_nobody(_found: Watched) -> None:
    """Keep a look to oneself."""


class Progress:
    """Remembers since when each partition has had work and no progress."""

    def __init__(self, *, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._seen: dict[int, _Seen] = {}

    def stalled(self, ends: Mapping[int, int], committed: Mapping[int, int], *, now_seconds: float) -> tuple[int, ...]:
        """Return the partitions that have had work for ``patience_seconds`` and committed nothing.

        ``ends`` has the end offset and ``committed`` the next offset to read (0 if none) of each watched partition. A partition
        that is not in ``ends`` is no longer ours and is forgotten.
        """
        self._seen = {number: seen for number, seen in self._seen.items() if number in ends}
        found = []
        for number, end in ends.items():
            done = committed.get(number, 0)
            seen = self._seen.get(number)
            if done >= end or seen is None or seen.committed != done:
                self._seen[number] = _Seen(done, now_seconds)
            elif now_seconds - seen.since_seconds >= self._patience_seconds:
                found.append(number)
        return tuple(sorted(found))


async def watch(
    settings: Settings,
    group: str,
    topic: str,
    assigned: Callable[[], Iterable[int]],
    heartbeat: Heartbeat,
    *,
    patience_seconds: float,
    every_seconds: float = EVERY_SECONDS,
    tell: Callable[[Watched], None] = tell_nobody,
) -> None:
    """Watch until cancelled; raises ``Broken`` with the stalled partitions. ``tell`` hears what each look found.

    ``assigned`` returns the partition numbers this process owns now. While the heartbeat says ``waiting``, standing still is
    known and on purpose. A Kafka that does not answer is not a stall: the next look tries again.
    """
    progress = Progress(patience_seconds=patience_seconds)
    while True:
        await asyncio.sleep(every_seconds)
        if heartbeat.state == "waiting":
            progress = Progress(patience_seconds=patience_seconds)
            continue
        try:
            found = await look(settings, group, topic, tuple(assigned()), progress)
        except EngramError:
            continue
        tell(found)
        if found.stalled:
            raise Broken(
                f"no progress for {patience_seconds:.0f} s in partitions {', '.join(map(str, found.stalled))} of {topic}"
            )


async def look(settings: Settings, group: str, topic: str, numbers: tuple[int, ...], progress: Progress) -> Watched:
    """Look once at partitions ``numbers``; raises ``Retryable`` when Kafka does not answer."""
    if not numbers:
        return Watched({}, {}, ())
    partitions = [TopicPartition(topic, number) for number in numbers]
    async with started(_observer(settings, group)) as client, translated("looking for stalled partitions"):
        ends = await client.end_offsets(partitions)
        client.assign(partitions)
        committed = {p.partition: await client.committed(p) or 0 for p in partitions}
    own = {p.partition: end for p, end in ends.items()}
    return Watched(own, committed, progress.stalled(own, committed, now_seconds=time.monotonic()))


def _observer(settings: Settings, group: str) -> AIOKafkaConsumer:
    return consumer(settings, group=group)
