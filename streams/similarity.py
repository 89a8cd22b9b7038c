"""Exact cosine similarity between new vectors and a few known ones of the same revision.

Called by ``decide`` for SIMILAR_TO edges. Pure: the same vectors give the same answer, so a replay decides the same.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from schemas.candidates import Vector

_BYTES = 4


def is_usable(vector: Vector) -> bool:
    """Return whether ``vector`` has a name, whole float32 numbers, all finite, and a length above zero."""
    if not vector.revision or not vector.values or len(vector.values) % _BYTES:
        return False
    values = np.frombuffer(vector.values, "<f4").astype(np.float64)
    return bool(np.isfinite(values).all() and (values != 0).any())


class Neighbours:
    """The vectors that new ones are compared with, kept as blocks of rows for each revision and dimension."""

    def __init__(self, known: Iterable[tuple[str, Vector]] = ()) -> None:
        """``known`` pairs ids with usable vectors."""
        self._names: dict[tuple[str, int], list[str]] = {}
        self._blocks: dict[tuple[str, int], list[NDArray[np.float64]]] = {}
        values: dict[tuple[str, int], list[bytes]] = {}
        for name, vector in known:
            group = (vector.revision, len(vector.values))
            self._names.setdefault(group, []).append(name)
            values.setdefault(group, []).append(vector.values)
        for (revision, size), found in values.items():
            self._blocks[revision, size] = [_units(b"".join(found), size)]

    def add(self, name: str, vector: Vector) -> None:
        """Let later vectors be compared with ``vector``."""
        group = (vector.revision, len(vector.values))
        self._names.setdefault(group, []).append(name)
        self._blocks.setdefault(group, []).append(_units(vector.values, group[1]))

    def similar(self, vector: Vector, threshold: float) -> tuple[tuple[str, float], ...]:
        """Return (id, similarity) of those at or above ``threshold``, best first.

        Another revision or dimension is never compared. Similarity is rounded to four decimals, so that it does not depend
        on the order in which a processor adds.
        """
        group = (vector.revision, len(vector.values))
        if group not in self._names:
            return ()
        blocks, unit = self._blocks[group], _units(vector.values, group[1])
        cosines = np.round(np.concatenate([(block * unit).sum(axis=1) for block in blocks]), 4)
        chosen = np.flatnonzero(cosines >= threshold)
        found = [(self._names[group][index], min(1.0, float(cosines[index]))) for index in chosen]
        return tuple(sorted(found, key=lambda pair: (-pair[1], pair[0])))


def _units(values: bytes, size: int) -> NDArray[np.float64]:
    """Return the vectors in ``values``, each of ``size`` bytes, at length one: a row for each."""
    rows = np.frombuffer(values, "<f4").astype(np.float64).reshape(-1, size // _BYTES)
    units: NDArray[np.float64] = rows / np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return units
