"""``engram outbox list`` and ``requeue``: rows that could not be published, and another set of tries for them.

Entries: they read the environment and print tables or JSON. A dead row holds back the later rows of its user, so that order
is kept; nothing is ever skipped. Exit codes: 0 done, 1 a row that was named is not dead, 2 wrong use, 69 Postgres is away.
"""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from schemas.settings import load_settings
from streams.postgres_outbox import dead_rows, requeue_dead

EXIT_NOT_DONE = 1

outbox = typer.Typer(no_args_is_help=True, help="What could not be published and waits for an operator.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@outbox.command("list")
def list_dead(
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many rows at most.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List the dead rows, oldest first: whose they are and why they failed; never what they carry."""
    found = asyncio.run(dead_rows(load_settings(), limit))
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    table = Table("row", "tenant", "user", "of", "version", "kind", "tries", "died", "why")
    for row in found:
        died = f"{datetime.fromtimestamp(row.died_at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
        cells = (row.outbox_id, row.tenant_id, row.user_id, row.aggregate_id, row.aggregate_version, row.event_type)
        table.add_row(*map(str, cells), str(row.attempts), died, row.last_error)
    Console().print(table)


@outbox.command("requeue")
def requeue(
    rows: Annotated[list[int] | None, typer.Argument(help="Numbers of dead rows, as `list` shows them.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every dead row.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give dead rows another set of tries, at their old place in the order of their user."""
    if bool(rows) is every:
        raise typer.BadParameter("name rows, or say --all")
    done = asyncio.run(requeue_dead(load_settings(), None if every else rows or ()))
    missing = sorted(set(rows or ()) - set(done))
    if as_json:
        typer.echo(msgspec.json.encode({"requeued": done, "not_dead": missing}).decode())
    else:
        said = f"{len(done)} rows requeued" + (f"; not dead: {', '.join(map(str, missing))}" if missing else "")
        Console().print(said, markup=False, highlight=False)
    if missing:
        raise typer.Exit(EXIT_NOT_DONE)
