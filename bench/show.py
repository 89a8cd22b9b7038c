"""Shows a run on the terminal: what is being done, then the tables.

Called by the entry and the groups. It measures nothing.
"""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.table import Table as ShownTable

from bench.figures import Figure, Group, Table


class Shown:
    """A line that moves on a terminal; elsewhere one line for each new thing."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._status: Status | None = None
        self._doing = ""

    def __enter__(self) -> Self:
        """Begin to show."""
        if self.console.is_terminal:
            self._status = self.console.status("")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the moving line away."""
        if self._status is not None:
            self._status.stop()

    def doing(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Say what is being done now, and how far it is."""
        if self._status is not None:
            self._status.update(text if done is None else f"{text}: {done:,} of {total or 0:,}")
        elif text != self._doing:
            self.console.print(text, markup=False, highlight=False)
        self._doing = text

    def group(self, group: Group) -> None:
        """Print the figures of a group and its tables."""
        table = ShownTable(title=f"{group.name} (load average {group.load_average:.1f})", title_justify="left")
        for column in ("figure", "value", "raw", "ratio", "goal", ""):
            table.add_column(column, justify="left" if column in ("figure", "goal", "") else "right")
        for figure in group.figures:
            table.add_row(*cells(figure))
        self.console.print(table)
        for breakdown in group.tables:
            self.console.print(_breakdown(breakdown))
        for note in group.notes:
            self.console.print(f"  {note}", markup=False, highlight=False)


def cells(figure: Figure) -> tuple[str, ...]:
    """Return the figure as cells: name, value with unit, raw, ratio, goal, whether it is met."""
    met = {None: "", True: "met", False: "MISSED"}[figure.met]
    return (
        figure.name,
        f"{number(figure.value)} {figure.unit}",
        "" if figure.raw is None else number(figure.raw),
        "" if figure.ratio is None else f"{figure.ratio:.0%}",
        "" if figure.goal is None else str(figure.goal),
        met,
    )


def number(value: float) -> str:
    """Return a number with three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _breakdown(breakdown: Table) -> ShownTable:
    table = ShownTable(title=breakdown.title, title_justify="left", box=None)
    for place, column in enumerate(breakdown.columns):
        table.add_column(column, justify="left" if place == 0 else "right")
    for row in breakdown.rows:
        table.add_row(*row)
    return table
