"""What may be done about a dead letter: what its code means, whether its input can be put back, and where to.

Called by ``engram dead``. Pure: reads no topic and sends nothing.
"""

from typing import Final

from msgspec import Struct

from schemas.dead import DeadLetter
from schemas.ids import routing_key
from schemas.inputs import Origin
from schemas.routing import partition_of
from schemas.topics import ADMITTED, CHAT_TURNS, EXTRACTED, PROPOSALS, Topic
from streams.dead_letters import KEY_LIMIT_BYTES
from streams.stage import POISON

SOURCES: Final[dict[str, Topic]] = {
    "extract": CHAT_TURNS,
    "working": CHAT_TURNS,
    "admit": EXTRACTED,
    "embed": ADMITTED,
    "remember": PROPOSALS,
}
PROJECTORS: Final = ("milvus", "neo4j", "influx")

_FIX_SENDER = "Correct whoever produced it and send the input anew; a replay of the same bytes is refused again."
EXPLANATIONS: Final[dict[str, str]] = {
    "bad_avro": f"The bytes are not the Avro record that this topic holds. {_FIX_SENDER}",
    "unknown_schema": "It was written with a schema that this version does not know. Deploy the version that knows the schema, "
    "then replay.",
    "bad_id": f"A tenant, user, session or event id is missing or has characters that ids may not have. {_FIX_SENDER}",
    "bad_partition": "It was sent under another key than tenant/user, so that it stood in another user's partition. Make the "
    "producer use that key; a replay puts the input where it belongs.",
    "unknown_kind": "Its kind is none that this version knows. Deploy the version that knows it, then replay.",
    "clock_skew": "A clock was further ahead than ENGRAM_CLOCK_AHEAD_HOURS allows. Set the sender's clock right; once the time it "
    "names has nearly come, or the limit was raised, replay.",
    "bad_time": f"A time or time zone in it cannot be read or lies before 1970. {_FIX_SENDER}",
    "bad_text": f"A text in it holds a zero byte, half a surrogate pair or a label that is too long. {_FIX_SENDER}",
    "bad_record": f"The record does not fit its schema. {_FIX_SENDER}",
    "bad_kind": f"The command is none that exists. {_FIX_SENDER}",
    "bad_seal": "The data key of its user does not open it: it was sealed with another key, or was altered. Find out who "
    "sent it; replay only after the right key stands in the key store.",
    "unknown_key": "The key store does not know the data key it was sealed with, as when the key store was restored from an older "
    "back-up. Restore the newer key store, then replay.",
    "too_large": "It, or what a stage made of it, is larger than the limit that the reason names. Raise the limit on broker and "
    "workers alike and replay, or send the input in parts.",
    "bad_value": "Postgres cannot store a value in it. Look at the reason for the column; after the cause is mended, send it anew.",
    "bad_vector": "A vector in it is not of the right length or not finite. Check the embedder; `engram reconcile --repair` "
    "publishes the memory again.",
    POISON: "The worker began it several times and never finished: it ended the process each time. Look at the "
    "worker's log at that time, mend the cause, then replay.",
}
UNEXPLAINED: Final = "The reason below is all that is known. When its cause is mended, replay."


class Route(Struct, frozen=True):
    """Where an input is put back: the topic's name without prefix, the partition, and the key (``None``: as it was)."""

    topic: Topic
    partition: int
    key: bytes | None


def explanation(code: str) -> str:
    """Return in one or two sentences what ``code`` means and what to do."""
    return EXPLANATIONS.get(code, UNEXPLAINED)


def obstacle(letter: DeadLetter, prefix: str) -> str:
    """Return in one sentence why the input of ``letter`` cannot be put back; empty when it can.

    What ``remember`` refused has its refusal in the log of changes: the same proposal gets the same answer for ever, so that a
    rebuild comes to the same end.
    """
    if letter.stage in PROJECTORS:
        return f"{letter.stage} is made anew from Postgres: run `engram reconcile {letter.stage} --repair`"
    source = SOURCES.get(letter.stage)
    if source is None:
        return f"there is no stage {letter.stage} in this version"
    if letter.topic != source.named(prefix):
        return f"it came from {letter.topic}, which {letter.stage} does not read here"
    if letter.stage == "remember" and letter.tenant_id:
        return "its refusal was recorded as the outcome of the proposal and is final: send the input or command again as a new one"
    return ""


def route(letter: DeadLetter, partitions: int) -> Route:
    """Return where the input goes: to its user's partition where the user is known, else where it was.

    A key that was cut for the letter is ``None``, so that the whole one is read from the topic.
    """
    topic = SOURCES[letter.stage]
    if letter.tenant_id and letter.user_id:
        number = partition_of(letter.tenant_id, letter.user_id, partitions)
        return Route(topic, number, routing_key(letter.tenant_id, letter.user_id))
    whole = letter.key is None or len(letter.key) < KEY_LIMIT_BYTES
    return Route(topic, letter.partition, (letter.key or b"") if whole else None)


def position_text(position: Origin) -> str:
    """Return a position as people type it, ``partition:offset``."""
    return f"{position.partition}:{position.offset}"
