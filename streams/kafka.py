"""The one door to Kafka: clients with safe settings, sends that wait for the acknowledgement, topics, positions.

Called by the producer, the stages, the relay, the projectors and the consumer helper. Kafka's errors become
``Retryable``, ``Rejected`` or ``Broken`` here and nowhere else. Faust's own consumer is the only other Kafka client.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypedDict, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    CommitFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    IllegalStateError,
    InvalidReplicationFactorError,
    KafkaError,
    MessageSizeTooLargeError,
    NoError,
    NotCoordinatorForGroupError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RecordTooLargeError,
    TopicAlreadyExistsError,
    for_code,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from schemas.errors import Broken, EngramError, Misconfigured, Rejected, Retryable
from schemas.inputs import Origin
from schemas.settings import Settings
from schemas.topics import TOPICS

__all__ = [
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConsumerRebalanceListener",
    "TopicPartition",
    "admin",
    "committed_offsets",
    "consumer",
    "end_offsets",
    "ensure_topics",
    "producer",
    "send",
    "started",
    "topic_identities",
    "translated",
    "try_commit",
]

_ENVELOPE_BYTES = 65_536
_START_SECONDS = 20.0
_COORDINATOR_SECONDS = 15.0
Answer = TypeVar("Answer")


class Connection(TypedDict):
    """The connection arguments that every aiokafka client takes."""

    bootstrap_servers: str
    security_protocol: str
    sasl_mechanism: str
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    ssl_context: ssl.SSLContext | None


def connection(settings: Settings) -> Connection:
    """Return the connection arguments for the broker named in ``settings``."""
    encrypted = settings.kafka_security_protocol.endswith("SSL")
    return Connection(
        bootstrap_servers=settings.kafka_bootstrap_servers,
        security_protocol=settings.kafka_security_protocol,
        sasl_mechanism="PLAIN",
        sasl_plain_username=settings.kafka_sasl_username or None,
        sasl_plain_password=settings.kafka_sasl_password.get_secret_value() or None,
        ssl_context=ssl.create_default_context() if encrypted else None,
    )


def producer(settings: Settings, *, linger_ms: int = 0) -> AIOKafkaProducer:
    """Return an idempotent producer (acks of all replicas), not started."""
    return AIOKafkaProducer(
        **connection(settings),
        acks="all",
        enable_idempotence=True,
        max_request_size=settings.stage_limit_bytes + _ENVELOPE_BYTES,
        max_batch_size=131_072,
        linger_ms=linger_ms,
        request_timeout_ms=10_000,
        metadata_max_age_ms=60_000,
    )


def consumer(
    settings: Settings,
    *topics: str,
    group: str | None,
    listener: ConsumerRebalanceListener | None = None,
    from_end: bool = False,
) -> AIOKafkaConsumer:
    """Return a consumer that commits only what its caller commits, not started.

    ``group`` ``None`` reads without a group (assign partitions yourself). ``from_end`` starts a new group at the end.
    """
    client = AIOKafkaConsumer(
        **connection(settings),
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="latest" if from_end else "earliest",
        session_timeout_ms=int(settings.session_timeout_seconds * 1000),
        heartbeat_interval_ms=int(settings.session_timeout_seconds * 300),
        max_poll_interval_ms=int(settings.max_poll_seconds * 1000),
        max_partition_fetch_bytes=settings.stage_limit_bytes + _ENVELOPE_BYTES,
        metadata_max_age_ms=60_000,
    )
    if topics:
        client.subscribe(list(topics), listener=listener)
    return client


@asynccontextmanager
async def translated(doing: str) -> AsyncIterator[None]:
    """Turn Kafka's errors into errors by consequence; ``doing`` completes the sentence "Kafka failed while …"."""
    try:
        yield
    except EngramError:
        raise
    except (MessageSizeTooLargeError, RecordTooLargeError) as error:
        raise Rejected(f"the record is larger than the topic allows while {doing}", code="too_large") from error
    except (OutOfOrderSequenceNumber, ProducerFenced) as error:
        raise Broken(f"the producer lost its sequence while {doing} and must be made anew") from error
    except (KafkaError, OSError, TimeoutError) as error:
        raise Retryable(f"Kafka failed while {doing}: {type(error).__name__}") from error


@asynccontextmanager
async def started(client: Any, *, stop_seconds: float = 5.0) -> AsyncIterator[Any]:
    """Start a producer, consumer or admin client and stop it in bounded time; raises ``Retryable`` when Kafka is away."""
    start = client.start
    try:
        async with translated("connecting"):
            await asyncio.wait_for(start(), _START_SECONDS)
        yield client
    finally:
        stop = client.close if isinstance(client, AIOKafkaAdminClient) else client.stop
        # The client can hang while the broker is away; the process or loop ends next.
        with suppress(TimeoutError, KafkaError, OSError):
            await asyncio.wait_for(stop(), stop_seconds)


async def send(
    client: AIOKafkaProducer,
    topic: str,
    value: bytes,
    *,
    key: bytes | None = None,
    partition: int | None = None,
    headers: Sequence[tuple[str, bytes]] = (),
) -> Origin:
    """Send one record and wait until all replicas have it; return its position.

    Raises ``Rejected`` (``too_large``), ``Retryable`` (broker away) or ``Broken`` (make a new producer).
    """
    async with translated(f"sending to {topic}"):
        metadata = await client.send_and_wait(topic, value, key=key, partition=partition, headers=list(headers) or None)
        return Origin(metadata.partition, metadata.offset)


async def try_commit(client: AIOKafkaConsumer, offsets: Mapping[TopicPartition, int]) -> bool:
    """Commit next offsets (last processed + 1); return False when the group has moved on and the batch will come again."""
    if not offsets:
        return True
    try:
        async with translated("committing"):
            await client.commit(dict(offsets))
    except Retryable as error:
        if isinstance(error.__cause__, CommitFailedError | IllegalStateError):
            return False
        raise
    return True


@asynccontextmanager
async def admin(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Yield a started admin client; raises ``Retryable`` when Kafka is away."""
    async with started(AIOKafkaAdminClient(**connection(settings), request_timeout_ms=15_000)) as client:
        yield client


async def ensure_topics(settings: Settings) -> tuple[str, ...]:
    """Create the topics that are missing; return the names created.

    Raises ``Misconfigured`` when the broker refuses a topic, and when an existing one has another number of partitions than
    ``ENGRAM_PARTITIONS``: that number is fixed for the life of the topics.
    """
    async with admin(settings) as client, translated("creating topics"):
        known = set(await client.list_topics())
        wanted = {topic.named(settings.topic_prefix): topic for topic in TOPICS}
        missing = [
            NewTopic(name, settings.partitions, settings.replication_factor, topic_configs=topic.config)
            for name, topic in wanted.items()
            if name not in known
        ]
        if missing:
            brokers = len((await client.describe_cluster())["brokers"])
            # A broker that has just started is not counted yet; then asking again helps.
            enough = not 0 < brokers < settings.replication_factor
            _check_created(await client.create_topics(missing), enough_brokers=enough)
        for description in await client.describe_topics([name for name in wanted if name in known]):
            found = len(description["partitions"])
            if found != settings.partitions:
                raise Misconfigured(
                    f"topic {description['topic']} has {found} partitions, ENGRAM_PARTITIONS says {settings.partitions}: "
                    "the number is fixed for the life of the topics"
                )
        return tuple(topic.name for topic in missing)


def _check_created(answer: Any, *, enough_brokers: bool) -> None:
    """Raise for the first topic that the broker did not create: it answers with codes where the client raises nothing.

    ``Retryable`` where asking again can help, else ``Misconfigured``. A topic that another process created between the look
    and the call is fine.
    """
    for name, code, *reasons in answer.topic_errors:
        error = for_code(code)
        if error in (NoError, TopicAlreadyExistsError):
            continue
        reason = f"topic {name} was not created: {error.__name__}" + "".join(f" ({text})" for text in reasons if text)
        may_help = error.retriable or (error is InvalidReplicationFactorError and enough_brokers)
        raise Retryable(reason) if may_help else Misconfigured(reason)


async def topic_identities(settings: Settings) -> dict[str, str]:
    """Return for each of our topics that exists the ids of the cluster and of the topic, as one text.

    It changes when the broker's data was thrown away, and when the topic was deleted and made again.
    """
    names = [topic.named(settings.topic_prefix) for topic in TOPICS]
    client = AIOKafkaClient(**connection(settings), request_timeout_ms=15_000)
    try:
        async with translated("asking for the ids of the topics"):
            await asyncio.wait_for(client.bootstrap(), _START_SECONDS)
            answer = await client.send(client.get_random_node(), _TopicIds(names))
    finally:
        with suppress(TimeoutError, KafkaError, OSError):
            await asyncio.wait_for(client.close(), 5.0)
    return {
        name: f"{answer.cluster_id}/{high & _64_BITS:016x}{low & _64_BITS:016x}"
        for error_code, name, high, low, *_ in answer.topics
        if not error_code
    }


async def end_offsets(settings: Settings, topic: str) -> dict[int, int]:
    """Return the end offset (next to be written) of every partition of ``topic``."""
    async with started(consumer(settings, group=None)) as client, translated("reading end offsets"):
        partitions = [TopicPartition(topic, number) for number in range(settings.partitions)]
        found = await client.end_offsets(partitions)
        return {partition.partition: offset for partition, offset in found.items()}


def raise_for_code(code: int) -> None:
    """Raise the client's error for a code of the broker; 0 is none. To be translated like every error of the client."""
    if code:
        raise for_code(code)


async def coordinated(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask about groups until they have a coordinator: a broker that just started makes the topic of offsets when first asked."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _COORDINATOR_SECONDS
    while True:
        try:
            return await ask()
        except (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError):
            if loop.time() > until:
                raise
            await asyncio.sleep(0.2)


async def committed_offsets(settings: Settings, group: str, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """Return the next offset that ``group`` has committed per partition of ``topics``; partitions without one are left out."""
    async with admin(settings) as client, translated("reading committed offsets"):
        found = await coordinated(lambda: client.list_consumer_group_offsets(group))
        wanted = set(topics)
        return {tp: entry.offset for tp, entry in found.items() if tp.topic in wanted and entry.offset >= 0}


# aiokafka speaks metadata up to version 5; topics have ids from version 10 on (Kafka 2.8).
_64_BITS = (1 << 64) - 1
_ID = (("id_high", Int64), ("id_low", Int64))


class _TopicIdsResponse(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                *_ID,
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _TopicIdsRequest(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 10
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _TopicIdsResponse
    SCHEMA = Schema(
        ("topics", CompactArray(*_ID, ("name", CompactString("utf-8")), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _TopicIds(Request[_TopicIdsRequest]):  # type: ignore[misc]
    """Ask for the metadata of topics by name, without making those that do not exist."""

    API_KEY = 3

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def build(self, request_struct_class: type[_TopicIdsRequest]) -> _TopicIdsRequest:
        return request_struct_class([(0, 0, name, {}) for name in self._names], False, False, False, {})
