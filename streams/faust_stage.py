"""Faust: runs one stage as an agent on its topic, one event at a time, in order per partition.

The one shell around Faust; started by the worker command. The agent's body cannot raise: ``Delivery`` returns when every
effect is durable, or the process ends. Faust acknowledges an event when the body asks for the next one. Sends go through
our own idempotent producer, whose acknowledgements are awaited.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faust
from faust import streams as faust_streams

from schemas.errors import Misconfigured
from schemas.inputs import Origin
from schemas.settings import Settings
from streams.acknowledgements import acknowledged
from streams.delivery import Delivery
from streams.heartbeat import Heartbeat
from streams.kafka import AIOKafkaProducer, connection, translated
from streams.stage import Output, Stage

# 1 MiB inputs: so many wait in memory at most before fetching pauses.
_BUFFER_EVENTS = 256
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
        async for event in stream.events():
            message = event.message
            position = Origin(message.partition, message.offset)
            await delivery.deliver(message.value or b"", message.key, position, message.generation_id)

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
