"""``engram conflicts``: what a store shows otherwise than the log says, under the same version.

An entry: reads the environment and prints a table or JSON. ``engram reconcile --repair`` publishes the truth of them again, and
the run after it that finds no difference settles them. Exit codes: 0 none, 1 there are some, 69 Postgres is away.
"""

import asyncio
import time
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from infra.commands.dead import age_text
from infra.conflicts import open_conflicts
from schemas.settings import load_settings

EXIT_SOME = 1


def conflicts(
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="How many conflicts at most.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List conflicts that are not settled: whose they are, both versions and hashes; never what they say."""
    found = asyncio.run(open_conflicts(load_settings(), limit))
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
    elif not found:
        typer.echo("no conflicts")
    else:
        table = Table("store", "tenant", "user", "of", "version", "says", "store has", "times", "last")
        now_ms = time.time_ns() // 1_000_000
        for one in found:
            has = f"{one.stored_version} {one.stored_hash[:12]}"
            cells = (f"{one.store} {one.generation}", one.tenant_id, one.user_id, one.aggregate_id, str(one.version))
            last = f"{age_text((now_ms - one.last_at_ms) / 1000)} ago"
            table.add_row(*cells, one.event_hash[:12], has, str(one.times), last)
        Console().print(table)
        typer.echo(
            "engram reconcile --repair publishes the truth again; the next run without a difference settles them."
        )
    if found:
        raise typer.Exit(EXIT_SOME)
