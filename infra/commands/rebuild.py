"""``engram rebuild``: makes a derived store anew from the log and switches to it when it equals Postgres.

An entry: reads the environment, joins rebuild with the reconciler, shows progress. The store's worker must be running.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from infra.refold import refold
from projectors.door import Door
from projectors.doors import open_door
from projectors.entries import STORES, Generation, Store
from projectors.generations import ROLE
from projectors.rebuild import Outcome, Rebuild
from projectors.rebuild import Progress as Step
from reconcile.run import compare
from schemas.errors import Misconfigured
from schemas.settings import Settings, load_settings
from streams.crash import crash_points
from streams.postgres import connect

EXIT_DIFFERENT = 1


def rebuild(
    store: Annotated[str, typer.Argument(help="milvus, neo4j, influx, all of them side by side, or postgres")],
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per store, no progress bar")] = False,
) -> None:
    """Rebuild a store from the log beside the live one, compare it with Postgres, and switch if nothing differs.

    Recall goes on all the while. Ends with 1 when there are differences: nothing was switched then.

    postgres folds memory.changes into an empty, migrated database, with the same ids, versions, hashes and history; the workers
    must be stopped, and go on from there when they are started.
    """
    if store == "postgres":
        _rebuild_postgres(load_settings(), Console(stderr=as_json), as_json=as_json)
        return
    stores = STORES if store == "all" else tuple(known for known in STORES if known == store)
    if not stores:
        raise Misconfigured(f"there is no store {store}: use milvus, neo4j, influx, all or postgres")
    console = Console(stderr=as_json)
    outcomes = asyncio.run(rebuild_stores(load_settings(), stores, console, visible=not as_json))
    for outcome in outcomes:
        if as_json:
            typer.echo(msgspec.json.encode(outcome).decode())
        else:
            console.print(_sentence(outcome), highlight=False)
    if not all(outcome.switched for outcome in outcomes):
        raise typer.Exit(EXIT_DIFFERENT)


def _rebuild_postgres(settings: Settings, console: Console, *, as_json: bool) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} changes"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=as_json) as bar:
        task = bar.add_task("postgres", total=1)
        outcome = asyncio.run(refold(settings, lambda done, total: bar.update(task, completed=done, total=total)))
        bar.update(task, total=max(outcome.changes, 1), completed=max(outcome.changes, 1))
    if as_json:
        typer.echo(msgspec.json.encode(outcome).decode())
        return
    generations = ", ".join(f"{store} generation {number}" for store, number in outcome.generations.items())
    console.print(
        f"postgres: {outcome.changes} changes of {outcome.proposals} proposals folded in {outcome.seconds:.1f} s. "
        f"Start the workers: they fill {generations} from the log; then `engram reconcile` proves that everything agrees",
        highlight=False,
    )


async def rebuild_stores(
    settings: Settings, stores: tuple[Store, ...], console: Console, *, visible: bool
) -> list[Outcome]:
    """Rebuild stores side by side, each switching for itself; return what became of each, in their order."""
    shown = _Shown(console, visible=visible)
    with shown.bar:
        return list(await asyncio.gather(*(_rebuild_one(settings, store, shown) for store in stores)))


async def _rebuild_one(settings: Settings, store: Store, shown: "_Shown") -> Outcome:
    async with AsyncExitStack() as resources:
        door: Door[Any] = open_door(settings, store)
        resources.push_async_callback(door.close)
        connection = await connect(settings, ROLE, autocommit=True)
        resources.push_async_callback(connection.close)

        async def differences(_: Store, generation: Generation) -> int:
            report = await compare(settings, door, generation)
            return report.missing + report.stale + report.orphan

        run = Rebuild(
            settings,
            connection,
            door,
            compare=differences,
            crash=crash_points(settings),
            progress=shown.hear,
            now_ms=lambda: time.time_ns() // 1_000_000,
        )
        return await run.run()


def _sentence(outcome: Outcome) -> str:
    rate = outcome.records / outcome.seconds if outcome.seconds else 0.0
    what = f"{outcome.store}: generation {outcome.generation}, {outcome.records} records"
    if outcome.switched:
        return f"{what} in {outcome.seconds:.1f} s ({rate:.0f} rows/s), 0 differences, live"
    return (
        f"{what}, {outcome.differences} differences to Postgres: not switched, the live generation is untouched. "
        f"See `engram reconcile {outcome.store}`, then run this again"
    )


class _Shown:
    """The progress bar: rows, rows a second, time left; shown while ``bar`` is entered, and its last state stays."""

    def __init__(self, console: Console, *, visible: bool) -> None:
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} rows"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not visible,
        )
        self._tasks: dict[tuple[str, int, str], TaskID] = {}

    def hear(self, step: Step) -> None:
        """Show where a rebuild is."""
        name = (step.store, step.generation, step.step)
        total, done = (step.total, step.done) if step.step == "projecting" else (1, 0)
        if name not in self._tasks:
            for (store, _, _), before in self._tasks.items():
                if store == step.store:
                    self.bar.update(before, completed=self.bar.tasks[before].total)
            text = f"{step.store} generation {step.generation}: {step.step}"
            self._tasks[name] = self.bar.add_task(text, total=max(total, 1), rate="")
        task = self.bar.tasks[self._tasks[name]]
        rate = f"{done / task.elapsed:.0f} rows/s" if done and task.elapsed else ""
        self.bar.update(self._tasks[name], completed=done, total=max(total, 1), rate=rate)
