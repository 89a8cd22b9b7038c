"""``engram bench quality``: how well texts are read, on labelled sets, without any server.

An entry: prints a table or JSON of figures, each with its count. The speed of the whole line on real servers is measured by
``python -m bench`` in a checkout. Exit codes: 0 shown, 2 a file that was named is not there or not a labelled set.
"""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from infra.quality.figures import Quality
from infra.quality.measure import measure
from schemas.settings import load_settings

bench = typer.Typer(no_args_is_help=True, help="Measure on labelled sets.")


@bench.callback()
def _root() -> None:
    # With a callback, one command alone still keeps its name.
    pass


@bench.command()
def quality(
    *,
    data: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="A folder with public sets; any that are there are used."),
    ] = None,
    extraction: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Labelled turns, instead of the shipped ones.")
    ] = None,
    poison: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Labelled texts for the gates, instead of the shipped ones."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    mistakes: Annotated[bool, typer.Option(help="List what counted as wrong.")] = False,
    speed: Annotated[bool, typer.Option(help="Measure speed too.")] = True,
) -> None:
    """Print precision, recall and false alarms of extraction, times, noise filter and gates, with their counts."""
    pending_below = load_settings().pending_confidence
    try:
        report = measure(data, extraction, poison, pending_below=pending_below, speed=speed)
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"not a labelled set: {error}") from error
    if not mistakes:
        report = msgspec.structs.replace(report, mistakes=())
    if as_json:
        typer.echo(msgspec.json.encode(report).decode())
    else:
        _show(report)


def _show(report: Quality) -> None:
    console = Console()
    table = Table("measure", "group", "right", "of", "share")
    for one in report.figures:
        share = "" if one.share is None else f"{one.share:.1%}"
        table.add_row(one.measure, one.group, str(one.right), str(one.count), share)
    console.print(table)
    for speed in report.speeds:
        console.print(f"{speed.measure}: {speed.value:g} {speed.unit} (over {speed.count})")
    if report.missing:
        console.print(f"not measured, because not there: {', '.join(dict.fromkeys(report.missing))}", soft_wrap=True)
    for mistake in report.mistakes:
        console.print(f"{mistake.measure} {mistake.id}: {mistake.what}", markup=False, highlight=False, soft_wrap=True)
