"""``python -m bench``: measures speed on the real servers, each figure beside the raw library in the same run.

An entry: reads the command line, runs the groups, prints tables, writes JSON. It changes no data but its own.
"""

import asyncio
import os
import platform
import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench import stores, write_path
from bench.figures import Group, Report
from bench.ground import ground
from bench.show import Shown
from infra.logs import set_up_logs
from schemas.errors import EngramError

GROUPS = (*write_path.GROUPS, *stores.GROUPS)
ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Order:
    """What to measure, with how many memories and turns, and where other texts are."""

    groups: tuple[str, ...]
    rows: int
    turns: int
    data: Path | None


def main(
    groups: Annotated[list[str] | None, typer.Argument(help=f"{', '.join(GROUPS)}; without one, all of them")] = None,
    *,
    rows: Annotated[int, typer.Option(min=200, help="Memories in the stores.")] = ROWS,
    turns: Annotated[int | None, typer.Option(min=60, help="Turns for the write path; a tenth of the rows.")] = None,
    data: Annotated[Path | None, typer.Option(help="A folder with MemoryBank's files, instead of the sample.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")] = None,
) -> None:
    """Measure the chosen groups on servers of its own, or on those that the environment names."""
    chosen = tuple(groups or GROUPS)
    if unknown := sorted(set(chosen) - set(GROUPS)):
        raise typer.BadParameter(f"there is no group {unknown[0]}: use {', '.join(GROUPS)}")
    order = Order(chosen, rows, turns or max(60, rows // 10), data)
    started_at = datetime.now(UTC)
    console = Console(width=None if sys.stdout.isatty() else 132)
    found: list[Group] = []
    try:
        with Shown(console) as shown:
            asyncio.run(_run(shown, order, found))
    finally:
        # What was measured before a failure or Ctrl-C is worth keeping.
        if json_file is not None:
            json_file.write_bytes(_report(order, started_at, found).as_json())


def _report(order: Order, started_at: datetime, found: list[Group]) -> Report:
    return Report(
        command="python -m bench " + " ".join(sys.argv[1:]),
        started_at=started_at.isoformat(timespec="seconds"),
        cpus=os.cpu_count() or 1,
        python=platform.python_version(),
        rows=order.rows,
        turns=order.turns,
        groups=tuple(found),
    )


async def _run(shown: Shown, order: Order, found: list[Group]) -> None:
    with ground(shown) as here:
        if not set(order.groups).isdisjoint(write_path.GROUPS):
            async for group in write_path.run(here, order.groups, order.turns, order.data):
                found.append(group)
                shown.group(group)
        if not set(order.groups).isdisjoint(stores.GROUPS):
            async for group in stores.run(here, order.groups, order.rows):
                found.append(group)
                shown.group(group)
        shown.doing("stopping")


def _interrupted(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupted)
    set_up_logs("bench")
    try:
        typer.run(main)
    except EngramError as error:
        sys.exit(f"{type(error).__name__}: {error}")
