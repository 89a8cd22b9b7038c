"""``engram lag``: how far every worker is behind, by partition; the outbox; the generations of the projections.

An entry: reads the environment and prints a table or JSON. It asks Kafka and Postgres, never the workers. Exit codes: 0 shown,
69 Kafka and Postgres are both away.
"""

import asyncio
import time
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from infra.commands.dead import age_text
from infra.lag import GroupLag, OutboxLag, group_lags, outbox_lag
from schemas.errors import EngramError, Retryable
from schemas.settings import Settings, load_settings

WATCH_SECONDS = 2.0


class Report(msgspec.Struct, frozen=True):
    """Everything that ``engram lag`` shows; ``outbox`` is ``None`` when Postgres did not answer."""

    groups: tuple[GroupLag, ...]
    outbox: OutboxLag | None


def lag(
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with every partition; with --watch, one line a look.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again every 2 s until Ctrl-C.")] = False,
) -> None:
    """Show what every worker has still to read or to publish, and how old the oldest of it is."""
    settings = load_settings()
    if as_json:
        typer.echo(msgspec.json.encode(_plain(report_now(settings))).decode())
        while watch:
            time.sleep(WATCH_SECONDS)
            typer.echo(msgspec.json.encode(_plain(report_now(settings))).decode())
        return
    shown = _shown(report_now(settings))
    if not watch:
        Console().print(shown)
        return
    with Live(shown, console=Console(), auto_refresh=False) as live:
        while True:
            time.sleep(WATCH_SECONDS)
            try:
                live.update(_shown(report_now(settings)), refresh=True)
            except Retryable as error:
                live.update(Text(str(error)), refresh=True)


def report_now(settings: Settings) -> Report:
    """Look once; raises ``Retryable`` when neither Kafka nor Postgres answers."""
    return asyncio.run(_look(settings))


async def _look(settings: Settings) -> Report:
    groups = await group_lags(settings, ages=True)
    try:
        return Report(groups, await outbox_lag(settings))
    except EngramError:
        if not groups:
            raise Retryable("neither Kafka nor Postgres answers") from None
        return Report(groups, None)


def _plain(report: Report) -> dict[str, Any]:
    groups = [
        {
            **{name: getattr(one, name) for name in ("role", "group", "topic", "generation", "state", "lag")},
            "oldest_age_seconds": one.oldest_age_seconds,
            "partitions": [{**msgspec.to_builtins(part), "lag": part.lag} for part in one.partitions],
        }
        for one in report.groups
    ]
    return {"groups": groups, "outbox": msgspec.to_builtins(report.outbox)}


def _shown(report: Report) -> RenderableType:
    table = Table("role", "group", "topic", "generation", "lag", "oldest", "partitions behind", box=None)
    for one in report.groups:
        number = f"{one.generation} ({one.state})" if one.generation is not None else ""
        behind = [part for part in one.partitions if part.lag]
        named = ", ".join(f"{part.partition}: {part.committed}/{part.end}" for part in behind[:6])
        more = f", and {len(behind) - 6} more" if len(behind) > 6 else ""
        age = one.oldest_age_seconds
        table.add_row(
            one.role, one.group, one.topic, number, str(one.lag), "" if age is None else age_text(age), named + more
        )
    if report.outbox is None:
        return Group(table, Text("outbox: Postgres does not answer"))
    outbox = report.outbox
    oldest = f", the oldest {age_text(outbox.oldest_age_seconds)} old" if outbox.waiting else ""
    said = (
        f"outbox: {outbox.waiting} rows waiting{oldest}; {outbox.held_back_users} users held; {outbox.dead} dead rows"
    )
    return Group(table, Text(said))
