"""``engram up``, ``down`` and ``status``: the local stack from the command line.

Commands of ``infra.cli``. ``up`` stays in the foreground and supervises; the other two only talk to it, by the state
directory. The variables that other commands need to reach the running stack are in ``<state>/environment``.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from infra.commands.setup import SETUP_STEPS, SetupStep
from infra.lifecycle import State
from infra.processes import ProcessSpec
from infra.progress import StackProgress
from infra.servers.contract import Server
from infra.stack import SERVERS, LocalStack
from infra.state import StateDirectory
from infra.supervisor import ProcessStatus
from infra.workers import worker_name, worker_specs
from schemas.errors import Broken
from schemas.settings import load_settings

if TYPE_CHECKING:
    from infra.lag import Look

DOWN_SECONDS = 120.0
LOOK_SECONDS = 0.5
CHECK_EVERY = 30
TROUBLE = frozenset({State.BACKING_OFF, State.FAILED, State.WAITING})

Looking = Callable[[Mapping[str, str]], "Look | None"]


class _Interrupted(BaseException):
    """Ctrl-C or SIGTERM while the stack starts or runs."""


def prepare() -> None:
    """Fetch and build the servers that are missing, without starting them; `up` and `demo` do it by themselves."""
    progress = StackProgress(Console())
    with progress:
        LocalStack(load_settings().state_dir, progress=progress).prepare()


def up(
    servers_only: Annotated[bool, typer.Option("--servers-only", help="Start the servers and no workers.")] = False,
) -> None:
    """Start the servers and the workers, and keep them running until Ctrl-C."""
    directory = load_settings().state_dir
    state = StateDirectory(directory)
    run_stack(directory, steps=() if servers_only else SETUP_STEPS, workers=[] if servers_only else worker_specs(state))


def run_stack(
    directory: Path,
    *,
    steps: Sequence[SetupStep],
    workers: Sequence[ProcessSpec],
    servers: Sequence[Server] = SERVERS,
    ready: Callable[[LocalStack], None] = lambda _: None,
) -> None:
    """Run a stack in the foreground until a signal: servers, setup steps, workers, then ``ready``, then supervise.

    A setup step gets the settings of the running stack. Raises ``Misconfigured`` when another stack has the directory
    or a tool is missing, ``Broken`` when something does not start; everything started is stopped again.
    """
    console = Console()
    progress = StackProgress(console)
    StateDirectory(directory).require_free()
    stack = LocalStack(directory, progress=progress, servers=servers, supervise_servers=True, whole=False)
    with _interruptible():
        try:
            with progress:
                stack.prepare()
                stack.start_servers()
            os.environ.update(stack.environment())
            for name, step in steps:
                step(load_settings())
                console.print(f"{name}: up to date", markup=False, highlight=False)
            if workers:
                stack.start_workers(workers)
                console.print(f"{len(workers)} workers are starting", markup=False, highlight=False)
            stack.is_whole()
            console.print(f"Running on {directory}; Ctrl-C stops it.", markup=False, highlight=False)
            ready(stack)
            _supervise(stack, console)
        except _Interrupted:
            console.print("Stopping.")
        finally:
            # A second Ctrl-C must not break the clean stop.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            stack.stop()


@contextmanager
def _interruptible() -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _Interrupted

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _supervise(stack: LocalStack, console: Console) -> None:
    told: dict[str, tuple[State, str]] = {}
    never = threading.Event()
    rounds = 0
    while not never.wait(LOOK_SECONDS):
        rounds += 1
        stack.check_servers(ready=rounds % CHECK_EVERY == 0)
        for status in stack.statuses():
            now = (status.state, status.detail)
            before, told[status.name] = told.get(status.name), now
            if now != before and (status.state in TROUBLE or (before is not None and before[0] in TROUBLE)):
                console.print(_sentence(status), markup=False, highlight=False)


def _sentence(status: ProcessStatus) -> str:
    return f"{status.name}: {status.state.value}" + (f" ({status.detail})" if status.detail else "")


def down() -> None:
    """Stop the stack of this state directory, in order, and wait until it has stopped."""
    state = StateDirectory(load_settings().state_dir)
    owner = state.owner()
    console = Console()
    if owner is None:
        console.print(f"No stack runs on {state.root}.", markup=False, highlight=False)
        return
    os.kill(owner, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_SECONDS
    while state.owner() is not None:
        if time.monotonic() > deadline:
            raise Broken(f"The stack on {state.root} (process {owner}) has not stopped in {DOWN_SECONDS:g} s.")
        time.sleep(0.1)
    console.print(f"Stopped {state.root}.", markup=False, highlight=False)


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show every server and worker; exit code 1 when the stack does not run or something in it is not ready."""
    state = StateDirectory(load_settings().state_dir)
    report = stack_report(state, _look_now)
    if as_json:
        sys.stdout.write(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    else:
        _show(report)
    ready = report["whole"] and all(entry["state"] == State.READY for entry in report["processes"])
    raise typer.Exit(0 if ready else 1)


def _look_now(environment: Mapping[str, str]) -> "Look | None":
    if "ENGRAM_KAFKA_BOOTSTRAP_SERVERS" not in environment:
        return None
    # The clients of Kafka and Postgres are loaded only when a stack runs: `status` without one answers at once.
    from infra.lag import look  # noqa: PLC0415

    os.environ.update(environment)
    return asyncio.run(look(load_settings()))


def stack_report(state: StateDirectory, looking: Looking = lambda _: None) -> dict[str, Any]:
    """Return what is known of a stack: ``running``, ``whole`` (everything was started), ``state_dir``, ``pid``,
    ``processes``, ``outbox``, ``conflicts``.

    ``looking(environment)`` gives the events that each process has still to read, and whom dead rows of the outbox hold back;
    what it does not know is ``None`` here.
    """
    owner = state.owner()
    snapshot = (state.snapshot() if owner is not None else None) or {}
    processes: list[dict[str, Any]] = snapshot.get("processes", [])
    look = looking(state.environment()) if owner is not None else None
    behind, outbox = (look.lags, look.outbox) if look is not None else ({}, None)
    conflicts = look.conflicts if look is not None else {}
    keys = ("name", "kind", "version", "port", "state", "pid", "restarts", "detail")
    report: dict[str, Any] = {
        "running": owner is not None,
        "whole": bool(snapshot.get("whole")),
        "state_dir": str(state.root),
        "pid": owner,
        "processes": [{**{key: entry[key] for key in keys}, "lag": behind.get(entry["name"])} for entry in processes],
        "outbox": None,
        "conflicts": conflicts,
    }
    for store, count in conflicts.items():
        _add_detail(report, worker_name(store), f"conflicts: {count} (engram conflicts)")
    if outbox is not None:
        held_back = [{"tenant_id": tenant_id, "user_id": user_id} for tenant_id, user_id in outbox.held_back]
        report["outbox"] = {
            "dead_rows": outbox.dead,
            "held_back_users": outbox.held_back_users,
            "held_back": held_back,
        }
        if outbox.dead:
            dead = f"dead rows: {outbox.dead}, users held back: {outbox.held_back_users} (engram outbox list)"
            _add_detail(report, worker_name("relay"), dead)
    return report


def _add_detail(report: dict[str, Any], name: str, said: str) -> None:
    for entry in report["processes"]:
        if entry["name"] == name:
            entry["detail"] = f"{entry['detail']}; {said}" if entry["detail"] else said


def _show(report: dict[str, Any]) -> None:
    console = Console()
    if not report["running"]:
        console.print(f"No stack runs on {report['state_dir']}.", markup=False, highlight=False)
        return
    table = Table("process", "version", "port", "state", "pid", "restarts", "lag", "detail", box=None)
    for entry in report["processes"]:
        cells = (entry[key] for key in ("name", "version", "port", "state", "pid", "restarts", "lag", "detail"))
        table.add_row(*("" if cell is None else str(cell) for cell in cells))
    console.print(table)
