"""The stage ``extract``: from an input of ``chat.turns`` to what was understood of it, in ``memory.extracted``.

Checks the envelope, opens the body, passes it through gate 0, noise filter and extractor (``streams.extraction``), and seals
the outcome with the input's own data key, so that destroying that key takes the outcome too. Run by ``streams.delivery``.
Never writes to a store.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from schemas.candidates import Extraction, MemoryExtracted
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.inputs import InputEnvelope, Origin, TurnRecorded
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS, EXTRACTED, Topic
from streams.crash import CrashPoints
from streams.inputs import Keys, OpenedInput, open_inputs, read_envelope, stated_at_ms
from streams.sealed_records import seal_record
from streams.stage import ERASED, Input, Refusal, StageResult, stage_output

Understand = Callable[[OpenedInput, tuple[str, ...]], Extraction]


class Recalled(Protocol):
    """Where the contents of memories are read that a turn's prompt already contained."""

    async def contents(self, tenant_id: str, user_id: str, memory_ids: tuple[str, ...]) -> tuple[str, ...]:
        """Return the contents of the user's own memories among ``memory_ids``; raises ``Retryable``."""
        ...


class Extract:
    """``understand`` turns an opened input and the recalled contents into an ``Extraction``; ``recalled`` finds those contents."""

    name = "extract"
    source: Topic = CHAT_TURNS

    def __init__(
        self,
        understand: Understand,
        recalled: Recalled,
        codec: Codec,
        keys: Keys,
        *,
        settings: Settings,
        now_ms: Callable[[], int],
        crash: CrashPoints | None = None,
    ) -> None:
        self._understand = understand
        self._recalled = recalled
        self._codec = codec
        self._keys = keys
        self._settings = settings
        self._now_ms = now_ms
        self._crash = crash or CrashPoints()

    async def handle(self, inputs: Sequence[Input]) -> Sequence[StageResult | Rejected]:
        """Return the ``MemoryExtracted`` of each input, or why it is refused (as ``open_inputs`` does, or ``too_large``)."""
        found = await open_inputs(self._codec, self._keys, self._settings, inputs, now_ms=self._now_ms())
        return [await self._outcome(one, opened) for one, opened in zip(inputs, found, strict=True)]

    async def _outcome(self, one: Input, opened: OpenedInput | Rejected) -> StageResult | Rejected:
        if isinstance(opened, Rejected):
            return opened
        try:
            return self._understood(opened, one.position, await self._recalled_by(opened))
        except Rejected as error:
            return error

    def _understood(self, opened: OpenedInput, position: Origin, recalled_contents: tuple[str, ...]) -> StageResult:
        self._crash.visit("before_model")
        extraction = self._understand(opened, recalled_contents)
        self._crash.visit("after_model")
        event = _event(opened.envelope, position, extraction.status)
        if extraction.candidates or extraction.refusals or extraction.prompt:
            event = replace(event, body=seal_record(self._codec, extraction, opened.key))
        output = stage_output(EXTRACTED, self._codec, self._settings, event)
        return StageResult((output,), extraction.status)

    async def _recalled_by(self, opened: OpenedInput) -> tuple[str, ...]:
        body, envelope = opened.body, opened.envelope
        if not isinstance(body, TurnRecorded) or not body.recalled_memory_ids:
            return ()
        return await self._recalled.contents(envelope.tenant_id, envelope.user_id, body.recalled_memory_ids)

    async def refuse(self, one: Input, error: Rejected) -> Refusal:
        """Return the empty record of the input, if tenant and user can be read and the record is where it belongs."""
        try:
            envelope = read_envelope(self._codec, one.message)
        except Rejected:
            return Refusal(StageResult(status="rejected"))
        status = ERASED if error.code == ERASED else "rejected"
        if error.code == "bad_partition":
            # Its position says nothing about its user: nobody can wait for it.
            return Refusal(StageResult(status=status), tenant_id=envelope.tenant_id, user_id=envelope.user_id)
        output = stage_output(EXTRACTED, self._codec, self._settings, _event(envelope, one.position, status))
        return Refusal(
            StageResult((output,), status),
            dead=status != ERASED,
            tenant_id=envelope.tenant_id,
            user_id=envelope.user_id,
            event_id=envelope.event_id,
        )


def _event(envelope: InputEnvelope, position: Origin, status: str) -> MemoryExtracted:
    return MemoryExtracted(
        event_id=envelope.event_id,
        tenant_id=envelope.tenant_id,
        user_id=envelope.user_id,
        session_id=envelope.session_id,
        origin=position,
        stated_at_ms=stated_at_ms(envelope),
        received_at_ms=envelope.received_at_ms,
        status=status,
        timezone_offset=envelope.timezone_offset,
    )
