"""Reading the events that one stage hands to the next: valid ids, data keys read together, the extraction in clear.

Called by ``admit`` and ``embed``, which read the same shape. Decides nothing and publishes nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from schemas.candidates import Extraction, StageEvent
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.ids import check_id
from schemas.sealing import DataKey, opened_key
from streams.inputs import Keys, key_name
from streams.sealed_records import open_record
from streams.stage import ERASED, Input, Refusal, StageResult, unless_rejected

Event = TypeVar("Event", bound=StageEvent)


@dataclass(frozen=True, slots=True)
class Opened(Generic[Event]):
    """An event and what it carries: the extraction in clear and the key that seals it, both absent in an empty record."""

    event: Event
    extraction: Extraction | None = None
    key: DataKey | None = None


def read_event(codec: Codec, message: bytes, event_type: type[Event]) -> Event:
    """Return the event with valid ids; raises ``Rejected`` (``bad_avro``, ``unknown_schema``, ``bad_id``)."""
    event = codec.decode(message, event_type)
    for name in ("tenant_id", "user_id", "event_id", "session_id"):
        check_id(name, getattr(event, name))
    return event


async def open_events(
    codec: Codec, keys: Keys, inputs: Sequence[Input], event_type: type[Event]
) -> list[Opened[Event] | Rejected]:
    """Return each event with its extraction, or why it is refused (``erased``, ``bad_seal``, …); raises ``Retryable``."""
    read = [unless_rejected(lambda one: read_event(codec, one.message, event_type), one) for one in inputs]
    names = [key_name(e, e.body) for e in read if not isinstance(e, Rejected) and e.body is not None]
    found = await keys.keys_of(names)

    def opened(event: Event) -> Opened[Event]:
        if event.body is None:
            return Opened(event)
        key = opened_key(found[key_name(event, event.body)])
        return Opened(event, open_record(codec, event.body, key, Extraction), key)

    return [unless_rejected(opened, one) for one in read]


def refusal_of(
    codec: Codec, one: Input, error: Rejected, event_type: type[Event], empty: Callable[[Event, str], StageResult]
) -> Refusal:
    """Return what follows from ``error``: the empty record that ``empty`` makes, if tenant and user can be read.

    What was erased is no fault and leaves no dead letter.
    """
    try:
        event = read_event(codec, one.message, event_type)
    except Rejected:
        return Refusal(StageResult(status="rejected"))
    status = ERASED if error.code == ERASED else "rejected"
    return Refusal(
        empty(event, status),
        dead=status != ERASED,
        tenant_id=event.tenant_id,
        user_id=event.user_id,
        event_id=event.event_id,
    )
