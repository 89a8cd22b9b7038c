"""``engram reconcile``: proves that the stores agree with Postgres, and repairs them where they do not.

An entry: reads the environment, opens the doors, shows progress and a table. Exit codes: 0 no differences, 1 differences
(also when repairs were asked for: run it again to see them gone), 65 refused (too many repairs without ``--yes``, no such
generation), 69 a server or a projector is away, so nothing could be proved.
"""

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from infra.conflicts import settle
from infra.durations import seconds_of
from infra.last_run import write_last_run
from projectors.doors import open_door
from projectors.entries import STORES, Store
from reconcile.plan import LOG, Audited
from reconcile.report import Report, StoreReport
from reconcile.run import FingerprintDoor, Options
from reconcile.run import reconcile as run_reconcile
from schemas.errors import Misconfigured, Rejected, Retryable
from schemas.ids import check_id
from schemas.settings import Settings, load_settings

EXIT_DIFFERENT = 1
_DOING = {"checked": "entries compared", "repairs": "repairs asked for"}


def reconcile(
    only: Annotated[
        list[str] | None, typer.Argument(help="milvus, neo4j, influx, log (memory.updated); without it, all of them")
    ] = None,
    *,
    store: Annotated[list[str] | None, typer.Option("--store", help="The same as an argument.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Publish the truth of what differs again.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Read vectors back and digest them anew.")] = False,
    generation: Annotated[
        int | None, typer.Option("--generation", min=1, help="A generation that is not live, such as one being built.")
    ] = None,
    tenant: Annotated[str, typer.Option("--tenant", help="Report and repair this tenant's entries only.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Repair however many entries differ.")] = False,
    wait_seconds: Annotated[
        float, typer.Option("--wait-seconds", min=0.1, help="Wait this long for a projector.")
    ] = 60.0,
    every: Annotated[
        str, typer.Option("--every", help="Run again after this time (such as 15m or 1h) until stopped.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a run, no table.")] = False,
) -> None:
    """Compare the stores with Postgres, twice where they differ. Ends with 0 when nothing differs, with 1 when something does.

    With --every it goes on until it is stopped; a run that could not be finished says why, and the next one comes.
    """
    audited = _audited([*(only or ()), *(store or ())])
    if tenant:
        check_id("tenant", tenant)
    pause_seconds = seconds_of(every) if every else 0.0
    options = Options(repair=repair, deep=deep, yes=yes, tenant_id=tenant, wait_seconds=wait_seconds)

    def once() -> Report:
        shown = _Shown(visible=not as_json)
        settings, began_at_ms = load_settings(), time.time_ns() // 1_000_000
        with shown.bar:
            report = asyncio.run(_run(settings, audited, options, generation, shown))
        if as_json:
            typer.echo(msgspec.json.encode(report).decode())
        else:
            _print(report)
        if not tenant:
            with suppress(OSError):  # Only metrics miss it where the folder is closed.
                write_last_run(settings.state_dir, report)
            asyncio.run(settle(settings, report, began_at_ms))
        return report

    if pause_seconds:
        _again_and_again(once, pause_seconds)
    elif once().differences:
        raise typer.Exit(EXIT_DIFFERENT)


def _again_and_again(once: Callable[[], Report], pause_seconds: float) -> None:
    """Run ``once`` every ``pause_seconds`` until a signal asks to stop: at once between runs, else when the run is over.

    A second signal ends it in the middle. What a later run can find cured is only reported; a wrong setting ends it.
    """
    stop = threading.Event()

    def ask(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    while not stop.is_set():
        started = time.monotonic()
        try:
            once()
        except (Retryable, Rejected) as error:
            typer.echo(f"this run was not finished: {error}", err=True)
        stop.wait(max(0.0, pause_seconds - (time.monotonic() - started)))


def _audited(names: list[str]) -> tuple[Audited, ...]:
    known: tuple[Audited, ...] = (LOG, *STORES)
    wanted = set(names) - {"all"}
    if unknown := sorted(wanted - set(known)):
        raise Misconfigured(f"there is no store {unknown[0]}: use {', '.join(known)}")
    return tuple(one for one in known if not wanted or one in wanted)


async def _run(
    settings: Settings, audited: tuple[Audited, ...], options: Options, generation: int | None, shown: "_Shown"
) -> Report:
    async with AsyncExitStack() as resources:
        doors: dict[Store, FingerprintDoor] = {}
        for store in STORES:
            if store in audited:
                door = open_door(settings, store)
                resources.push_async_callback(door.close)
                doors[store] = door
        return await run_reconcile(
            settings, doors, options, generation=generation, with_log=LOG in audited, progress=shown.hear
        )


def _print(report: Report) -> None:
    console = Console()
    table = Table("store", "generation", "checked", "missing", "stale", "orphan", "repairs", "seconds")
    for store in report.stores:
        table.add_row(*_cells(store))
    console.print(table)
    for store in report.stores:
        for example in store.examples:
            console.print(
                f"{store.store} {example.kind}: {example.key} of {example.tenant_id}/{example.user_id}, "
                f"Postgres {_version(example.expected_version)}, store {_version(example.observed_version)}",
                markup=False,
                highlight=False,
            )
    if not report.differences:
        console.print("0 differences: everything that was compared agrees with Postgres", style="green")
    elif any(store.repair_enqueued for store in report.stores):
        console.print("Repairs are on their way: run this again to see that nothing is left.")
    else:
        console.print("Run it with --repair to publish the truth of these again.")


def _cells(store: StoreReport) -> tuple[str, ...]:
    counts = (store.generation, store.checked, store.missing, store.stale, store.orphan, store.repair_enqueued)
    return (store.store, *(str(count) for count in counts), f"{store.seconds:.2f}")


def _version(version: int | None) -> str:
    return "nothing" if version is None else f"version {version}"


class _Shown:
    """One moving line per store, while ``bar`` is entered."""

    def __init__(self, *, visible: bool) -> None:
        self.bar = Progress(
            TextColumn("{task.description}"),
            TextColumn("{task.completed:.0f} {task.fields[what]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not visible,
            transient=True,
        )
        self._tasks: dict[tuple[Audited, str], TaskID] = {}

    def hear(self, store: Audited, what: str, count: int) -> None:
        """Show how far a store is."""
        if (store, what) not in self._tasks:
            self._tasks[store, what] = self.bar.add_task(store, total=None, what=_DOING[what])
        self.bar.update(self._tasks[store, what], completed=count)
