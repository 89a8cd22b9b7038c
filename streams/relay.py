"""The relay: takes committed rows from the outbox and publishes them, in order per user, at least once.

One process owns a shard as long as its Postgres session lives; further relays stand by. A row leaves the outbox only after
Kafka acknowledged what it became. A session ends only when nothing it sent is on its way any more; where that cannot be had,
the process ends. Called by the worker. It never decides anything and never writes a memory.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import structlog

from schemas.codec import Codec
from schemas.errors import Broken, Misconfigured, Rejected, Retryable
from schemas.settings import Settings
from streams import kafka
from streams.acknowledgements import acknowledged
from streams.crash import CrashPoints
from streams.postgres_outbox import Outbox
from streams.publication import Message, OutboxRow, last_of_memory, messages_of

_LONGEST_PAUSE_SECONDS = 5.0
_SHARD_SECONDS = 2.0
Acknowledgement: TypeAlias = "asyncio.Future[Any]"


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
        while not stop.is_set():
            if loop.time() >= next_look:
                await outbox.take_shards()
                next_look = loop.time() + _SHARD_SECONDS
            rows = await outbox.claim()
            if rows:
                await self._batch(outbox, producer, rows)
            self._pause_seconds = 0.0
            self._show("ready", f"{len(outbox.shards)} shards")
            if not rows:
                await outbox.wait(self._settings.relay_poll_seconds)

    async def _batch(self, outbox: Outbox, producer: Any, rows: Sequence[OutboxRow]) -> None:
        """Send what the rows became, wait for every acknowledgement, remove the rows.

        A row that cannot be published holds back the later rows of its user; everything else goes on.
        """
        truth = await outbox.truth_of(rows)
        last = last_of_memory(rows)
        failed: dict[str, tuple[OutboxRow, Rejected]] = {}
        prepared: list[tuple[OutboxRow, Sequence[Message]]] = []
        for row in rows:
            if row.user in failed:
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
                failed[row.user] = (row, error)
                continue
            prepared.append((row, messages))
        sent = await acknowledged(self._sent(producer, prepared, failed), self._show)
        done = await self._done(sent, failed)
        self._crash.visit("after_relay_send")
        if done:
            self._crash.visit("before_outbox_done")
            await outbox.done(done)
            self.published += len(done)
        for row, refusal in failed.values():
            await self._put_off(outbox, row, refusal)

    async def _sent(
        self,
        producer: Any,
        prepared: Sequence[tuple[OutboxRow, Sequence[Message]]],
        failed: dict[str, tuple[OutboxRow, Rejected]],
    ) -> list[tuple[OutboxRow, list[Acknowledgement]]]:
        """Hand all messages to the client and wait until nothing is on its way any more, also when handing over fails."""
        sent: list[tuple[OutboxRow, list[Acknowledgement]]] = []
        try:
            for row, messages in prepared:
                if row.user in failed and failed[row.user][0].outbox_id < row.outbox_id:
                    continue
                futures: list[Acknowledgement] = []
                sent.append((row, futures))
                try:
                    for message in messages:
                        futures.append(await self._send(producer, message))  # noqa: PERF401 - kept when the next one fails
                except Rejected as error:
                    failed[row.user] = (row, error)
        finally:
            await asyncio.gather(*(future for _, futures in sent for future in futures), return_exceptions=True)
        return sent

    async def _send(self, producer: Any, message: Message) -> Acknowledgement:
        """Hand one message to the client; the next one waits for that, so order per partition is kept."""
        topic = message.topic.named(self._settings.topic_prefix)
        async with kafka.translated(f"sending to {topic}"):
            future: Acknowledgement = await producer.send(
                topic,
                message.value,
                key=message.key,
                partition=message.partition,
                headers=list(message.headers) or None,
            )
            return future

    @staticmethod
    async def _done(
        sent: Sequence[tuple[OutboxRow, list[Acknowledgement]]], failed: dict[str, tuple[OutboxRow, Rejected]]
    ) -> list[OutboxRow]:
        """Return the rows whose messages were all acknowledged; note those that the broker refuses for good."""
        done = []
        for row, futures in sent:
            try:
                for future in futures:
                    async with kafka.translated("waiting for acknowledgements"):
                        future.result()
            except Rejected as error:
                if row.user not in failed or failed[row.user][0].outbox_id > row.outbox_id:
                    failed[row.user] = (row, error)
            except Broken as error:
                # The client lost its sequence; with a new one the batch is sent again.
                raise Retryable(str(error)) from error
            else:
                if row.user not in failed or failed[row.user][0].outbox_id > row.outbox_id:
                    done.append(row)
        return done

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
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
