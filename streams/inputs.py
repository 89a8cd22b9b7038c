"""Reading an input of ``chat.turns``: what must hold before anybody looks at what was said.

Called by ``extract`` and ``working``, which read the same records and must judge them alike. Refuses with a code and one
sentence that never quotes the text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.ids import check_id
from schemas.inputs import BODY_OF_KIND, InputBody, InputEnvelope, Sealed
from schemas.routing import partition_of
from schemas.sealing import DataKey, KeyName, opened_key, unseal
from schemas.settings import Settings
from streams.stage import Input, check_size, unless_rejected

HOUR_MS = 3_600_000
_ZONE = re.compile(r"[+-](0\d|1[0-4]):[0-5]\d\Z")
_LABEL_LIMIT_CHARACTERS = 256
_LABELS = ("conversation_id", "channel", "locale", "producer")


class Keys(Protocol):
    """Where data keys are read."""

    async def keys_of(self, names: Iterable[KeyName]) -> Mapping[KeyName, DataKey | Rejected]:
        """Return each key, or why it does not open (``erased``, ``unknown_key``); raises ``Retryable`` when the store is away."""
        ...


@dataclass(frozen=True, slots=True)
class OpenedInput:
    """An input that may be worked on: envelope, body in clear, and the data key that seals all that is made from it."""

    envelope: InputEnvelope
    body: InputBody
    key: DataKey

    @property
    def stated_at_ms(self) -> int:
        """Return when it was said: the earlier of device and arrival time."""
        return stated_at_ms(self.envelope)


def stated_at_ms(envelope: InputEnvelope) -> int:
    """Return the earlier of device and arrival time; the arrival time where the device gave none."""
    if envelope.device_timestamp_ms is None:
        return envelope.received_at_ms
    return min(envelope.device_timestamp_ms, envelope.received_at_ms)


def read_envelope(codec: Codec, message: bytes) -> InputEnvelope:
    """Return the envelope with valid ids; raises ``Rejected`` (``bad_avro``, ``unknown_schema``, ``bad_id``)."""
    envelope = codec.decode(message, InputEnvelope)
    for name in ("tenant_id", "user_id", "event_id", "session_id"):
        check_id(name, getattr(envelope, name))
    return envelope


def check_envelope(envelope: InputEnvelope, settings: Settings, *, now_ms: int) -> None:
    """Raise ``Rejected`` when kind, times or labels are not acceptable.

    Codes: ``unknown_kind``, ``clock_skew`` (device or gateway clock too far ahead), ``bad_time``, ``bad_text``.
    """
    if envelope.kind not in BODY_OF_KIND:
        raise Rejected("the kind is none of turn, step, record, attachment", code="unknown_kind")
    if envelope.received_at_ms < 0 or (envelope.device_timestamp_ms or 0) < 0:
        raise Rejected("a time before 1970 is refused", code="bad_time")
    ahead_ms = settings.clock_ahead_hours * HOUR_MS
    if envelope.device_timestamp_ms is not None and envelope.device_timestamp_ms > envelope.received_at_ms + ahead_ms:
        raise Rejected(f"the device's clock is more than {settings.clock_ahead_hours} h ahead", code="clock_skew")
    if envelope.received_at_ms > now_ms + ahead_ms:
        raise Rejected(f"the gateway's clock is more than {settings.clock_ahead_hours} h ahead", code="clock_skew")
    if envelope.timezone_offset is not None and not _ZONE.match(envelope.timezone_offset):
        raise Rejected("timezone_offset must look like +08:00", code="bad_time")
    for label in _LABELS:
        text = getattr(envelope, label)
        if len(text) > _LABEL_LIMIT_CHARACTERS or "\x00" in text:
            raise Rejected(
                f"{label} is longer than {_LABEL_LIMIT_CHARACTERS} characters or has a zero byte", code="bad_text"
            )


async def open_inputs(
    codec: Codec, keys: Keys, settings: Settings, inputs: Sequence[Input], *, now_ms: int
) -> list[OpenedInput | Rejected]:
    """Return each input checked and in clear, or why it is refused; their data keys are read together.

    Codes: ``too_large``, ``bad_avro``, ``unknown_schema``, ``bad_id``, ``bad_partition``, ``unknown_kind``, ``clock_skew``,
    ``bad_time``, ``erased``, ``bad_seal``, ``bad_text``. Raises ``Retryable`` when the key store is away.
    """

    def read(one: Input) -> InputEnvelope:
        return _checked_envelope(codec, settings, one, now_ms)

    envelopes = [unless_rejected(read, one) for one in inputs]
    found = await keys.keys_of([key_name(one, one.body) for one in envelopes if isinstance(one, InputEnvelope)])

    def opened(envelope: InputEnvelope) -> OpenedInput:
        key = opened_key(found[key_name(envelope, envelope.body)])
        body = codec.decode(unseal(envelope.body, key), BODY_OF_KIND[envelope.kind])
        check_texts(body)
        return OpenedInput(envelope, body, key)

    return [unless_rejected(opened, one) for one in envelopes]


def _checked_envelope(codec: Codec, settings: Settings, one: Input, now_ms: int) -> InputEnvelope:
    check_size(one.message, settings.input_limit_bytes, "the input")
    envelope = read_envelope(codec, one.message)
    if one.position.partition != partition_of(envelope.tenant_id, envelope.user_id, settings.partitions):
        raise Rejected(
            "the record is not in its user's partition: the key must be tenant_id/user_id", code="bad_partition"
        )
    check_envelope(envelope, settings, now_ms=now_ms)
    return envelope


class Scoped(Protocol):
    """A record of one user."""

    @property
    def tenant_id(self) -> str:
        """Return the tenant."""
        ...

    @property
    def user_id(self) -> str:
        """Return the user."""
        ...


def key_name(record: Scoped, sealed: Sealed) -> KeyName:
    """Return the name of the data key that opens ``sealed``, which belongs to the user of ``record``."""
    return record.tenant_id, record.user_id, sealed.key_id


def check_texts(body: InputBody) -> None:
    """Raise ``Rejected`` (``bad_text``) when any text of ``body`` has a zero byte or half of a surrogate pair."""
    for name, value in msgspec.structs.asdict(body).items():
        for text in _texts(value):
            if "\x00" in text:
                raise Rejected(f"{name} has a zero byte", code="bad_text")
            try:
                text.encode()
            except UnicodeEncodeError:
                raise Rejected(f"{name} has half of a surrogate pair", code="bad_text") from None


def _texts(value: object) -> tuple[str, ...]:
    match value:
        case str():
            return (value,)
        case tuple():
            return tuple(part for part in value if isinstance(part, str))
        case dict():
            return tuple(part for pair in value.items() for part in pair if isinstance(part, str))
        case _:
            return ()
