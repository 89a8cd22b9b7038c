"""The topics: names, partitions, retention. One table; the local stack and production create topics from it.

Pure: a prefix comes in as an argument, so that tests own their topics.
"""

from dataclasses import dataclass

MEBIBYTE = 1024 * 1024
INPUT_LIMIT_BYTES = MEBIBYTE
STAGE_LIMIT_BYTES = 8 * MEBIBYTE
FOR_EVER = "-1"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic before it has a prefix: its name and the broker settings that differ from the defaults."""

    name: str
    config: dict[str, str]

    def named(self, prefix: str) -> str:
        """Return the topic's name on the broker."""
        return prefix + self.name


def _kept(limit_bytes: int) -> dict[str, str]:
    return {"retention.ms": FOR_EVER, "retention.bytes": FOR_EVER, "max.message.bytes": str(limit_bytes + 65_536)}


CHAT_TURNS = Topic("chat.turns", _kept(INPUT_LIMIT_BYTES))
EXTRACTED = Topic("memory.extracted", _kept(STAGE_LIMIT_BYTES))
ADMITTED = Topic("memory.admitted", _kept(STAGE_LIMIT_BYTES))
PROPOSALS = Topic("memory.proposals", _kept(STAGE_LIMIT_BYTES))
CHANGES = Topic("memory.changes", _kept(STAGE_LIMIT_BYTES))
UPDATED = Topic(
    "memory.updated",
    {
        "cleanup.policy": "compact",
        "max.message.bytes": str(STAGE_LIMIT_BYTES + 65_536),
        "segment.ms": "3600000",
        "max.compaction.lag.ms": "86400000",
    },
)
WORKING = Topic("working.events", _kept(STAGE_LIMIT_BYTES))
DEAD = Topic("memory.dead", _kept(STAGE_LIMIT_BYTES))

TOPICS = (CHAT_TURNS, EXTRACTED, ADMITTED, PROPOSALS, CHANGES, UPDATED, WORKING, DEAD)
