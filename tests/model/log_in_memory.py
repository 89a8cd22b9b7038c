"""The log in memory: topics with partitions and offsets, groups that read at least once, compaction by key.

It holds data and decides nothing. A group's offset moves when it is committed and not before, so whoever reads again after a
crash sees again what was not committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LogRecord:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


Place = tuple[str, int]
Batch = dict[Place, list[LogRecord]]


@dataclass
class LogInMemory:
    partitions: int
    _records: dict[Place, list[LogRecord]] = field(default_factory=dict)
    _ends: dict[Place, int] = field(default_factory=dict)

    def append(
        self, topic: str, partition: int, key: bytes | None, value: bytes, headers: Sequence[tuple[str, bytes]] = ()
    ) -> int:
        """Add a record; return its offset."""
        place = (topic, partition)
        offset = self._ends.get(place, 0)
        self._records.setdefault(place, []).append(LogRecord(topic, partition, offset, key, value, tuple(headers)))
        self._ends[place] = offset + 1
        return offset

    def end(self, topic: str, partition: int) -> int:
        """Return the offset that the next record gets."""
        return self._ends.get((topic, partition), 0)

    def read(self, topic: str, partition: int, offset: int, limit: int | None = None) -> list[LogRecord]:
        """Return at most ``limit`` records from ``offset`` on; a compacted log has gaps."""
        found = [record for record in self._records.get((topic, partition), ()) if record.offset >= offset]
        return found if limit is None else found[:limit]

    def every(self, topic: str) -> list[LogRecord]:
        """Return all records of a topic, partition after partition."""
        return [record for partition in range(self.partitions) for record in self.read(topic, partition, 0)]

    def newest(self, topic: str) -> dict[bytes, LogRecord]:
        """Return the newest record per key."""
        return {record.key: record for record in self.every(topic) if record.key is not None}

    def compact(self, topic: str) -> None:
        """Keep of each key the newest record of its partition; offsets stay."""
        for partition in range(self.partitions):
            records = self._records.get((topic, partition), [])
            last = {record.key: record.offset for record in records}
            self._records[topic, partition] = [record for record in records if last[record.key] == record.offset]

    def lose(self, record: LogRecord) -> None:
        """Lose one record, as no broker should."""
        self._records[record.topic, record.partition].remove(record)


class Group:
    """One consumer group of one topic: where it reads, and what it has committed."""

    def __init__(self, log: LogInMemory, topic: str) -> None:
        self._log = log
        self.topic = topic
        self._next = dict.fromkeys(range(log.partitions), 0)
        self.committed = dict.fromkeys(range(log.partitions), 0)

    def poll(self, limit: int, partitions: Sequence[int] | None = None) -> Batch:
        """Return at most ``limit`` records of each partition and move on, without committing."""
        batch: Batch = {}
        for partition in self._next if partitions is None else partitions:
            records = self._log.read(self.topic, partition, self._next[partition], limit)
            if records:
                batch[self.topic, partition] = records
                self._next[partition] = records[-1].offset + 1
        return batch

    def commit(self) -> None:
        """Commit what was polled."""
        self.committed = dict(self._next)

    def crash(self) -> None:
        """Forget what was polled and not committed."""
        self._next = dict(self.committed)

    @property
    def caught_up(self) -> bool:
        """Whether nothing is left that was not committed; what compaction took is not left."""
        return not any(self._log.read(self.topic, partition, offset, 1) for partition, offset in self.committed.items())
