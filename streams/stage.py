"""What a stage is: input messages in, the messages each of them leads to out, and nothing else.

Owned by the stages (``extract``, ``admit``, ``embed``, ``remember``, ``working``); run by ``streams.delivery``. A stage never
retries, never talks to Kafka and never ends the process: it returns or raises an error by consequence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from schemas.candidates import StageEvent
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.ids import routing_key
from schemas.inputs import Origin
from schemas.settings import Settings
from schemas.topics import Topic

Value = TypeVar("Value")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Input:
    """A record that was read: its bytes, its place in the stage's topic, its key."""

    message: bytes
    position: Origin
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A record to send: its topic, key and bytes."""

    topic: Topic
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class StageResult:
    """What one input led to. ``status`` is a short word for counting; the input is acknowledged after every output is."""

    outputs: tuple[Output, ...] = ()
    status: str = "done"


ERASED = "erased"  # the code of an input whose key was destroyed: no fault, so no dead letter
POISON = "poison"  # the code of an input that was begun too often and never finished


@dataclass(frozen=True, slots=True)
class Refusal:
    """What becomes of an input that can never succeed.

    ``result`` has the empty record that keeps waiting finite; ``dead`` says whether the input goes to the dead letters; the
    ids are empty when they could not be read.
    """

    result: StageResult
    dead: bool = True
    tenant_id: str = ""
    user_id: str = ""
    event_id: str = ""


class Stage(Protocol):
    """One step of the write path."""

    @property
    def name(self) -> str:
        """Return the role's name, such as ``extract``."""
        ...

    @property
    def source(self) -> Topic:
        """Return the topic it reads."""
        ...

    async def handle(self, inputs: Sequence[Input]) -> Sequence[StageResult | Rejected]:
        """Work on messages of ``source`` that came together, in order; return for each its result, or why it never succeeds.

        What comes together is only a matter of load: one input after the other must lead to the same. Raises ``Retryable`` (a
        dependency is away: all of them come again) or ``Broken`` (going on loses data).
        """
        ...

    async def refuse(self, one: Input, error: Rejected) -> Refusal:
        """Return what follows from ``error``; may raise ``Retryable`` or ``Broken``, never ``Rejected``."""
        ...


def unless_rejected(work: Callable[[Value], Result], value: Value | Rejected) -> Result | Rejected:
    """Return ``work(value)``, or why there is no value or no result: one refusal does not stop what came with it."""
    if isinstance(value, Rejected):
        return value
    try:
        return work(value)
    except Rejected as error:
        return error


def stage_output(topic: Topic, codec: Codec, settings: Settings, event: StageEvent) -> Output:
    """Return ``event`` as an output keyed by its user; raises ``Rejected`` (``too_large``) above the limit of stage topics."""
    value = codec.encode(event)
    check_size(value, settings.stage_limit_bytes, f"the output for {topic.name}")
    return Output(topic, routing_key(event.tenant_id, event.user_id), value)


def check_size(value: bytes, limit_bytes: int, what: str) -> None:
    """Raise ``Rejected`` (``too_large``) when ``value`` is longer than ``limit_bytes``."""
    if len(value) > limit_bytes:
        raise Rejected(f"{what} has {len(value)} bytes, the limit is {limit_bytes}", code="too_large")


def without_body(event: StageEvent, target: type[StageEvent], status: str) -> StageEvent:
    """Return the empty record of ``target`` for an event that was refused: same scope, times and origin, no body."""
    plain = {field: getattr(event, field) for field in StageEvent.__struct_fields__}
    return msgspec.convert(plain | {"status": status, "body": None}, target, from_attributes=True)
