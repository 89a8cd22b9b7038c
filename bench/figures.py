"""What a measurement says: figures with the raw library beside them, goals, tables of where the time goes.

Made by the groups, shown by ``show``, written as JSON by the entry. Pure.
"""

import math
from collections.abc import Sequence

import msgspec


class Goal(msgspec.Struct, frozen=True):
    """What a figure should reach: ``kind`` is ratio (value / raw at least), at_least or at_most (the value itself)."""

    kind: str
    limit: float

    def __str__(self) -> str:
        if self.kind == "ratio":
            return f"≥ {self.limit:.0%} of raw"
        return f"{'≥' if self.kind == 'at_least' else '≤'} {self.limit:,.0f}"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured number. ``raw`` is the raw library's in the same run and unit; ``method`` says what it is, in words."""

    name: str
    value: float
    unit: str
    raw: float | None = None
    method: str = ""
    goal: Goal | None = None

    @property
    def ratio(self) -> float | None:
        """Return the value as a share of raw; for seconds and other costs raw as a share of the value."""
        if not self.raw or not self.value:
            return None
        return self.value / self.raw if self.unit.endswith("/s") else self.raw / self.value

    @property
    def met(self) -> bool | None:
        """Return whether the goal is reached (None without one)."""
        if self.goal is None:
            return None
        if self.goal.kind == "ratio":
            return self.ratio is not None and self.ratio >= self.goal.limit
        return self.value >= self.goal.limit if self.goal.kind == "at_least" else self.value <= self.goal.limit


class Table(msgspec.Struct, frozen=True):
    """Where the time goes, or another breakdown: cells are texts."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one group; ``load_average`` is that of one minute when it began."""

    name: str
    load_average: float
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    command: str
    started_at: str
    cpus: int
    python: str
    rows: int
    turns: int
    groups: tuple[Group, ...]

    def as_json(self) -> bytes:
        """Return the report as JSON; every figure with its ratio and whether its goal is met."""
        plain = msgspec.to_builtins(self)
        for group, shown in zip(self.groups, plain["groups"], strict=True):
            for figure, fields in zip(group.figures, shown["figures"], strict=True):
                fields |= {"ratio": figure.ratio, "met": figure.met}
        return msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least ``share`` (0 to 1) of ``values`` do not exceed; raises ``ValueError`` for none."""
    if not values:
        raise ValueError("a percentile needs at least one value")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def share_rows(seconds: dict[str, float], whole_seconds: float) -> tuple[tuple[str, ...], ...]:
    """Return table rows (step, seconds, share) of ``whole_seconds``, the largest first, the rest as ``everything else``."""
    rest = whole_seconds - sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    return tuple(
        (name, f"{spent:.2f}", f"{spent / whole_seconds:.0%}") for name, spent in [*ordered, ("everything else", rest)]
    )
