"""The loop that keeps one generation of one store up to date: poll, guard, write, commit.

Called by ``worker``, once per generation. A shell: verdicts come from the guard, rows from the mapping, effects from the
door. It commits an offset only after what stands before it is in the store, and never stops for one record. While much is
waiting, the next batch is read during the write of this one; while little is, records are left to gather for a moment.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from projectors.batch import Change, Conflict, Plan, addressed, plan_guarded, plan_unguarded
from projectors.door import Door
from projectors.entries import Generation, Key
from projectors.mapping import Mapping as RecordMapping
from projectors.mapping import Record
from projectors.names import group_name
from schemas.errors import Rejected, Retryable
from schemas.settings import Settings
from streams.crash import CrashPoints
from streams.kafka import (
    AIOKafkaConsumer,
    ConsumerRebalanceListener,
    TopicPartition,
    consumer,
    started,
    translated,
    try_commit,
)

Item = TypeVar("Item")
Batch = Mapping[TopicPartition, Sequence[Record]]
POLL_MS = 500
LONGEST_PAUSE_SECONDS = 5.0
SMALLEST_BATCH_ROWS = 16
TIDY_ROWS = 500


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a projector tells the rest of the process.

    ``on_rejected(record, error)`` keeps a record that cannot be projected as a dead letter; ``on_conflict`` keeps a conflict;
    ``report(state, detail)`` says ready or waiting. The first two may raise ``Retryable``: the batch then comes again.
    """

    on_rejected: Callable[[Record, Rejected], Awaitable[None]]
    on_conflict: Callable[[Conflict], Awaitable[None]]
    report: Callable[[str, str], None]
    crash: CrashPoints


@dataclass(frozen=True, slots=True)
class _Read(Generic[Item]):
    """A batch as it was polled, with what the mapping made of it, or why it could not be mapped now."""

    batch: Batch
    polled_at: float
    revocations: int
    results: Sequence[Change[Item] | Rejected] | Retryable

    @property
    def rows(self) -> int:
        return sum(map(len, self.batch.values()))

    def changes(self) -> Sequence[Change[Item] | Rejected]:
        if isinstance(self.results, Retryable):
            raise self.results
        return self.results


class Projector(Generic[Item]):
    """One generation's loop. ``building`` may change while it runs; ``counts`` are verdicts and rejections since the start."""

    def __init__(
        self,
        settings: Settings,
        door: Door[Item],
        mapping: RecordMapping[Item],
        generation: Generation,
        surroundings: Surroundings,
    ) -> None:
        self._settings = settings
        self._door = door
        self._mapping = mapping
        self._generation = generation
        self._around = surroundings
        self._topic = mapping.topic.named(settings.topic_prefix)
        self._unflushed = 0
        self._listener = _CommitOnRevoke()
        self._written = self._listener.written
        self._ours_at = 0.0
        self.building = generation.state == "building"
        self._rows = self._most_rows
        self.counts: Counter[str] = Counter()

    @property
    def _most_rows(self) -> int:
        return self._settings.rebuild_batch_rows if self.building else self._settings.projector_batch_rows

    async def run(self, stop: asyncio.Event) -> None:
        """Project until ``stop`` is set; waits in place for Kafka and the store. Raises ``Broken`` only."""
        pause_seconds = 0.2
        while not stop.is_set():
            try:
                await self._door.prepare(self._generation)
                await self._connected(stop)
            except Retryable as error:
                self._around.report("waiting", str(error))
                await _pause(stop, pause_seconds)
                pause_seconds = min(pause_seconds * 2, LONGEST_PAUSE_SECONDS)
            else:
                pause_seconds = 0.2

    async def _connected(self, stop: asyncio.Event) -> None:
        group = group_name(self._settings.topic_prefix, self._generation)
        client = consumer(self._settings, group=group)
        self._listener.follow(client)
        self._ours_at = 0.0
        client.subscribe([self._topic], listener=self._listener)
        async with started(client, stop_seconds=self._settings.stop_seconds / 2):
            await self._consume(client, stop)
            if self._unflushed:
                await self._flush()

    async def _consume(self, client: AIOKafkaConsumer, stop: asyncio.Event) -> None:
        self._around.report("ready", "")
        ahead: asyncio.Task[_Read[Item]] | None = None
        try:
            while not stop.is_set():
                read, ahead = await (ahead or self._read(client)), None
                if read.revocations != self._listener.revocations:
                    # Partitions were dealt anew since the poll, and reading began again where the group had committed.
                    continue
                full = read.rows * 2 >= self._rows
                if full:
                    ahead = asyncio.create_task(self._read(client))
                try:
                    if read.batch and not await self._project(read):
                        # Another process may own these partitions by now; what is still ours comes again, in a smaller batch.
                        self._rows = max(SMALLEST_BATCH_ROWS, self._rows // 2)
                        await self._unread(client, read, ahead)
                        ahead = None
                        continue
                    await self._tidy(idle=not read.batch, caught_up=_caught_up(client, read.batch))
                except Retryable as error:
                    await self._unread(client, read, ahead)
                    ahead = None
                    await self._store_is_back(client, stop, error)
                    continue
                if read.batch:
                    self._rows = min(self._most_rows, self._rows + SMALLEST_BATCH_ROWS)
                    self._around.crash.visit("before_commit")
                    await self._commit(client, read.batch)
                    if not full and not self.building:
                        linger = self._settings.projector_linger_ms / 1000 - (time.monotonic() - read.polled_at)
                        await _pause(stop, max(0.0, linger))
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)

    async def _read(self, client: AIOKafkaConsumer) -> _Read[Item]:
        """Poll and decode; a mapping that cannot be done now is told with the batch, so that the batch can be read again."""
        async with translated("polling"):
            batch: Batch = await client.getmany(timeout_ms=POLL_MS, max_records=self._rows)
        polled_at, revocations = time.monotonic(), self._listener.revocations
        records = [record for some in batch.values() for record in some]
        try:
            results = await self._mapping.changes(records, self._generation) if records else []
        except Retryable as error:
            return _Read(batch, polled_at, revocations, error)
        return _Read(batch, polled_at, revocations, results)

    async def _unread(
        self, client: AIOKafkaConsumer, read: _Read[Item], ahead: asyncio.Task[_Read[Item]] | None
    ) -> None:
        """Read a batch, and the one that was read ahead, again; an error of the poll ahead is met by the next poll."""
        if ahead is not None:
            (found,) = await asyncio.gather(ahead, return_exceptions=True)
            if isinstance(found, _Read) and found.revocations == self._listener.revocations:
                self._rewind(client, found.batch)
            elif isinstance(found, BaseException) and not isinstance(found, Retryable):
                raise found
        self._rewind(client, read.batch)

    async def _project(self, read: _Read[Item]) -> bool:
        """Write a batch; return False, having written nothing, when it is not surely ours: too old, or dealt anew."""
        records = [record for some in read.batch.values() for record in some]
        results = read.changes()
        changes = [result for result in results if isinstance(result, Change)]
        plan = await self._judged(changes)
        # The group took a commit of ours at ``_ours_at``: then, too, the partitions were ours.
        too_old = time.monotonic() - max(read.polled_at, self._ours_at) > self._settings.session_timeout_seconds / 2
        if too_old or read.revocations != self._listener.revocations:
            return False
        refused, kept = await self._write(plan)
        if kept:
            plan = await self._judged_again(changes, kept, refused)
        if self._door.buffered:
            self._unflushed += len(plan.items) + len(plan.forced)
        self._around.crash.visit(f"after_{self._generation.store}")
        if self.building:
            self._around.crash.visit("mid_rebuild")
        for record, result in zip(records, results, strict=True):
            problem = result if isinstance(result, Rejected) else result.problem or refused.get(result.key)
            if problem is not None:
                self.counts["rejected"] += 1
                await self._around.on_rejected(record, problem)
        for conflict in plan.conflicts:
            await self._around.on_conflict(conflict)
        self.counts.update(plan.verdicts)
        return True

    async def _judged(self, changes: Sequence[Change[Item]]) -> Plan[Item]:
        if not self._door.guarded:
            return plan_unguarded(changes, self._generation)
        repaired = list({c.key: None for c in changes if addressed(c.repair, self._generation)})
        if self._door.keeps_newer and not repaired:
            # Most events are news: the write itself compares versions, and says of what the store kept its own.
            return plan_guarded(changes, self._generation, {}, {})
        return await self._judged_by_reading(changes, repaired)

    async def _judged_by_reading(self, changes: Sequence[Change[Item]], repaired: Sequence[Key]) -> Plan[Item]:
        keys = list({change.key: None for change in changes})
        stored = await self._door.guard_read(self._generation, keys) if keys else {}
        seen = await self._door.fingerprints_of(self._generation, repaired, deep=True) if repaired else {}
        return plan_guarded(changes, self._generation, stored, seen)

    async def _judged_again(
        self, changes: Sequence[Change[Item]], kept: Collection[Key], refused: dict[Key, Rejected]
    ) -> Plan[Item]:
        """Return the plan of a batch of which the store kept ``kept``: these are judged by what is really stored."""
        plan = plan_guarded([one for one in changes if one.key not in kept], self._generation, {}, {})
        again = await self._judged_by_reading([one for one in changes if one.key in kept], ())
        plan.conflicts += again.conflicts
        plan.verdicts.update(again.verdicts)
        refused.update((await self._write(again))[0])
        return plan

    async def _write(self, plan: Plan[Item]) -> tuple[dict[Key, Rejected], set[Key]]:
        """Write a plan; where the store refuses the batch, each item on its own. Return what was refused, and what was kept."""
        refused: dict[Key, Rejected] = {}
        kept: set[Key] = set()
        for items, forced in ((plan.items, False), (plan.forced, True)):
            if not items:
                continue
            try:
                kept.update(await self._door.write(self._generation, list(items.values()), forced=forced))
            except Rejected:
                for key, item in items.items():
                    try:
                        kept.update(await self._door.write(self._generation, [item], forced=forced))
                    except Rejected as error:
                        refused[key] = error
        return refused, kept

    async def _tidy(self, *, idle: bool, caught_up: bool) -> None:
        """Flush when there is time for it, and at the latest after the number of rows that the settings name."""
        if self.building:
            due = self._unflushed >= self._settings.rebuild_flush_rows
        else:
            enough = TIDY_ROWS if caught_up else self._settings.milvus_flush_rows
            due = self._unflushed >= enough or (idle and self._unflushed > 0)
        if due:
            await self._flush()

    async def _flush(self) -> None:
        await self._door.flush(self._generation)
        self._unflushed = 0

    async def _commit(self, client: AIOKafkaConsumer, batch: Batch) -> None:
        self._written.update({partition: some[-1].offset + 1 for partition, some in batch.items()})
        mine = client.assignment()
        for partition in [partition for partition in self._written if partition not in mine]:
            del self._written[partition]
        offsets = dict(self._written)
        asked_at = time.monotonic()
        if offsets and await try_commit(client, offsets):
            self._ours_at = asked_at
            for partition, offset in offsets.items():
                if self._written.get(partition) == offset:
                    del self._written[partition]

    def _rewind(self, client: AIOKafkaConsumer, batch: Batch) -> None:
        """Read the batch again, as far as its partitions are still ours."""
        for partition, some in batch.items():
            if partition in client.assignment():
                client.seek(partition, some[0].offset)

    async def _store_is_back(self, client: AIOKafkaConsumer, stop: asyncio.Event, error: Retryable) -> None:
        """Wait until the store answers, polling without fetching, so that the partitions stay ours."""
        pause_seconds = max(0.1, min(error.delay_seconds, 0.5))
        reason = str(error)
        while not stop.is_set():
            self._around.report("waiting", reason)
            client.pause(*client.assignment())
            async with translated("polling"):
                missed: dict[Any, Any] = await client.getmany(timeout_ms=int(pause_seconds * 1000), max_records=1)
            self._rewind(client, missed)
            # A paused consumer answers at once.
            await _pause(stop, pause_seconds)
            try:
                await self._door.healthy()
                await self._door.prepare(self._generation)
            except Retryable as still:
                reason = str(still)
                pause_seconds = min(pause_seconds * 2, LONGEST_PAUSE_SECONDS)
            else:
                break
        client.resume(*client.paused())
        self._around.report("ready", "")


class _CommitOnRevoke(ConsumerRebalanceListener):  # type: ignore[misc]
    """Commits what is in the store before partitions go to another process; shares no lock with the loop.

    ``written`` are the next offsets of what is in the store and not committed; ``revocations`` counts how often partitions
    were taken away.
    """

    def __init__(self) -> None:
        self._client: AIOKafkaConsumer | None = None
        self.written: dict[TopicPartition, int] = {}
        self.revocations = 0

    def follow(self, client: AIOKafkaConsumer) -> None:
        """Begin with a new client."""
        self._client = client
        self.written.clear()
        self.revocations += 1

    async def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        """Commit; a failure is harmless, since the batch then comes again."""
        self.revocations += 1
        offsets = {partition: self.written.pop(partition) for partition in revoked if partition in self.written}
        with suppress(Retryable):
            await try_commit(self._client, offsets)

    async def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        """Nothing to prepare."""


def _caught_up(client: AIOKafkaConsumer, batch: Batch) -> bool:
    return all((client.highwater(partition) or 0) <= some[-1].offset + 1 for partition, some in batch.items())


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
