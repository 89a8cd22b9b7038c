"""From an opened input to its extraction: builds what the extractor reads, and remembers each session's last message.

Called by ``extract``. The last message is kept in memory only, for a few minutes, so that a repeat is noticed and a correction
can name what it corrects; what came of it is recorded, so a replay does not need it. An input that is tried again meets the
same last message as before, never itself.

``released_from`` and ``override_rules`` have no effect: anybody who may write to ``chat.turns`` can set them, and until a
release is authenticated they must not switch off a rule. Inputs that carry them are counted and read like all others.
"""

import time
from collections.abc import Callable
from typing import Any

import structlog
from msgspec import Struct

from schemas.candidates import Extraction
from schemas.inputs import AttachmentDescribed, RecordReceived, StepRecorded, TurnRecorded
from streams.expiring import Expiring
from streams.extraction.inputs import ExtractionInput, RecordInput, StepInput, TurnInput
from streams.extraction.pipeline import extract
from streams.gates.pii import DEFAULT_POLICY, PiiPolicy
from streams.inputs import OpenedInput

_REMEMBERED_SECONDS = 300.0
_REMEMBERED_SESSIONS = 5_000
_REMEMBERED_CHARACTERS = 2_000


class _LastMessage(Struct, frozen=True):
    """The last message of a session, the input it came with, and the message before it."""

    event_id: str
    text: str
    previous: str | None


class Understanding:
    """Call it with an input and the contents of the memories that had been put into its prompt.

    ``default_timezone_offset`` is the tenant's zone, for users whose input names none, and ``policy`` the tenant's for
    personal data. ``releases_ignored`` counts the inputs that asked for rules to be switched off.
    """

    def __init__(
        self,
        default_timezone_offset: str,
        now_seconds: Callable[[], float] = time.monotonic,
        *,
        policy: PiiPolicy = DEFAULT_POLICY,
    ) -> None:
        self._default_timezone_offset = default_timezone_offset
        self._policy = policy
        self._last: Expiring[tuple[str, str, str], _LastMessage] = Expiring(
            _REMEMBERED_SECONDS, _REMEMBERED_SESSIONS, now_seconds
        )
        self._log: Any = structlog.get_logger().bind(stage="extract")
        self.releases_ignored = 0

    def __call__(self, opened: OpenedInput, recalled_contents: tuple[str, ...]) -> Extraction:
        """Return the whole outcome of one input."""
        if opened.envelope.released_from is not None or opened.envelope.override_rules:
            self.releases_ignored += 1
            self._log.warning("release ignored: it is not authenticated", count=self.releases_ignored)
        read = self._input_of(opened, recalled_contents)
        return Extraction(status="nothing", reason="attachment") if read is None else extract(read, policy=self._policy)

    def _input_of(self, opened: OpenedInput, recalled_contents: tuple[str, ...]) -> ExtractionInput | None:
        envelope, body = opened.envelope, opened.body
        zone = envelope.timezone_offset or self._default_timezone_offset
        match body:
            case TurnRecorded():
                return TurnInput(
                    event_id=envelope.event_id,
                    user_message=body.user_message,
                    assistant_message=body.assistant_message,
                    user_message_id=body.user_message_id,
                    assistant_message_id=body.assistant_message_id,
                    stated_at_ms=opened.stated_at_ms,
                    timezone_offset=zone,
                    locale=envelope.locale,
                    previous_user_message=self._previous(opened, body),
                    recalled_contents=recalled_contents,
                )
            case StepRecorded():
                return StepInput(
                    event_id=envelope.event_id,
                    step=body.step,
                    name=body.name,
                    outcome=body.outcome,
                    error=body.error,
                    arguments=body.arguments,
                    detail=body.detail,
                    remedy=body.remedy,
                    stated_at_ms=opened.stated_at_ms,
                    timezone_offset=zone,
                    locale=envelope.locale,
                )
            case RecordReceived():
                return RecordInput(
                    event_id=envelope.event_id,
                    source=body.source,
                    entity_type=body.entity_type,
                    entity_id=body.entity_id,
                    attributes=body.attributes,
                    status=body.status,
                    record_id=body.record_id,
                    stated_at_ms=opened.stated_at_ms,
                    timezone_offset=zone,
                    locale=envelope.locale,
                )
            case AttachmentDescribed():
                return None

    def _previous(self, opened: OpenedInput, body: TurnRecorded) -> str | None:
        session = (opened.envelope.tenant_id, opened.envelope.user_id, opened.envelope.session_id)
        last = self._last.get(session)
        if last is not None and last.event_id == opened.envelope.event_id:
            return last.previous
        previous = None if last is None else last.text
        if body.user_message:
            text = body.user_message[:_REMEMBERED_CHARACTERS]
            self._last.put(session, _LastMessage(opened.envelope.event_id, text, previous))
        return previous
