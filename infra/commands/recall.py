"""``engram recall``: a question of one user, answered from memory.

An entry: reads the environment, opens the stores, prints a table or one JSON object. Exit codes: 0 something was found, 1
nothing was, 65 the question was refused, 69 Postgres does not answer. A store that is away costs its arm and is named.
"""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from recall.recall import recall as run_recall
from recall.requests import Hit, RecallRequest, RecallResponse
from recall.wiring import opened
from schemas.ids import user_id_of_name
from schemas.settings import Settings, load_settings

EXIT_NOTHING = 1


def recall(
    question: Annotated[str, typer.Argument(help="The question, in any language.")],
    tenant: Annotated[str, typer.Option("--tenant", help="The tenant.")],
    user: Annotated[str, typer.Option("--user", help="The user; a name in any language.")],
    *,
    limit: Annotated[int | None, typer.Option("--limit", min=1, max=100, help="How many memories at most.")] = None,
    category: Annotated[
        list[str] | None, typer.Option("--category", help="Only this category; may be repeated.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only this tag; may be repeated.")] = None,
    max_age_hours: Annotated[float | None, typer.Option("--max-age-hours", min=0.0, help="Only what is newer.")] = None,
    hops: Annotated[int | None, typer.Option("--hops", min=0, help="How far to walk in the graph.")] = None,
    include_tentative: Annotated[
        bool, typer.Option("--include-tentative", help="Also what is not confirmed yet.")
    ] = False,
    include_superseded: Annotated[bool, typer.Option("--include-superseded", help="Also what held earlier.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show how each score came about.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find what is remembered about a question."""
    request = RecallRequest(
        tenant_id=tenant,
        user_id=user_id_of_name(user),
        question=question,
        limit=limit,
        categories=tuple(category or ()),
        tags=tuple(tag or ()),
        max_age_hours=max_age_hours,
        include_superseded=include_superseded,
        include_tentative=include_tentative,
        max_hops=hops,
    )
    response = asyncio.run(_recall(load_settings(), request))
    if as_json:
        typer.echo(msgspec.json.encode(response).decode())
    else:
        _print(response, explain)
    if not response.hits:
        raise typer.Exit(EXIT_NOTHING)


async def _recall(settings: Settings, request: RecallRequest) -> RecallResponse:
    async with opened(settings) as deps:
        return await run_recall(request, deps)


def _print(response: RecallResponse, explain: bool) -> None:
    console = Console()
    if response.hits:
        table = Table("score", "memory", "category", "said", "confidence", "source", "id")
        for hit in response.hits:
            table.add_row(*_cells(hit))
        console.print(table)
    else:
        console.print("Nothing is remembered about this.")
    if explain:
        for hit in response.hits:
            console.print(_explanation(hit), markup=False, highlight=False)
    for arm in response.arms:
        if explain or arm.state not in ("answered", "skipped"):
            detail = f" ({arm.detail})" if arm.detail else ""
            line = f"{arm.arm}: {arm.state}, {arm.found} found in {arm.milliseconds:.0f} ms{detail}"
            console.print(line, style=None if arm.state in ("answered", "skipped") else "yellow", markup=False)
    if explain and response.dropped:
        dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(response.dropped.items()))
        console.print(f"dropped by the truth check: {dropped}", markup=False)


def _cells(hit: Hit) -> tuple[str, ...]:
    said = datetime.fromtimestamp(hit.stated_at_ms / 1000, UTC)
    marked = hit.snippet if hit.status == "active" else f"{hit.snippet} ({hit.status})"
    return (
        f"{hit.score.value:.2f}",
        marked,
        hit.category,
        f"{said:%Y-%m-%d}",
        f"{hit.confidence:.2f}",
        hit.source,
        f"{hit.memory_id} v{hit.version}",
    )


def _explanation(hit: Hit) -> str:
    parts = "; ".join(f"{part.arm} {part.similarity:.2f} ({part.reason})" for part in hit.score.parts)
    score = hit.score
    return (
        f"{hit.memory_id}: {score.value:.3f} = {score.form} with similarity {score.similarity:.2f}, "
        f"importance {score.importance:.2f}; found by {parts}"
    )
