"""``engram demo``: the whole story on the real servers, from the first turn to the proof that nothing differs.

An entry: it owns a stack of its own below the state directory, empty at the start and stopped at the end, and joins what the
other commands do one by one. Ends with 1 when something is not as it should be.
"""

import asyncio
import os
import shutil
import sys
import time
from contextlib import AsyncExitStack
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from infra.commands.rebuild import rebuild_stores
from infra.commands.setup import SETUP_STEPS
from infra.demo.conversation import load
from infra.demo.look import Counts, Remembered, counts, empty, remembered
from infra.demo.play import play
from infra.demo.questions import QUESTIONS, Asked
from infra.progress import StackProgress
from infra.stack import LocalStack
from infra.workers import worker_specs
from projectors.doors import open_door
from projectors.entries import STORES
from projectors.rebuild import Outcome
from recall.recall import recall
from recall.requests import RecallRequest, RecallResponse
from recall.wiring import opened
from reconcile.report import Report
from reconcile.run import Options, reconcile
from schemas.settings import Settings, load_settings

EXIT_DIFFERENT = 1
DRAIN_SECONDS = "2"
MARK = {True: "[green]yes[/green]", False: "[red]no[/red]"}


class Answer(msgspec.Struct, frozen=True):
    """A question, the best hits, whether what was expected is among them and what is forbidden is not, and arms left out."""

    tenant: str
    user: str
    question: str
    hits: tuple[str, ...]
    as_expected: bool
    left_out: tuple[str, ...]


def demo(
    as_json: Annotated[
        bool, typer.Option("--json", help="End with one JSON line; progress goes to standard error.")
    ] = False,
) -> None:
    """Play a bilingual conversation, show what was remembered, rebuild every store, prove that all agree."""
    began = time.monotonic()
    console = Console(stderr=as_json)
    directory = load_settings().state_dir / "demo"
    # The demo shows a first day: what an earlier demo left is not part of the story. Downloads are cached elsewhere.
    if not LocalStack(directory).state.owner():
        shutil.rmtree(directory, ignore_errors=True)
    progress = StackProgress(console)
    stack = LocalStack(directory, progress=progress, supervise_servers=True)
    try:
        with progress:
            stack.prepare()
            stack.start_servers()
        os.environ.update(stack.environment(), ENGRAM_DRAIN_SECONDS=DRAIN_SECONDS)
        settings = load_settings()
        for name, step in SETUP_STEPS:
            step(settings)
            console.print(f"{name}: up to date", highlight=False)
        stack.start_workers(worker_specs(stack.state))
        with console.status("workers are starting"):
            stack.wait_for_workers()
        console.print("9 workers: ready", highlight=False)
        result, good = asyncio.run(_story(settings, console))
    finally:
        stack.stop()
    result["seconds"] = round(time.monotonic() - began, 1)
    console.print(f"Done in {result['seconds']} s; everything is stopped.", highlight=False)
    if as_json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    if not good:
        raise typer.Exit(EXIT_DIFFERENT)


async def _story(settings: Settings, console: Console) -> tuple[dict[str, Any], bool]:
    lines = load(time.time_ns() // 1_000_000)
    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=console) as bar:
        playing = bar.add_task("conversation", total=len(lines))
        last = await play(settings, lines, sent=lambda: bar.advance(playing))
    users = sorted(last)
    people = await remembered(settings, users)
    before = await _proved(settings)
    held = await counts(settings)
    _show_people(console, people)
    _show_counts(console, held)
    answers = await _ask(settings, QUESTIONS)
    _show_answers(console, answers)
    for store in STORES:
        console.print(f"{store}: {await empty(settings, store)} entries thrown away", highlight=False)
    rebuilt = await rebuild_stores(settings, STORES, console, visible=True)
    after = await _proved(settings)
    again = await counts(settings)
    _show_proof(console, rebuilt, after)
    answers_after = await _ask(settings, QUESTIONS)
    result = {
        "turns": len(lines),
        **_kept(people),
        **_held(again),
        **_compared(rebuilt, after),
        "recall": [msgspec.to_builtins(answer) for answer in answers_after],
    }
    good = (
        before.differences == 0
        and after.differences == 0
        and all(outcome.switched for outcome in rebuilt)
        and held == again
        and all(answer.as_expected for answer in (*answers, *answers_after))
    )
    return result, good


async def _proved(settings: Settings) -> Report:
    async with AsyncExitStack() as resources:
        doors = {store: open_door(settings, store) for store in STORES}
        for door in doors.values():
            resources.push_async_callback(door.close)
        return await reconcile(settings, doors, Options(deep=True))


async def _ask(settings: Settings, questions: tuple[Asked, ...]) -> tuple[Answer, ...]:
    answers = []
    async with opened(settings) as deps:
        for asked in questions:
            request = RecallRequest(tenant_id=asked.tenant, user_id=asked.user, question=asked.question, limit=5)
            answers.append(_judged(asked, await recall(request, deps)))
    return tuple(answers)


def _judged(asked: Asked, response: RecallResponse) -> Answer:
    hits = tuple(hit.snippet for hit in response.hits)
    text = "\n".join(hits)
    good = asked.expected in text and not (asked.forbidden and asked.forbidden in text)
    late = tuple(f"{arm.arm}: {arm.state}" for arm in response.arms if arm.state in ("late", "failed"))
    return Answer(asked.tenant, asked.user, asked.question, hits, good, late)


def _show_people(console: Console, people: tuple[Remembered, ...]) -> None:
    for person in people:
        table = Table(title=f"{person.tenant} / {person.user}", title_justify="left", box=None, pad_edge=False)
        table.add_column("what is kept", ratio=5, overflow="fold")
        table.add_column("as", ratio=3, overflow="fold")
        table.add_column("confidence", justify="right")
        for memory in (*person.held, *person.ended):
            style = None if memory.status == "active" else "dim"
            table.add_row(
                memory.content, f"{memory.category}, {memory.status}", f"{memory.confidence:.2f}", style=style
            )
        for row in person.pending:
            table.add_row(str(row[1]), "pending", f"{row[2]:.2f}", style="yellow")
        for row in person.quarantined:
            table.add_row(str(row[5]), f"refused ({row[3]}) by {row[1]}, {row[2]}", "", style="red")
        console.print(table)
        console.print()


def _show_counts(console: Console, held: Counts) -> None:
    table = Table("store", "holds")
    table.add_row("Milvus", f"{held.vectors} rows")
    table.add_row("Neo4j", f"{held.nodes} memory nodes, {held.edges} edges")
    table.add_row("InfluxDB", f"{held.working_events} working-memory events")
    console.print(table)


def _show_answers(console: Console, answers: tuple[Answer, ...]) -> None:
    table = Table("who asks", "question", "best answers from memory", "as expected")
    for answer in answers:
        table.add_row(
            f"{answer.tenant} / {answer.user}",
            answer.question,
            "\n".join((*answer.hits[:3], *answer.left_out)),
            MARK[answer.as_expected],
        )
    console.print(table)


def _show_proof(console: Console, rebuilt: list[Outcome], report: Report) -> None:
    table = Table("store", "rebuilt", "seconds", "equal", "checked", "missing", "stale", "orphan")
    by_store = {entry.store: entry for entry in report.stores}
    for outcome in rebuilt:
        entry = by_store[outcome.store]
        found = (str(number) for number in (entry.checked, entry.missing, entry.stale, entry.orphan))
        table.add_row(
            outcome.store, f"{outcome.records} records", f"{outcome.seconds:.1f}", MARK[outcome.switched], *found
        )
    console.print(table)


def _kept(people: tuple[Remembered, ...]) -> dict[str, int]:
    return {
        "memories": sum(len(person.held) for person in people),
        "ended": sum(len(person.ended) for person in people),
        "quarantined": sum(len(person.quarantined) for person in people),
        "pending": sum(len(person.pending) for person in people),
    }


def _held(held: Counts) -> dict[str, int]:
    return {
        "vectors": held.vectors,
        "nodes": held.nodes,
        "edges": held.edges,
        "working_events": held.working_events,
    }


def _compared(rebuilt: list[Outcome], report: Report) -> dict[str, Any]:
    return {
        "rebuild": {
            outcome.store: {
                "rows": outcome.records,
                "seconds": round(outcome.seconds, 2),
                "equal": outcome.switched and not outcome.differences,
            }
            for outcome in rebuilt
        },
        "reconcile": {
            entry.store: {
                "checked": entry.checked,
                "missing": entry.missing,
                "stale": entry.stale,
                "orphan": entry.orphan,
            }
            for entry in report.stores
        },
    }
