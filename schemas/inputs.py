"""What arrives: the input envelope of ``chat.turns`` and its four record types.

One ordered stream per user carries turns, steps, business records and attachments. The envelope is readable without a
key; the body is ``Sealed``. Written by gateways, read by ``extract`` and ``working``.
"""

from msgspec import Struct


class Sealed(Struct, frozen=True):
    """A text or record encrypted with a data key: ``key_id`` names the key, ``nonce`` has 12 bytes, AES-256-GCM."""

    key_id: str
    nonce: bytes
    ciphertext: bytes


class Origin(Struct, frozen=True, order=True):
    """A position in a topic: partition number and offset."""

    partition: int
    offset: int


class InputEnvelope(Struct, frozen=True, kw_only=True):
    """One immutable input; ``event_id`` is the idempotency key, ``kind`` says how to read the body.

    Times are milliseconds since the epoch; ``timezone_offset`` is the user's zone such as ``+08:00``. ``released_from``
    and ``override_rules`` are kept for an operator's release from quarantine; nothing acts on them while a release cannot be
    authenticated.
    """

    event_id: str
    kind: str
    tenant_id: str
    user_id: str
    session_id: str
    received_at_ms: int
    body: Sealed
    conversation_id: str = ""
    channel: str = ""
    locale: str = ""
    producer: str = ""
    device_timestamp_ms: int | None = None
    timezone_offset: str | None = None
    released_from: str | None = None
    override_rules: tuple[str, ...] = ()


class TurnRecorded(Struct, frozen=True, kw_only=True):
    """A finished turn: the user's message and the assistant's answer (``None`` when there was none)."""

    user_message: str
    assistant_message: str | None = None
    user_message_id: str = "user"
    assistant_message_id: str = "assistant"
    recalled_memory_ids: tuple[str, ...] = ()
    attachment_event_ids: tuple[str, ...] = ()


class StepRecorded(Struct, frozen=True, kw_only=True):
    """Something that happened inside a turn: ``step`` is state_change, tool_call, plan, observation, task_ended or page_opened.

    ``arguments`` and ``detail`` are JSON texts; ``outcome`` is ok, failed or empty.
    """

    step: str
    name: str = ""
    outcome: str = ""
    error: str = ""
    duration_ms: int = 0
    arguments: str = "{}"
    detail: str = "{}"
    remedy: str = ""


class RecordReceived(Struct, frozen=True, kw_only=True):
    """A fact from a system of record; ``source`` is official_id or business_record, attributes are JSON texts by name."""

    source: str
    entity_type: str
    entity_id: str
    attributes: dict[str, str]
    status: str = ""
    record_id: str = ""


class AttachmentDescribed(Struct, frozen=True, kw_only=True):
    """A blob kept by the gateway: where it is, what it is, and what was read from it."""

    media_type: str
    uri: str
    sha256: str
    size_bytes: int
    transcript: str = ""
    vector_model: str = ""
    vector: bytes = b""


InputBody = TurnRecorded | StepRecorded | RecordReceived | AttachmentDescribed

BODY_OF_KIND: dict[str, type[InputBody]] = {
    "turn": TurnRecorded,
    "step": StepRecorded,
    "record": RecordReceived,
    "attachment": AttachmentDescribed,
}
