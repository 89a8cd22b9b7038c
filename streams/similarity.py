"""Exact cosine similarity between one vector and a few others of the same revision.

Called by ``decide`` for SIMILAR_TO edges. Pure: the same vectors give the same answer, so a replay decides the same.
"""

from collections.abc import Iterable

import numpy as np

from schemas.candidates import Vector

_BYTES = 4


def is_usable(vector: Vector) -> bool:
    """Return whether ``vector`` has a name, whole float32 numbers, all finite, and a length above zero."""
    if not vector.revision or not vector.values or len(vector.values) % _BYTES:
        return False
    values = np.frombuffer(vector.values, "<f4").astype(np.float64)
    return bool(np.isfinite(values).all() and (values != 0).any())


def similar(
    vector: Vector, others: Iterable[tuple[str, Vector]], threshold: float, limit: int
) -> tuple[tuple[str, float], ...]:
    """Return (id, similarity) of those at or above ``threshold``, best first, at most ``limit``.

    ``others`` pairs ids with usable vectors; another revision or dimension is never compared. Similarity is rounded to four
    decimals, so that it does not depend on the order in which a processor adds.
    """
    comparable = [
        (name, other.values)
        for name, other in others
        if other.revision == vector.revision and len(other.values) == len(vector.values)
    ]
    if not comparable:
        return ()
    matrix = np.frombuffer(b"".join(values for _, values in comparable), "<f4").astype(np.float64)
    matrix = matrix.reshape(len(comparable), -1)
    query = np.frombuffer(vector.values, "<f4").astype(np.float64)
    norms = np.sqrt((matrix * matrix).sum(axis=1)) * np.sqrt((query * query).sum())
    cosines = (matrix * query).sum(axis=1) / norms
    found = [(name, round(float(cosine), 4)) for (name, _), cosine in zip(comparable, cosines, strict=True)]
    chosen = [(name, min(1.0, cosine)) for name, cosine in found if cosine >= threshold]
    return tuple(sorted(chosen, key=lambda pair: (-pair[1], pair[0]))[:limit])
