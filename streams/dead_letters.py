"""Dead letters: an input that can never succeed, kept as it came, with where and why.

Built by ``streams.delivery`` for every stage, and by the projectors; read by operators. Pure: the time comes in.
"""

from schemas.codec import Codec
from schemas.dead import DeadLetter
from schemas.errors import Rejected
from schemas.inputs import Origin
from schemas.settings import Settings
from schemas.topics import DEAD
from streams.stage import Output

REASON_LIMIT_CHARACTERS = 500
KEY_LIMIT_BYTES = 1024
# The header of a record in ``memory.dead`` that is no letter: it names the letter, as partition:offset, that was replayed.
REPLAYED = "engram-replayed"
REPLAYED_CODE = "replayed"
# The header of an input that was put back: it names its dead letter in the same way.
REPLAY_OF = "engram-replay-of"


def dead_letter(
    stage: str,
    topic: str,
    position: Origin,
    value: bytes | None,
    error: Rejected,
    *,
    at_ms: int,
    key: bytes | None = None,
    tenant_id: str = "",
    user_id: str = "",
    event_id: str = "",
    limit_bytes: int,
) -> DeadLetter:
    """Return the dead letter of ``value``, read at ``position`` of ``topic``.

    A value above ``limit_bytes`` stays where it is: the letter names its position and says so. Reasons are cut at 500
    characters.
    """
    reason = error.reason
    if value is not None and len(value) > limit_bytes:
        reason = f"{reason} (the record of {len(value)} bytes is not copied: its position is above)"
        value = None
    return DeadLetter(
        stage=stage,
        topic=topic,
        partition=position.partition,
        offset=position.offset,
        code=error.code,
        reason=reason[:REASON_LIMIT_CHARACTERS],
        at_ms=at_ms,
        key=key[:KEY_LIMIT_BYTES] if key else None,
        value=value,
        tenant_id=tenant_id,
        user_id=user_id,
        event_id=event_id,
    )


def dead_output(letter: DeadLetter, codec: Codec) -> Output:
    """Return the letter as a record for ``memory.dead``, keyed as its origin was."""
    return Output(DEAD, letter.key or b"", codec.encode(letter))


def kept_bytes(settings: Settings) -> int:
    """Return how many bytes of an input a dead letter may carry."""
    return settings.stage_limit_bytes


def replayed_note(letter: DeadLetter, letter_at: Origin, topic: str, put_back_at: Origin, at_ms: int) -> DeadLetter:
    """Return the record that says of the letter at ``letter_at`` of ``memory.dead`` where its input was put back.

    It follows the letter in its partition, under the header ``REPLAYED``, and carries nothing of what the input said.
    """
    return DeadLetter(
        stage=letter.stage,
        topic=topic,
        partition=put_back_at.partition,
        offset=put_back_at.offset,
        code=REPLAYED_CODE,
        reason=f"the dead letter at {letter_at.partition}:{letter_at.offset} was put back",
        at_ms=at_ms,
        tenant_id=letter.tenant_id,
        user_id=letter.user_id,
        event_id=letter.event_id,
    )
