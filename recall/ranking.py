"""Fusion: what the arms found, joined into one ranking with a trace.

Called by ``recall.recall``. Pure; every form of the score is a row of ``FORMS``.
"""

from collections.abc import Callable, Iterable, Mapping

from recall.live import LiveMemory
from recall.requests import Part, Score

HOP_FACTOR = 0.5
Form = Callable[[float, float, float], float]

FORMS: Mapping[str, Form] = {
    "0.7 similarity + 0.3 importance": lambda similarity, importance, _confidence: 0.7 * similarity + 0.3 * importance,
    "similarity × confidence": lambda similarity, _importance, confidence: similarity * confidence,
}
DEFAULT_FORM = "0.7 similarity + 0.3 importance"


def clamp(value: float) -> float:
    """Return ``value`` cut to 0 to 1; a store's cosine can be a rounding error outside."""
    return min(1.0, max(0.0, value))


def along_edges(seed_similarity: float, hops: int, weight: float) -> float:
    """Return the similarity of a memory reached from a seed: each hop costs half, times the product of the edges' weights."""
    return clamp(clamp(seed_similarity) * HOP_FACTOR**hops * clamp(weight))


def joined(parts: Iterable[tuple[str, Part]]) -> dict[str, tuple[Part, ...]]:
    """Group ``(memory_id, part)`` by memory; of one arm only its best part counts. Best parts first, then by arm."""
    best: dict[str, dict[str, Part]] = {}
    for memory_id, part in parts:
        arms = best.setdefault(memory_id, {})
        if part.arm not in arms or arms[part.arm].similarity < part.similarity:
            arms[part.arm] = part
    return {
        memory_id: tuple(sorted(arms.values(), key=lambda part: (-part.similarity, part.arm)))
        for memory_id, arms in best.items()
    }


def score(memory: LiveMemory, parts: tuple[Part, ...], form: str = DEFAULT_FORM) -> Score:
    """Return the score of a memory: its similarity is that of the arm that found it best. Raises ``KeyError`` for a form
    that is not in ``FORMS``.
    """
    similarity = clamp(max(part.similarity for part in parts))
    importance = clamp(memory.importance)
    value = FORMS[form](similarity, importance, clamp(memory.confidence))
    return Score(value=value, form=form, similarity=similarity, importance=importance, parts=parts)


def ranked(
    memories: Iterable[LiveMemory], parts: Mapping[str, tuple[Part, ...]], form: str = DEFAULT_FORM
) -> list[tuple[LiveMemory, Score]]:
    """Return memories with scores, best first; equal scores by newest statement, then id, so that the order is stable."""
    scored = [(memory, score(memory, parts[memory.memory_id], form)) for memory in memories]
    return sorted(scored, key=lambda pair: (-pair[1].value, -pair[0].stated_at_ms, pair[0].memory_id))
