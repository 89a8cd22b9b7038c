"""Walking the graph from a few memories: which neighbours were reached, over which edges, how strongly.

Called by the door to Neo4j, which asks for one hop at a time. Pure: it keeps the frontier and the paths.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


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


class Walk:
    """A breadth-first walk; each node is reached once, by its shortest and then strongest path."""

    def __init__(self, seeds: Iterable[Mapping[str, Any]]) -> None:
        self._reached: dict[str, tuple[str, tuple[Step, ...], float]] = {
            seed["node_id"]: (seed["memory_id"], (), 1.0) for seed in seeds
        }
        self.frontier: list[str] = list(self._reached)
        self.neighbours: list[Neighbour] = []

    def advance(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take the rows of one hop from the frontier; what is new becomes the next frontier."""
        best: dict[str, tuple[float, Mapping[str, Any]]] = {}
        for row in rows:
            if row["next_id"] in self._reached:
                continue
            weight = self._reached[row["node_id"]][2] * _weight(row["weight"])
            known = best.get(row["next_id"])
            if known is None or weight > known[0]:
                best[row["next_id"]] = (weight, row)
        for next_id, (weight, row) in best.items():
            seed_id, path, _ = self._reached[row["node_id"]]
            longer = (*path, Step(row["type"], bool(row["outgoing"]), _node(row)))
            self._reached[next_id] = (seed_id, longer, weight)
            if row["memory_id"] is not None:
                self.neighbours.append(
                    Neighbour(row["memory_id"], int(row["version"]), str(row["status"]), seed_id, longer, weight)
                )
        self.frontier = list(best)


def _weight(weight: float | None) -> float:
    return min(1.0, max(0.0, 1.0 if weight is None else float(weight)))


def _node(row: Mapping[str, Any]) -> str:
    if row["memory_id"] is not None:
        return f"memory:{row['memory_id']}"
    return f"entity:{row['entity_type']}:{row['entity_id']}"
