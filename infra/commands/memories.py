"""``engram memories``, ``engram pending`` and ``engram quarantine``: what is remembered, waits and was refused, of one user.

Entries: they read the environment and print tables or JSON. Forgetting and restoring take the way of every change: a
proposal in the log, decided by ``remember``. Exit codes: 0 done, 1 the command was not carried out, 65 refused input (such as
an id that this user does not have), 69 a server does not answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from recall.live import LiveMemory
from recall.postgres import ROLE, Reader
from schemas.ids import check_id, user_id_of_name
from schemas.proposals import Command
from schemas.settings import Settings, load_settings
from streams.changes import CommandOutcome
from streams.commands import command_proposal, send_command, wait_for_outcome
from streams.key_store import KeyStore
from streams.postgres import connect, pool

R = TypeVar("R")
EXIT_NOT_DONE = 1
ACCEPTED = "accepted"
ACTOR = "operator"

memories = typer.Typer(no_args_is_help=True, help="What is remembered of one user.")
pending = typer.Typer(no_args_is_help=True, help="What waits for a confirmation.")
quarantine = typer.Typer(no_args_is_help=True, help="What was refused and kept for review.")

Tenant = Annotated[str, typer.Option("--tenant", help="The tenant.")]
User = Annotated[str, typer.Option("--user", help="The user; a name in any language.")]
MemoryId = Annotated[str, typer.Argument(help="The id of the memory.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many rows at most.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the history.")]
WaitSeconds = Annotated[float, typer.Option("--wait-seconds", min=0.1, help="How long to wait for the outcome.")]
State = Annotated[str, typer.Option("--state", help="Only entries in this state; an empty text means all.")]


@memories.command("list")
def list_memories(
    tenant: Tenant,
    user: User,
    *,
    status: Annotated[list[str] | None, typer.Option("--status", help="Only this status; may be repeated.")] = None,
    category: Annotated[
        list[str] | None, typer.Option("--category", help="Only this category; may be repeated.")
    ] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List the memories of a user, newest statement first; without --status those that hold now."""
    statuses = tuple(status or ("active", "tentative", "review"))
    found = _read(tenant, user, lambda reader: reader.listed(statuses=statuses, categories=category or (), limit=limit))
    rows = [
        (
            memory.memory_id,
            f"v{memory.version}",
            memory.status,
            memory.category,
            memory.content,
            f"{memory.confidence:.2f}",
            memory.source,
            _when(memory.stated_at_ms),
        )
        for memory in found
    ]
    _show(("id", "version", "status", "category", "memory", "confidence", "source", "said"), rows, found, as_json)


@memories.command("show")
def show_memory(memory_id: MemoryId, tenant: Tenant, user: User, *, as_json: AsJson = False) -> None:
    """Show one memory with its edges."""

    async def read(reader: Reader) -> tuple[LiveMemory, list[Any]]:
        return await reader.memory(memory_id), [msgspec.to_builtins(edge) for edge in await reader.edges(memory_id)]

    memory, edges = _read(tenant, user, read)
    fields: dict[str, Any] = {**msgspec.to_builtins(memory), "edges": edges}
    if as_json:
        typer.echo(msgspec.json.encode(fields).decode())
        return
    table = Table("field", "value")
    for name, value in fields.items():
        shown = _when(value) if name.endswith("_ms") and value is not None else value
        table.add_row(name, "" if shown is None else str(shown))
    Console().print(table)


@memories.command("history")
def show_history(memory_id: MemoryId, tenant: Tenant, user: User, *, as_json: AsJson = False) -> None:
    """Show every version of a memory: what it said, who changed it, why, and from which input."""

    async def read(reader: Reader) -> list[dict[str, Any]]:
        await reader.memory(memory_id)
        return [
            dict(zip(names, row, strict=True)) for row in await reader.rows("memory_history", {"memory_id": memory_id})
        ]

    names = ("version", "op", "status", "reason", "actor", "source", "at_ms", "content", "content_hash")
    found = _read(tenant, user, read)
    rows = [
        (
            str(one["version"]),
            one["op"],
            one["status"],
            one["content"] or "",
            one["actor"],
            one["reason"],
            one["source"],
            _when(one["at_ms"]),
        )
        for one in found
    ]
    _show(("version", "change", "status", "memory", "actor", "reason", "input", "at"), rows, found, as_json)


@memories.command("forget")
def forget(
    memory_id: MemoryId,
    tenant: Tenant,
    user: User,
    *,
    reason: Reason = "",
    wait_seconds: WaitSeconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Forget a memory: it leaves every answer and every store; `restore` brings it back."""
    _command("forget", tenant, user, memory_id, reason, wait_seconds=wait_seconds, as_json=as_json)


@memories.command("restore")
def restore(
    memory_id: MemoryId,
    tenant: Tenant,
    user: User,
    *,
    reason: Reason = "",
    wait_seconds: WaitSeconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Bring a forgotten memory back."""
    _command("restore", tenant, user, memory_id, reason, wait_seconds=wait_seconds, as_json=as_json)


@pending.command("list")
def list_pending(
    tenant: Tenant, user: User, *, state: State = "waiting", limit: Limit = 100, as_json: AsJson = False
) -> None:
    """List candidates of low confidence that wait for a confirmation."""
    names = ("id", "memory", "confidence", "reason", "since", "until", "state")
    found = _read(tenant, user, lambda reader: reader.rows("pending_list", {"state": state, "limit": limit}))
    rows = [(row[0], row[1], f"{row[2]:.2f}", row[3], _when(row[4]), _when(row[5]), row[6]) for row in found]
    _show(names, rows, [dict(zip(names, row, strict=True)) for row in found], as_json)


@quarantine.command("list")
def list_quarantine(
    tenant: Tenant, user: User, *, state: State = "waiting", limit: Limit = 100, as_json: AsJson = False
) -> None:
    """List refused content: which gate and rule, and a masked excerpt."""
    names = ("id", "gate", "rule", "outcome", "side", "excerpt", "at", "state")
    found = _read(tenant, user, lambda reader: reader.rows("quarantine_list", {"state": state, "limit": limit}))
    rows = [(*row[:6], _when(row[6]), row[7]) for row in found]
    _show(names, rows, [dict(zip(names, row, strict=True)) for row in found], as_json)


def _read(tenant: str, user: str, work: Callable[[Reader], Awaitable[R]]) -> R:
    async def read() -> R:
        connections = await pool(load_settings(), ROLE, 1)
        try:
            return await work(Reader(connections, check_id("tenant", tenant), user_id_of_name(user)))
        finally:
            await connections.close()

    return asyncio.run(read())


def _command(
    kind: str, tenant: str, user: str, memory_id: str, reason: str, *, wait_seconds: float, as_json: bool
) -> None:
    check_id("tenant", tenant)
    scope = (tenant, user_id_of_name(user))
    outcome = asyncio.run(_sent(load_settings(), kind, scope, memory_id, reason=reason, wait_seconds=wait_seconds))
    if as_json:
        typer.echo(msgspec.json.encode(outcome).decode())
    else:
        because = f": {outcome.reason}" if outcome.reason else ""
        Console().print(f"{kind} {memory_id}: {outcome.outcome}{because}", markup=False, highlight=False)
    if outcome.outcome != ACCEPTED:
        raise typer.Exit(EXIT_NOT_DONE)


async def _sent(
    settings: Settings, kind: str, scope: tuple[str, str], memory_id: str, *, reason: str, wait_seconds: float
) -> CommandOutcome:
    async with AsyncExitStack() as resources:
        connections = await pool(settings, ROLE, 1)
        resources.push_async_callback(connections.close)
        memory = await Reader(connections, *scope).memory(memory_id)
        keys = await KeyStore.open(settings, max_connections=1)
        resources.push_async_callback(keys.close)
        proposal = command_proposal(kind, *scope, actor=ACTOR, expected_versions={memory_id: memory.version})
        command = Command(memory_ids=(memory_id,), before_ms=proposal.occurred_at_ms, reason=reason)
        await send_command(settings, keys, proposal, command)
        connection = await connect(settings, ROLE)
        resources.push_async_callback(connection.close)
        return await wait_for_outcome(connection, *scope, proposal.proposal_id, wait_seconds=wait_seconds)


def _show(names: Sequence[str], rows: Sequence[Sequence[str]], plain: object, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(plain).decode())
        return
    table = Table(*names)
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    Console().print(table)


def _when(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
