"""The relay: takes committed rows from the outbox and publishes them, in order per user, at least once.

One process owns a shard as long as its Postgres session lives; further relays stand by. A row leaves the outbox only after
Kafka acknowledged what it became. A session ends only when nothing it sent is on its way any more; where that cannot be had,
the process ends. Called by the worker. It never decides anything and never writes a memory.
"""

import asyncio
import random
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from schemas.codec import Codec
from schemas.errors import Broken, Misconfigured, Rejected, Retryable
from schemas.settings import Settings
from streams import kafka
from streams.acknowledgements import acknowledged
from streams.crash import CrashPoints
from streams.postgres_outbox import Outbox
from streams.produce import produce
from streams.publication import Message, OutboxRow, last_of_memory, messages_of

_LONGEST_PAUSE_SECONDS = 5.0
_SHARD_SECONDS = 2.0
# After a batch of fewer rows, which left none behind, the next one does not begin sooner than this after its start.
_FEW_ROWS = 100
_GATHER_SECONDS = 0.01


@dataclass(slots=True)
class _Batch:
    """Claimed rows, what those that can be published became, and the first failed row of each user with its reason."""

    rows: Sequence[OutboxRow]
    messages: list[tuple[OutboxRow, Sequence[Message]]] = field(default_factory=list)
    failed: dict[str, tuple[OutboxRow, Rejected]] = field(default_factory=dict)

    def settle(self, refused: Mapping[int, Rejected]) -> list[OutboxRow]:
        """Note the rows that Kafka refused; return those that are published and have no failed row of their user before them."""
        done = []
        for row, _ in self.messages:
            earlier = self.failed.get(row.user)
            if earlier is not None and earlier[0].outbox_id < row.outbox_id:
                continue
            refusal = refused.get(row.outbox_id)
            if refusal is None:
                done.append(row)
            else:
                self.failed[row.user] = (row, refusal)
        return done

    def without(self, users: Container[str]) -> "_Batch":
        """Return the batch without the rows of these users: they stay in the outbox."""
        return _Batch(
            [row for row in self.rows if row.user not in users],
            [(row, messages) for row, messages in self.messages if row.user not in users],
            {user: failure for user, failure in self.failed.items() if user not in users},
        )


class Beat(Protocol):
    """Whatever shows how the relay is."""

    def set(self, state: str, detail: str = "", /) -> None:
        """Show ``state``: ready, waiting or stopping."""
        ...


class Relay:
    """Publishes until it is told to stop; ``published`` counts outbox rows done."""

    def __init__(
        self,
        settings: Settings,
        codec: Codec,
        *,
        crash: CrashPoints | None = None,
        beat: Beat | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self._settings = settings
        self._codec = codec
        self._crash = crash or CrashPoints()
        self._beat = beat
        self._chance = chance or random.Random()  # noqa: S311 - jitter, not a secret
        self._log: Any = structlog.get_logger().bind(stage="relay")
        self._pause_seconds = 0.0
        self.published = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Publish until ``stop`` is set; a Postgres or Kafka that is away is waited for.

        Raises ``Broken`` when Kafka stays silent about what was sent: the process must end, so that no second producer runs
        beside the one that still tries.
        """
        while not stop.is_set():
            try:
                await self._session(stop)
            except Misconfigured:
                raise
            except Retryable as error:
                self._show("waiting", str(error))
                self._log.warning("waiting", reason=str(error))
                self._pause_seconds = min(_LONGEST_PAUSE_SECONDS, max(0.2, self._pause_seconds * 2))
                await _sleep(stop, self._pause_seconds)
        self._show("stopping")

    async def _session(self, stop: asyncio.Event) -> None:
        """One Postgres session and one Kafka client; ends by an error of either, or by ``stop``."""
        outbox = await Outbox.open(self._settings)
        try:
            async with kafka.started(kafka.producer(self._settings)) as producer:
                await self._publish(outbox, producer, stop)
        finally:
            await outbox.close()

    async def _publish(self, outbox: Outbox, producer: Any, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        next_look = 0.0
        batch: _Batch | None = None
        while not stop.is_set():
            if batch is None:
                if loop.time() >= next_look:
                    await outbox.take_shards()
                    next_look = loop.time() + _SHARD_SECONDS
                batch = await self._prepared(outbox, await outbox.claim())
            few = len(batch.rows) < min(_FEW_ROWS, self._settings.relay_claim_rows)
            began = loop.time()
            following = await self._batch(outbox, producer, batch) if batch.rows else None
            self._pause_seconds = 0.0
            self._show("ready", f"{len(outbox.shards)} shards")
            if following is None and not batch.rows:
                await outbox.wait(self._settings.relay_poll_seconds)
            elif following is None and few:
                # Rows come in quick succession: those of the next moment go together.
                await _sleep(stop, began + _GATHER_SECONDS - loop.time())
                if not batch.failed and not await outbox.wait(0):
                    await outbox.wait(self._settings.relay_poll_seconds)
            batch = following

    async def _prepared(self, outbox: Outbox, rows: Sequence[OutboxRow]) -> "_Batch":
        """Return what the rows become; a row that cannot be published holds back the later rows of its user."""
        batch = _Batch(rows)
        if not rows:
            return batch
        truth = await outbox.truth_of(rows)
        last = last_of_memory(rows)
        for row in rows:
            if row.user in batch.failed:
                continue
            try:
                messages = messages_of(
                    row,
                    truth,
                    self._codec,
                    with_snapshot=row.outbox_id in last,
                    limit_bytes=self._settings.stage_limit_bytes,
                )
            except Rejected as error:
                batch.failed[row.user] = (row, error)
                continue
            batch.messages.append((row, messages))
        return batch

    async def _batch(self, outbox: Outbox, producer: Any, batch: "_Batch") -> "_Batch | None":
        """Send a batch, wait for every acknowledgement, remove its rows; return the batch behind it, if there is one.

        That one is read and encoded while Kafka works, and is sent only after this one's rows are removed: until then nobody
        knows whether the shards are still ours.
        """
        sending = asyncio.ensure_future(
            acknowledged(produce(producer, self._settings.topic_prefix, batch.messages), self._show)
        )
        following, failure = None, None
        try:
            rows = await outbox.claim_behind(batch.rows)
            following = await self._prepared(outbox, rows) if rows else None
        except Broken as error:
            # What is sent already has to leave the outbox first, or it would be sent again at every start.
            failure = error
        finally:
            refused = await sending
        done = batch.settle(refused)
        self._crash.visit("after_relay_send")
        if done:
            self._crash.visit("before_outbox_done")
            await outbox.done(done)
            self.published += len(done)
        for row, refusal in batch.failed.values():
            await self._put_off(outbox, row, refusal)
        if failure is not None:
            raise failure
        following = following.without(batch.failed) if following is not None else None
        return following if following is not None and following.rows else None

    async def _put_off(self, outbox: Outbox, row: OutboxRow, error: Rejected) -> None:
        attempts = row.attempts + 1
        self._log.warning("row failed", outbox_id=row.outbox_id, code=error.code, attempts=attempts)
        if attempts >= self._settings.relay_attempts:
            await outbox.bury(row, error.reason)
            return
        delay_seconds = 2.0 ** min(attempts, 10) * self._chance.uniform(0.75, 1.25)
        await outbox.failed(row, error.reason, delay_seconds)

    def _show(self, state: str, detail: str = "") -> None:
        if self._beat is not None:
            self._beat.set(state, detail)


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    """Wait ``seconds``, or less when told to stop."""
    if seconds <= 0:
        return
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
