"""Faust: runs one stage as an agent on its topic, in order per partition.

The one shell around Faust; started by the worker command. What has arrived goes through ``Delivery`` together, so that load
makes batches and a lone event waits for nobody. Nothing here can raise into Faust: ``Delivery`` returns when every effect is
durable, or the process ends; only then are the events acknowledged, by us, in their order. Sends go through our own
idempotent producer, whose acknowledgements are awaited.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import faust
from faust import streams as faust_streams

from schemas.errors import Misconfigured
from schemas.inputs import Origin
from schemas.settings import Settings
from streams.acknowledgements import acknowledged
from streams.delivery import EXIT_BROKEN, Delivery, end_process
from streams.heartbeat import Heartbeat
from streams.kafka import AIOKafkaProducer, connection, translated
from streams.stage import Input, Output, Stage

# 1 MiB inputs: so many wait in memory at most before fetching pauses.
_BUFFER_EVENTS = 256
# What goes through a stage together: enough to share round trips, little enough that the loop is free again soon.
_BATCH_EVENTS = 64
_BATCH_BYTES = 262_144
_COMMIT_SECONDS = 1.0


class KafkaSender:
    """Sends outputs in order and waits for all acknowledgements; ``client`` is a started producer."""

    def __init__(self, client: AIOKafkaProducer, settings: Settings, heartbeat: Heartbeat) -> None:
        self._client = client
        self._prefix = settings.topic_prefix
        self._heartbeat = heartbeat

    async def send_all(self, outputs: Sequence[Output]) -> None:
        """Send every output; raises ``Rejected`` (``too_large``), ``Retryable`` or, after 30 s of silence, ``Broken``.

        An idempotent producer tries for ever; a second send of the same record beside it would only double it, so silence
        ends in ``Broken``: the process ends, and the input comes again.
        """
        if not outputs:
            return
        await acknowledged(self._send_all(outputs), self._heartbeat.set)

    async def _send_all(self, outputs: Sequence[Output]) -> None:
        async with translated("sending a stage's outputs"):
            sent = [
                await self._client.send(self._prefix + output.topic.name, output.value, key=output.key)
                for output in outputs
            ]
            for acknowledgement in sent:
                await acknowledgement


class Intake:
    """Gathers the events of one agent while earlier ones are worked on, and hands them on in batches."""

    def __init__(self, app: Any, delivery: Delivery) -> None:
        self._app = app
        self._delivery = delivery
        self._waiting: deque[Any] = deque()
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()

    async def put(self, event: Any) -> None:
        """Add an event; waits while there are enough for a batch, so that what a rebalance takes away stays little."""
        self._waiting.append(event)
        self._arrived.set()
        while len(self._waiting) >= _BATCH_EVENTS:
            self._taken.clear()
            await self._taken.wait()

    async def run(self) -> None:
        """Deliver and acknowledge for ever."""
        while True:
            await self._arrived.wait()
            batch = self._take()
            if batch:
                generation = batch[0].message.generation_id
                await self._delivery.deliver([_input_of(event) for event in batch], generation)
                for event in batch:
                    event.ack()

    def _take(self) -> list[Any]:
        """Return the next events of one generation of the group; what stands before a rebalance is left to come again."""
        batch: list[Any] = []
        size_bytes = 0
        while self._waiting and len(batch) < _BATCH_EVENTS:
            event = self._waiting[0]
            size_bytes += len(event.message.value or b"")
            if batch and size_bytes > _BATCH_BYTES:
                break
            self._waiting.popleft()
            if self._is_ours(event):
                batch.append(event)
            else:
                # Faust waits for every event that it handed out before it lets a partition go; this one nobody works on.
                self._app.consumer.unacked.discard(event.message)
        if not self._waiting:
            self._arrived.clear()
        self._taken.set()
        return batch

    def _is_ours(self, event: Any) -> bool:
        # As Faust itself does with what waits in its own queues: it is neither worked on nor acknowledged.
        return bool(
            self._app.flow_control.is_active() and event.message.generation_id == self._app.consumer_generation_id
        )


def _end_if_failed(task: "asyncio.Task[None]") -> None:
    """End the process when delivering stopped by itself, which it never should: nothing would be worked on any more."""
    if not task.cancelled() and task.exception() is not None:
        end_process(EXIT_BROKEN)


def _input_of(event: Any) -> Input:
    message = event.message
    return Input(message.value or b"", Origin(message.partition, message.offset), message.key)


def faust_app(stage: Stage, delivery: Delivery, settings: Settings) -> Any:
    """Return the Faust app of ``stage``, not started: its agent hands every event to ``delivery``.

    Raises ``Misconfigured`` where Faust's compiled stream iterator is missing: the other one acknowledges events that a
    rebalance made it skip.
    """
    if getattr(faust_streams, "_CStreamIterator", None) is None:
        raise Misconfigured("faust-streaming was installed without its compiled parts: install its wheel")
    session = settings.session_timeout_seconds
    folder = Path(settings.state_dir) / "faust" / stage.name
    folder.mkdir(parents=True, exist_ok=True)
    app = faust.App(
        group_of(stage.name, settings),
        broker="kafka://" + settings.kafka_bootstrap_servers.replace(",", ";kafka://"),
        broker_credentials=_credentials(settings),
        broker_session_timeout=session,
        broker_heartbeat_interval=session * 0.3,
        broker_rebalance_timeout=max(session, 60.0),
        broker_request_timeout=max(session * 2, 40.0),
        broker_max_poll_interval=settings.max_poll_seconds,
        broker_commit_interval=_COMMIT_SECONDS,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=settings.stage_limit_bytes + 65_536,
        stream_buffer_maxsize=_BUFFER_EVENTS,
        stream_wait_empty=True,
        topic_allow_declare=False,
        topic_disable_leader=True,
        value_serializer="raw",
        key_serializer="raw",
        web_enabled=False,
        store="memory://",
        datadir=folder,
    )
    topic = app.topic(settings.topic_prefix + stage.source.name, value_serializer="raw", key_serializer="raw")

    async def body(stream: Any) -> None:
        intake = Intake(app, delivery)
        working = asyncio.create_task(intake.run())
        working.add_done_callback(_end_if_failed)
        try:
            async for event in stream.noack().events():
                await intake.put(event)
        finally:
            # What is being delivered ends the process here, unacknowledged; a clean stop has waited for it before.
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working

    app.agent(topic, name=stage.name, concurrency=1)(body)
    return app


def group_of(role: str, settings: Settings) -> str:
    """Return the consumer group of a stage: one per stage, so that one stage's trouble does not rebalance the others."""
    return f"{settings.topic_prefix}engram-{role}"


def on_assignment(app: Any) -> asyncio.Event:
    """Return an event that is set when the group has given this process its partitions, if only none."""
    happened = asyncio.Event()

    async def note(*_: Any, **__: Any) -> None:
        happened.set()

    app.on_partitions_assigned.connect(note, weak=False)
    return happened


def assigned(app: Any) -> tuple[int, ...]:
    """Return the partitions of the stage's topic that this process owns now."""
    return tuple(partition.partition for partition in app.consumer.assignment())


def _credentials(settings: Settings) -> Any:
    if settings.kafka_security_protocol == "PLAINTEXT":
        return None
    options = connection(settings)
    if settings.kafka_security_protocol == "SSL":
        return faust.SSLCredentials(context=options["ssl_context"])
    return faust.SASLCredentials(
        username=options["sasl_plain_username"],
        password=options["sasl_plain_password"],
        ssl_context=options["ssl_context"],
        mechanism=options["sasl_mechanism"],
    )
