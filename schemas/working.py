"""Working memory: the state machine's events of a session.

Written by ``working`` in the transaction that moves the session, published by the relay, kept whole in InfluxDB.
"""

from msgspec import Struct

from schemas.inputs import Origin, Sealed


class WorkingEvent(Struct, frozen=True, kw_only=True):
    """One immutable event of a session: ``sequence`` counts from 1; the body is a sealed ``WorkingPayload``.

    The InfluxDB time is ``occurred_at_ms`` × 10⁶ + ``sequence`` nanoseconds, so no two events of a session share a point.
    """

    event_id: str
    tenant_id: str
    user_id: str
    session_id: str
    sequence: int
    event_type: str
    state_from: str
    state_to: str
    occurred_at_ms: int
    content_hash: str
    origin: Origin
    body: Sealed | None = None


class WorkingPayload(Struct, frozen=True, kw_only=True):
    """What the event was about: the input with identifiers masked, and the fields that rules found (texts by name)."""

    masked_input: str
    fields: dict[str, str] = {}
