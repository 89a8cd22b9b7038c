"""A figure of quality: what was right, of how many, in which group.

Owns the shape of the report of ``engram bench quality``. Filled by the measuring files of this folder, printed by
``infra.commands.bench``. Never measures anything.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """``right`` of ``count`` in one group of one measure; ``share`` is their quotient, 0 to 1, ``None`` without a count."""

    measure: str
    group: str
    right: int
    count: int
    share: float | None


class Speed(msgspec.Struct, frozen=True):
    """A figure of speed with its unit, over ``count`` inputs."""

    measure: str
    value: float
    unit: str
    count: int


class Mistake(msgspec.Struct, frozen=True):
    """One thing that counted as wrong: the measure, the id of the input and what was expected or found."""

    measure: str
    id: str
    what: str


class Quality(msgspec.Struct, frozen=True):
    """The whole report; ``missing`` names the files that were not there, so that no figure is silently absent."""

    figures: tuple[Figure, ...]
    speeds: tuple[Speed, ...]
    missing: tuple[str, ...]
    mistakes: tuple[Mistake, ...] = ()


def figure(measure: str, group: str, right: int, count: int) -> Figure:
    """Return a figure with its share, rounded to four digits."""
    return Figure(measure, group, right, count, round(right / count, 4) if count else None)


class Tally:
    """Counts right and all by (measure, group), in the order in which groups first came."""

    def __init__(self) -> None:
        self._right: Counter[tuple[str, str]] = Counter()
        self._count: Counter[tuple[str, str]] = Counter()
        self.mistakes: list[Mistake] = []

    def add(self, measure: str, groups: Iterable[str], *, right: bool) -> None:
        """Count one case in each of ``groups``."""
        for group in groups:
            self._count[measure, group] += 1
            self._right[measure, group] += right

    def wrong(self, measure: str, identity: str, what: str) -> None:
        """Keep a mistake for whoever wants to read them."""
        self.mistakes.append(Mistake(measure, identity, what))

    def figures(self) -> tuple[Figure, ...]:
        """Return a figure for every measure and group that was counted."""
        return tuple(
            figure(measure, group, self._right[measure, group], count)
            for (measure, group), count in self._count.items()
        )
