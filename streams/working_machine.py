"""The state machine of a session: five states, one table of transitions, one fold.

Pure; called by ``working``, and by the page that draws the diagram from ``TRANSITIONS``. Every input makes exactly one event,
also where the state stays; a session that crashed goes on in the state of its last event.
"""

import hashlib
import hmac
from dataclasses import dataclass, replace

import msgspec

from schemas.ids import derived_id
from schemas.inputs import InputEnvelope, Origin
from schemas.working import WorkingEvent, WorkingPayload
from streams.working_signals import Signal

IDLE = "idle"
STATES = (IDLE, "collecting_info", "querying_knowledge", "generating_response", "confirming_action")
LAST_EVENTS = 5
ANY = "*"
STAYS = "="
# A yes or no confirms something only where something is being confirmed.
_OUTSIDE_CONFIRMATION = {"UserConfirmedAction": "UserAcknowledged", "UserDeclinedAction": "UserDeclined"}


@dataclass(frozen=True, slots=True)
class Transition:
    """In state ``state``, an event of type ``event_type`` whose answer has ``posture`` leads to ``target``."""

    state: str
    event_type: str
    posture: str
    target: str


def _rows(*rows: tuple[str, str, str, str]) -> tuple[Transition, ...]:
    return tuple(Transition(*row) for row in rows)


# The first row that fits counts; ``*`` fits everything, ``=`` keeps the state.
TRANSITIONS: tuple[Transition, ...] = _rows(
    (ANY, "InputRefused", ANY, STAYS),
    # What happens inside a turn.
    (ANY, "ToolCallStarted", ANY, "querying_knowledge"),
    (ANY, "ToolCallSucceeded", ANY, "generating_response"),
    (ANY, "ToolCallFoundNothing", ANY, "generating_response"),
    (ANY, "ToolCallFailed", ANY, "querying_knowledge"),
    (ANY, "TaskEnded", ANY, IDLE),
    (ANY, "PlanUpdated", ANY, STAYS),
    (ANY, "ObservationRecorded", ANY, STAYS),
    (ANY, "PageOpened", ANY, STAYS),
    (ANY, "StepRecorded", ANY, STAYS),
    # What other systems say.
    ("confirming_action", "BusinessRecordReceived", ANY, IDLE),
    (ANY, "BusinessRecordReceived", ANY, STAYS),
    (ANY, "AttachmentReceived", ANY, STAYS),
    # The end of something that was being confirmed or collected.
    (ANY, "UserCancelledRequest", "asks_confirmation", "confirming_action"),
    (ANY, "UserCancelledRequest", ANY, IDLE),
    ("confirming_action", "UserConfirmedAction", "asks_information", "collecting_info"),
    ("confirming_action", "UserConfirmedAction", ANY, IDLE),
    ("confirming_action", "UserDeclinedAction", "asks_information", "collecting_info"),
    ("confirming_action", "UserDeclinedAction", ANY, IDLE),
    # How the answer leaves things decides the rest.
    (ANY, ANY, "asks_confirmation", "confirming_action"),
    (ANY, ANY, "asks_information", "collecting_info"),
    (ANY, "UserRequestedAppointment", ANY, "collecting_info"),
    (ANY, "UserReportedProblem", ANY, "collecting_info"),
    (ANY, "UserAskedQuestion", "none", "querying_knowledge"),
    ("confirming_action", ANY, "answers", "confirming_action"),
    ("collecting_info", "UserGreeted", ANY, "collecting_info"),
    (ANY, ANY, "answers", IDLE),
    (ANY, "UserSpoke", "none", "generating_response"),
    (ANY, ANY, ANY, STAYS),
)


@dataclass(frozen=True, slots=True)
class Session:
    """A session as it stands: state, number of its events, ids of the last five, the fields gathered so far."""

    state: str = IDLE
    sequence: int = 0
    last_event_ids: tuple[str, ...] = ()
    fields: dict[str, str] | None = None


def next_state(state: str, signal: Signal) -> str:
    """Return the state after ``signal``: the one a step asked for, if it exists, else what the table says."""
    if signal.event_type == "SessionStateChanged":
        return signal.asked_state if signal.asked_state in STATES else state
    for row in TRANSITIONS:
        if (
            row.state in (ANY, state)
            and row.event_type in (ANY, signal.event_type)
            and row.posture in (ANY, signal.posture)
        ):
            return state if row.target == STAYS else row.target
    return state


def advance(
    session: Session,
    envelope: InputEnvelope,
    signal: Signal,
    *,
    masked_input: str,
    occurred_at_ms: int,
    origin: Origin,
    hash_key: bytes,
) -> tuple[Session, WorkingEvent, WorkingPayload]:
    """Return the session after one input, the event (its body not sealed yet) and the payload to seal.

    The event's id follows from the input's, so an input that comes twice makes the same event.
    """
    if session.state != "confirming_action" and signal.event_type in _OUTSIDE_CONFIRMATION:
        signal = replace(signal, event_type=_OUTSIDE_CONFIRMATION[signal.event_type])
    state_to = next_state(session.state, signal)
    payload = WorkingPayload(masked_input=masked_input, fields=signal.fields)
    event = WorkingEvent(
        event_id=derived_id("working", envelope.tenant_id, envelope.user_id, envelope.event_id),
        tenant_id=envelope.tenant_id,
        user_id=envelope.user_id,
        session_id=envelope.session_id,
        sequence=session.sequence + 1,
        event_type=signal.event_type,
        state_from=session.state,
        state_to=state_to,
        occurred_at_ms=occurred_at_ms,
        content_hash="",
        origin=origin,
    )
    event = msgspec.structs.replace(event, content_hash=content_hash(event, payload, hash_key))
    # What one task gathered does not leak into the next.
    gathered = {} if state_to == IDLE else {**(session.fields or {}), **signal.fields}
    after = Session(
        state=state_to,
        sequence=event.sequence,
        last_event_ids=(*session.last_event_ids, event.event_id)[-LAST_EVENTS:],
        fields=gathered,
    )
    return after, event, payload


def content_hash(event: WorkingEvent, payload: WorkingPayload, hash_key: bytes) -> str:
    """Return the keyed SHA-256 (hex) over everything the event says, its place in the session included."""
    said = (
        event.event_id, event.tenant_id, event.user_id, event.session_id, event.sequence, event.event_type,
        event.state_from, event.state_to, event.occurred_at_ms, payload.masked_input, sorted(payload.fields.items()),
    )  # fmt: skip
    return hmac.new(hash_key, msgspec.json.encode(said), hashlib.sha256).hexdigest()
