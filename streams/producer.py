"""The producer for gateways: checks, seals and sends turns, steps, business records and attachments to ``chat.turns``.

Used by Python gateways, the importers and the command line. Refuses what the pipeline would refuse, with a sentence, before
anything is sent; seals every body with a data key of its own, minted in advance; keeps the order of each user; holds back a
caller who is faster than the broker. It never stores anything and never waits for a store.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import msgspec

from schemas.codec import Codec
from schemas.errors import Broken, Rejected, Retryable
from schemas.ids import check_id, routing_key
from schemas.inputs import (
    BODY_OF_KIND,
    AttachmentDescribed,
    InputBody,
    InputEnvelope,
    Origin,
    RecordReceived,
    Sealed,
    StepRecorded,
    TurnRecorded,
)
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS
from streams.inputs import check_envelope, check_texts
from streams.kafka import AIOKafkaProducer, producer, started, translated
from streams.key_pool import KeyPool, Minting
from streams.sealed_records import seal_record
from streams.stage import check_size

IN_FLIGHT_INPUTS = 1_000
ACKNOWLEDGED_WITHIN_SECONDS = 30.0
PRODUCER_NAME = "engram-python"
_STEPS = ("state_change", "tool_call", "plan", "observation", "task_ended", "page_opened")
_SOURCES = ("official_id", "business_record")
_NO_BODY = Sealed("", b"", b"")


class Receipt(msgspec.Struct, frozen=True):
    """The broker has the input: its idempotency key, and its position to wait for."""

    event_id: str
    position: Origin


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Whose input it is and when it was said; ``event_id`` is the idempotency key (a new one is made when it is missing).

    Times are milliseconds since the epoch; ``received_at_ms`` is set by the producer unless an importer gives it.
    """

    tenant: str
    user: str
    session: str
    event_id: str | None = None
    device_timestamp_ms: int | None = None
    timezone_offset: str | None = None
    locale: str = ""
    conversation: str = ""
    channel: str = ""
    received_at_ms: int | None = None


class TurnProducer:
    """An asynchronous context manager; every method returns when the broker has acknowledged the input.

    All raise ``Rejected`` (the input is refused, nothing was sent), ``Retryable`` (broker or key store away; send the same
    ``event_id`` again) or ``Broken`` (close and make a new producer).
    """

    def __init__(
        self,
        settings: Settings,
        keys: Minting,
        *,
        codec: Codec | None = None,
        name: str = PRODUCER_NAME,
        linger_ms: int = 0,
        acknowledged_within_seconds: float = ACKNOWLEDGED_WITHIN_SECONDS,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._settings = settings
        self._codec = codec or Codec()
        self._pool = KeyPool(keys, settings.minted_keys_per_user, settings.key_cache_seconds)
        self._name = name
        self._linger_ms = linger_ms
        self._acknowledged_within_seconds = acknowledged_within_seconds
        self._now_ms = now_ms
        self._new_id = new_id
        self._topic = CHAT_TURNS.named(settings.topic_prefix)
        self._room = asyncio.Semaphore(IN_FLIGHT_INPUTS)
        self._turnstiles: dict[bytes, _Turnstile] = {}
        self._pending: set[asyncio.Future[Receipt]] = set()
        self._resources = AsyncExitStack()
        self._client: AIOKafkaProducer | None = None

    async def __aenter__(self) -> Self:
        """Connect to the broker; raises ``Retryable`` when it is away."""
        self._client = await self._resources.enter_async_context(
            started(producer(self._settings, linger_ms=self._linger_ms))
        )
        self._resources.push_async_callback(self._pool.close)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for what is in flight, then disconnect."""
        try:
            if kind is None:
                await self.flush()
        finally:
            self._client = None
            await self._resources.aclose()

    async def turn(
        self,
        *,
        tenant: str,
        user: str,
        session: str,
        user_message: str,
        assistant_message: str | None = None,
        user_message_id: str = "user",
        assistant_message_id: str = "assistant",
        recalled_memory_ids: tuple[str, ...] = (),
        attachment_event_ids: tuple[str, ...] = (),
        event_id: str | None = None,
        device_timestamp_ms: int | None = None,
        timezone_offset: str | None = None,
        locale: str = "",
        conversation: str = "",
        channel: str = "",
    ) -> Receipt:
        """Send a finished turn. ``recalled_memory_ids`` are the memories that had been put into the prompt."""
        body = TurnRecorded(
            user_message=user_message,
            assistant_message=assistant_message,
            user_message_id=user_message_id,
            assistant_message_id=assistant_message_id,
            recalled_memory_ids=recalled_memory_ids,
            attachment_event_ids=attachment_event_ids,
        )
        scope = Scope(
            tenant=tenant,
            user=user,
            session=session,
            event_id=event_id,
            device_timestamp_ms=device_timestamp_ms,
            timezone_offset=timezone_offset,
            locale=locale,
            conversation=conversation,
            channel=channel,
        )
        return await self.send(scope, body)

    async def step(
        self, scope: Scope, *, step: str, name: str = "", outcome: str = "", **details: str | int
    ) -> Receipt:
        """Send what happened inside a turn; ``details`` are the other fields of ``StepRecorded``."""
        return await self.send(scope, _body(StepRecorded, {"step": step, "name": name, "outcome": outcome, **details}))

    async def record(
        self,
        scope: Scope,
        *,
        source: str,
        entity_type: str,
        entity_id: str,
        attributes: Mapping[str, object],
        status: str = "",
        record_id: str = "",
    ) -> Receipt:
        """Send a fact from a system of record; ``source`` is official_id or business_record, attributes are JSON values."""
        body = RecordReceived(
            source=source,
            entity_type=entity_type,
            entity_id=entity_id,
            attributes={name: msgspec.json.encode(value).decode() for name, value in attributes.items()},
            status=status,
            record_id=record_id,
        )
        return await self.send(scope, body)

    async def attachment(
        self, scope: Scope, *, media_type: str, uri: str, sha256: str, size_bytes: int, **details: str | bytes
    ) -> Receipt:
        """Send the description of a blob that the gateway keeps; ``details`` are the other fields of ``AttachmentDescribed``."""
        fields: dict[str, object] = {
            "media_type": media_type,
            "uri": uri,
            "sha256": sha256,
            "size_bytes": size_bytes,
            **details,
        }
        return await self.send(scope, _body(AttachmentDescribed, fields))

    async def send(self, scope: Scope, body: InputBody) -> Receipt:
        """Send one input and wait for its acknowledgement."""
        return await (await self.submit(scope, body))

    async def submit(self, scope: Scope, body: InputBody) -> asyncio.Future[Receipt]:
        """Check, seal and hand over one input; the future is done when the broker has it.

        Inputs of one user are sent in the order of these calls. Waits while too many are in flight. Refusals are raised here.
        """
        if self._client is None:
            raise Broken("the producer is not connected: use it as an asynchronous context manager")
        envelope = self._checked(scope, body)
        await self._room.acquire()
        try:
            acknowledged = await self._handed_over(self._client, envelope, body)
        except BaseException:
            self._room.release()
            raise
        receipt = asyncio.ensure_future(self._receipt(envelope.event_id, acknowledged))
        self._pending.add(receipt)
        receipt.add_done_callback(self._pending.discard)
        return receipt

    async def flush(self) -> None:
        """Return when every input handed over so far is acknowledged; raises the first failure."""
        if self._pending:
            await asyncio.gather(*self._pending)

    def _checked(self, scope: Scope, body: InputBody) -> InputEnvelope:
        event_id = self._new_id() if scope.event_id is None else scope.event_id
        check_id("tenant", scope.tenant)
        check_id("user", scope.user)
        check_id("session", scope.session)
        check_id("event_id", event_id)
        now_ms = self._now_ms()
        envelope = InputEnvelope(
            event_id=event_id,
            kind=kind_of(body),
            tenant_id=scope.tenant,
            user_id=scope.user,
            session_id=scope.session,
            received_at_ms=now_ms if scope.received_at_ms is None else scope.received_at_ms,
            body=_NO_BODY,
            conversation_id=scope.conversation,
            channel=scope.channel,
            locale=scope.locale,
            producer=self._name,
            device_timestamp_ms=scope.device_timestamp_ms,
            timezone_offset=scope.timezone_offset,
        )
        check_envelope(envelope, self._settings, now_ms=now_ms)
        check_body(body)
        return envelope

    async def _handed_over(
        self, client: AIOKafkaProducer, envelope: InputEnvelope, body: InputBody
    ) -> asyncio.Future[object]:
        key = routing_key(envelope.tenant_id, envelope.user_id)
        turnstile = self._turnstiles.setdefault(key, _Turnstile())
        turnstile.users += 1
        try:
            async with turnstile.lock:
                data_key = await self._pool.take(envelope.tenant_id, envelope.user_id)
                sealed = msgspec.structs.replace(envelope, body=seal_record(self._codec, body, data_key))
                value = self._codec.encode(sealed)
                check_size(value, self._settings.input_limit_bytes, "the input")
                async with translated("sending an input"):
                    handed: asyncio.Future[object] = await client.send(self._topic, value, key=key)
                    return handed
        finally:
            turnstile.users -= 1
            if not turnstile.users:
                del self._turnstiles[key]

    async def _receipt(self, event_id: str, acknowledged: "asyncio.Future[object]") -> Receipt:
        try:
            done, _ = await asyncio.wait((acknowledged,), timeout=self._acknowledged_within_seconds)
            if not done:
                # An idempotent producer tries for ever, so the input may still arrive; its event id makes that harmless.
                raise Retryable(
                    f"Kafka did not acknowledge the input within {self._acknowledged_within_seconds:.0f} s: send the same "
                    "event_id again"
                )
            async with translated("sending an input"):
                metadata = acknowledged.result()
            return Receipt(event_id, Origin(metadata.partition, metadata.offset))  # type: ignore[attr-defined]
        finally:
            self._room.release()


class _Turnstile:
    """Lets the inputs of one user through one at a time, in the order they came."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


def kind_of(body: InputBody) -> str:
    """Return the kind that the envelope of ``body`` carries."""
    return next(kind for kind, record in BODY_OF_KIND.items() if type(body) is record)


def check_body(body: InputBody) -> None:
    """Raise ``Rejected`` (``empty``, ``bad_text``, ``bad_record``) when ``body`` says nothing or nothing usable."""
    check_texts(body)
    match body:
        case TurnRecorded():
            if not body.user_message.strip() and not (body.assistant_message or "").strip():
                raise Rejected("a turn needs a user message or an answer", code="empty")
        case StepRecorded():
            if body.step not in _STEPS:
                raise Rejected(f"step must be one of {', '.join(_STEPS)}", code="bad_record")
        case RecordReceived():
            if body.source not in _SOURCES:
                raise Rejected(f"source must be one of {', '.join(_SOURCES)}", code="bad_record")
            if not body.entity_type or not body.entity_id:
                raise Rejected("a record needs entity_type and entity_id", code="bad_record")
        case AttachmentDescribed():
            if not body.uri or len(body.sha256) != 64:
                raise Rejected("an attachment needs a uri and a SHA-256 of 64 hex digits", code="bad_record")


def _body(record: type[InputBody], fields: dict[str, object]) -> InputBody:
    try:
        made: InputBody = msgspec.convert(fields, record, strict=True)
    except msgspec.ValidationError as error:
        raise Rejected(f"the {record.__name__} is not complete: {error}", code="bad_record") from error
    unknown = set(fields) - set(record.__struct_fields__)
    if unknown:
        raise Rejected(f"{record.__name__} has no field {sorted(unknown)[0]}", code="bad_record")
    return made
