"""The relay's two edges in memory: the outbox it reads and the producer it sends with. The real ``Relay`` runs between them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from log_in_memory import LogInMemory
from postgres_in_memory import PoolInMemory

from streams.publication import OutboxRow, Snapshot, Truth

Meanwhile = Callable[[], Awaitable[None]]
_BATCH_RECORDS = 3


class OutboxInMemory:
    """The rows of some shards, ``limit`` at a time; ``meanwhile`` is what else happens between a look and the sending."""

    def __init__(
        self, pool: PoolInMemory, shards: Sequence[int], limit: int, meanwhile: Meanwhile | None = None
    ) -> None:
        self._pool = pool
        self._shards = shards
        self._limit = limit
        self._meanwhile = meanwhile

    async def claim(self) -> list[OutboxRow]:
        """Return the first rows in order of commit."""
        return self._behind(0)

    async def claim_behind(self, rows: Sequence[OutboxRow]) -> list[OutboxRow]:
        """Return the rows behind a whole claim that is still being published."""
        return self._behind(rows[-1].outbox_id) if len(rows) == self._limit else []

    def _behind(self, floor: int) -> list[OutboxRow]:
        rows = sorted(self._pool.tables.outbox.items())
        return [row for number, row in rows if number > floor and row.shard in self._shards][: self._limit]

    async def truth_of(self, rows: Sequence[OutboxRow]) -> Truth:
        """Return the current records of what the rows are about."""
        tables = self._pool.tables
        snapshots: dict[str, Snapshot] = {}
        for row in rows:
            found = tables.snapshot((row.tenant_id, row.user_id, row.aggregate_id)) if row.wants_snapshot else None
            if found is not None:
                snapshots[row.aggregate_id] = found
        events = {
            row.aggregate_id: tables.working[row.tenant_id, row.user_id, row.aggregate_id]
            for row in rows
            if row.wants_working_event and (row.tenant_id, row.user_id, row.aggregate_id) in tables.working
        }
        if self._meanwhile is not None:
            await self._meanwhile()
        return Truth(snapshots, events)

    async def done(self, rows: Sequence[OutboxRow]) -> None:
        async with self._pool.transaction() as tables:
            gone = {row.outbox_id for row in rows}
            for row in rows:
                tables.outbox.pop(row.outbox_id, None)
            tables.repairs = {key: number for key, number in tables.repairs.items() if number not in gone}

    async def failed(self, row: OutboxRow, error: str, delay_seconds: float) -> None:
        raise AssertionError(f"outbox row {row.outbox_id} failed: {error}")

    async def bury(self, row: OutboxRow, error: str) -> None:
        raise AssertionError(f"outbox row {row.outbox_id} was buried: {error}")


class Builder:
    """A batch that is being filled; it takes few records, so that a partition gets several."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes, list[tuple[str, bytes]]]] = []

    def append(self, *, timestamp: None, key: bytes, value: bytes, headers: list[tuple[str, bytes]]) -> int | None:
        if len(self.records) == _BATCH_RECORDS:
            return None
        self.records.append((key, value, headers))
        return len(self.records)


class ProducerInMemory:
    """Puts records into the log; when ``landing`` is set, only so many of each partition arrive before the process dies."""

    def __init__(self, log: LogInMemory, landing: int | None = None) -> None:
        self._log = log
        self._landing = landing
        self._sent: dict[tuple[str, int], int] = {}

    def create_batch(self) -> Builder:
        return Builder()

    async def send_batch(self, builder: Builder, topic: str, *, partition: int) -> "asyncio.Future[Any]":
        for key, value, headers in builder.records:
            number = self._sent[topic, partition] = self._sent.get((topic, partition), 0) + 1
            if self._landing is None or number <= self._landing:
                self._log.append(topic, partition, key, value, headers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future
