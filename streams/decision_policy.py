"""What ``decide`` is given besides state and proposal: the vocabulary, ranks and thresholds.

Made by wiring (``policy_of``) or by a test. Values only; the vocabulary is reached through the small protocol below.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from schemas.settings import Settings

SOURCE_RANKS: Mapping[str, int] = {
    "official_id": 5,
    "business_record": 4,
    "user_statement": 3,
    "assistant": 2,
    "tool": 2,
    "inferred": 1,
}
DEFAULT_SIMILARITY = 0.75


class Vocabulary(Protocol):
    """What ``decide`` asks about attributes; ``streams.vocabulary`` answers."""

    def cardinality(self, name: str, /) -> str:
        """Return ``one`` or ``many``."""
        ...

    def is_sensitive(self, name: str, /) -> bool:
        """Return whether a big jump of this attribute goes to review."""
        ...

    def opposite_of(self, name: str, /) -> str:
        """Return the attribute that the same value contradicts, or an empty string."""
        ...

    def normalised_value(self, attribute: str, value_json: str, /) -> str:
        """Return the form of a value in which two ways to say the same are equal."""
        ...


@dataclass(frozen=True, slots=True)
class DecisionPolicy:
    """Everything a decision depends on that is neither state nor proposal; times in days, confidences from 0 to 1.

    ``hash_key`` has 32 bytes. ``similarity_thresholds`` maps a vector revision to the least similarity of an edge.
    """

    vocabulary: Vocabulary
    hash_key: bytes
    similarity_thresholds: Mapping[str, float] = field(default_factory=dict)
    similar_memories: int = 50
    similar_edges: int = 10
    pending_confidence: float = 0.6
    pending_days: int = 30
    facts_per_turn: int = 100
    beside_confidence: float = 0.7
    jump_years: int = 5
    sources_kept: int = 50
    id_limit_characters: int = 256

    def rank(self, source: str) -> int:
        """Return the rank of a source, higher wins; 0 for an unknown one."""
        return SOURCE_RANKS.get(source, 0)

    def similarity_threshold(self, revision: str) -> float:
        """Return the least similarity of an edge for this revision."""
        return self.similarity_thresholds.get(revision, DEFAULT_SIMILARITY)


def policy_of(
    settings: Settings, vocabulary: Vocabulary, similarity_thresholds: Mapping[str, float] | None = None
) -> DecisionPolicy:
    """Return the policy that ``settings`` ask for."""
    return DecisionPolicy(
        vocabulary=vocabulary,
        hash_key=settings.hash_key_bytes(),
        similarity_thresholds=dict(similarity_thresholds or {}),
        similar_memories=settings.similar_memories,
        pending_confidence=settings.pending_confidence,
        pending_days=settings.pending_days,
        facts_per_turn=settings.facts_per_turn,
    )
