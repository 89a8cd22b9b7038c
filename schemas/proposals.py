"""Everything that may change memory: the proposal envelope and the bodies of its kinds.

``memory.proposals`` is read by ``remember`` alone. New kinds are added without touching the envelope.
"""

from msgspec import Struct

from schemas.candidates import Vector
from schemas.inputs import Origin, Sealed

KINDS = (
    "candidates",
    "edit",
    "confirm",
    "deny",
    "approve",
    "reject",
    "rollback",
    "restore",
    "forget",
    "erase",
    "plan",
    "vectors",
    "link_identity",
    "delegate",
    "revoke",
)


class Proposal(Struct, frozen=True, kw_only=True):
    """One entry of the user's ordered stream of proposals.

    ``kind`` names the body: ``Extraction`` for ``candidates``, ``Command`` for what an operator or user asks. "Now" is
    ``occurred_at_ms``. ``origin`` is the position of the input in ``chat.turns``, ``None`` for commands and plans. A body of
    ``None`` proposes nothing, but moves the position. ``expected_versions`` maps memory ids to versions that must hold.
    """

    proposal_id: str
    kind: str
    tenant_id: str
    user_id: str
    actor: str
    occurred_at_ms: int
    stated_at_ms: int
    received_at_ms: int
    event_id: str = ""
    session_id: str = ""
    status: str = ""
    timezone_offset: str | None = None
    origin: Origin | None = None
    expected_versions: dict[str, int] = {}
    body: Sealed | None = None


class Command(Struct, frozen=True, kw_only=True):
    """What a person asks of memory: which memories (or the whole user), why, and new content where the kind needs it.

    ``before_ms`` is the time of the click: inputs received earlier create nothing for what was forgotten. ``vectors`` embed the
    new content; whoever asks for an edit makes them, so that deciding needs no model.
    """

    memory_ids: tuple[str, ...] = ()
    whole_user: bool = False
    before_ms: int = 0
    reason: str = ""
    value: str = ""
    content: str = ""
    to_version: int = 0
    vectors: tuple[Vector, ...] = ()
