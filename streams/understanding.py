"""From an opened input to its extraction: builds what the extractor reads, and remembers each session's last message.

Called by ``extract``. The last message is kept in memory only, for a few minutes, so that a repeat is noticed and a correction
can name what it corrects; what came of it is recorded, so a replay does not need it.
"""

import time
from collections.abc import Callable

from schemas.candidates import Extraction
from schemas.inputs import AttachmentDescribed, RecordReceived, StepRecorded, TurnRecorded
from streams.expiring import Expiring
from streams.extraction.inputs import ExtractionInput, RecordInput, StepInput, TurnInput
from streams.extraction.pipeline import extract
from streams.inputs import OpenedInput

_REMEMBERED_SECONDS = 300.0
_REMEMBERED_SESSIONS = 5_000
_REMEMBERED_CHARACTERS = 2_000


class Understanding:
    """Call it with an input and the contents of the memories that had been put into its prompt.

    ``default_timezone_offset`` is the tenant's zone, for users whose input names none.
    """

    def __init__(self, default_timezone_offset: str, now_seconds: Callable[[], float] = time.monotonic) -> None:
        self._default_timezone_offset = default_timezone_offset
        self._last: Expiring[tuple[str, str, str], str] = Expiring(
            _REMEMBERED_SECONDS, _REMEMBERED_SESSIONS, now_seconds
        )

    def __call__(self, opened: OpenedInput, recalled_contents: tuple[str, ...]) -> Extraction:
        """Return the whole outcome of one input."""
        read = self._input_of(opened, recalled_contents)
        return Extraction(status="nothing", reason="attachment") if read is None else extract(read)

    def _input_of(self, opened: OpenedInput, recalled_contents: tuple[str, ...]) -> ExtractionInput | None:
        envelope, body = opened.envelope, opened.body
        zone = envelope.timezone_offset or self._default_timezone_offset
        # Only the operator's producer may release an input; without a release an override means nothing.
        skipped = frozenset(envelope.override_rules if envelope.released_from is not None else ())
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
                    skip_rules=skipped,
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
                    skip_rules=skipped,
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
                    skip_rules=skipped,
                )
            case AttachmentDescribed():
                return None

    def _previous(self, opened: OpenedInput, body: TurnRecorded) -> str | None:
        session = (opened.envelope.tenant_id, opened.envelope.user_id, opened.envelope.session_id)
        previous = self._last.get(session)
        if body.user_message:
            self._last.put(session, body.user_message[:_REMEMBERED_CHARACTERS])
        return previous
