"""Walking the graph from a few memories: which neighbours were reached, over which edges, how strongly.

Called by the door to Neo4j, which asks for one hop at a time. Pure: it keeps the frontier and the paths.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Step:
    """One hop: the edge's type, whether it was walked along its direction, and what it led to.

    ``node`` is ``memory:<id>`` or ``entity:<type>:<id>``.
    """

    kind: str
    outgoing: bool
    node: str


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A memory that was reached: from which seed, over which steps; ``weight`` is the product of the edges' weights (0 to 1)."""

    memory_id: str
    version: int
    status: str
    seed_id: str
    path: tuple[Step, ...]
    weight: float

    @property
    def hops(self) -> int:
        """Return the number of edges between seed and memory."""
        return len(self.path)


class ReadStep(NamedTuple):
    """One edge from a node of the frontier as it was read: ids of both ends, the edge, and what stands at its other end.

    ``memory_id``, ``version`` and ``status`` are set for a memory, ``entity_type`` and ``entity_id`` for an entity.
    """

    node_id: str
    next_id: str
    type: str
    weight: float | None
    outgoing: bool
    memory_id: str | None
    version: int | None
    status: str | None
    entity_type: str | None
    entity_id: str | None


class Walk:
    """A breadth-first walk; each node is reached once, by its shortest and then strongest path."""

    def __init__(self, seeds: Iterable[Mapping[str, Any]]) -> None:
        self._reached: dict[str, tuple[str, tuple[Step, ...], float]] = {
            seed["node_id"]: (seed["memory_id"], (), 1.0) for seed in seeds
        }
        self.frontier: list[str] = list(self._reached)
        self.neighbours: list[Neighbour] = []

    def advance(self, steps: Iterable[ReadStep]) -> None:
        """Take the steps of one hop from the frontier; what is new becomes the next frontier."""
        best: dict[str, tuple[float, ReadStep]] = {}
        for step in steps:
            if step.next_id in self._reached:
                continue
            weight = self._reached[step.node_id][2] * _weight(step.weight)
            known = best.get(step.next_id)
            if known is None or weight > known[0]:
                best[step.next_id] = (weight, step)
        for next_id, (weight, step) in best.items():
            seed_id, path, _ = self._reached[step.node_id]
            longer = (*path, Step(step.type, step.outgoing, _node(step)))
            self._reached[next_id] = (seed_id, longer, weight)
            if step.memory_id is not None:
                self.neighbours.append(
                    Neighbour(step.memory_id, step.version or 0, step.status or "", seed_id, longer, weight)
                )
        self.frontier = list(best)


def _weight(weight: float | None) -> float:
    return min(1.0, max(0.0, 1.0 if weight is None else float(weight)))


def _node(step: ReadStep) -> str:
    if step.memory_id is not None:
        return f"memory:{step.memory_id}"
    return f"entity:{step.entity_type}:{step.entity_id}"
