"""``engram dead list``, ``show`` and ``replay``: inputs that were refused, and another try for them.

Entries: they read the environment and print tables or JSON, never what an input says. Exit codes: 0 done, 1 a letter that was
named could not be put back, 2 wrong use, 65 no such letter, 69 Kafka is away.
"""

import asyncio
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from infra.dead_log import Kept, Replayed, opened, replaying
from infra.durations import seconds_of
from infra.replay import explanation, obstacle, position_text
from schemas.codec import codec_of
from schemas.dead import DeadLetter
from schemas.inputs import Origin
from schemas.settings import Settings, load_settings

EXIT_NOT_DONE = 1
_POSITION = re.compile(r"(\d{1,9}):(\d{1,18})\Z", re.ASCII)

dead = typer.Typer(no_args_is_help=True, help="Inputs that were refused (memory.dead), and another try for them.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Stage = Annotated[str, typer.Option("--stage", help="Only what this stage refused, such as extract.")]
Code = Annotated[str, typer.Option("--code", help="Only letters with this code, such as bad_avro.")]
Since = Annotated[str, typer.Option("--since", help="Only letters not older than this, such as 2h.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="How many letters at most.")]


@dead.command("list")
def list_letters(
    *, stage: Stage = "", code: Code = "", since: Since = "", limit: Limit = 100, as_json: AsJson = False
) -> None:
    """List dead letters, newest first: where they stand and why they were refused; never what they say."""
    found = asyncio.run(_found(load_settings(), stage, code, since, limit))
    if as_json:
        typer.echo(msgspec.json.encode([_row(one) for one in found]).decode())
        return
    table = Table("position", "stage", "code", "tenant", "user", "age", "put back", "reason")
    now_ms = time.time_ns() // 1_000_000
    for one in found:
        letter = one.letter
        cells = (position_text(one.position), letter.stage, letter.code, letter.tenant_id, letter.user_id)
        age = age_text((now_ms - letter.at_ms) / 1000)
        table.add_row(*cells, age, "yes" if one.replays else "", letter.reason)
    Console().print(table)


@dead.command("show")
def show(
    position: Annotated[str, typer.Argument(metavar="PARTITION:OFFSET", help="As `list` shows it.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Say of one letter where its input came from, what its code means, and what can be done."""
    settings = load_settings()
    kept = asyncio.run(_one(settings, _position(position)))
    why_not = obstacle(kept.letter, settings.topic_prefix)
    said = {**_row(kept), "meaning": explanation(kept.letter.code), "cannot_be_replayed": why_not}
    if as_json:
        typer.echo(msgspec.json.encode(said).decode())
        return
    for name, value in said.items():
        if value not in ("", None, (), []):
            typer.echo(f"{name}: {value}")
    if not why_not:
        typer.echo(f"engram dead replay {position} puts it back.")


@dead.command("replay")
def replay(
    positions: Annotated[list[str] | None, typer.Argument(metavar="[PARTITION:OFFSET]...")] = None,
    *,
    stage: Stage = "",
    code: Code = "",
    since: Since = "",
    limit: Limit = 1_000,
    again: Annotated[bool, typer.Option("--again", help="Also what was put back before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put inputs back onto the topic they came from, as they were; their ids make them count once."""
    if bool(positions) is bool(code):
        raise typer.BadParameter("name letters, or say --code (and --stage, --since)")
    settings = load_settings()
    named = [_position(one) for one in positions or ()]
    done = asyncio.run(_replayed(settings, named, (stage, code, since, limit), again=again, dry_run=dry_run))
    if as_json:
        typer.echo(msgspec.json.encode([_said(one) for one in done]).decode())
    else:
        for one in done:
            verb = "would go to" if dry_run else "is now"
            said = f"{verb} {one.put_back_at}" if one.put_back_at else f"not put back: {one.why_not}"
            typer.echo(f"{position_text(one.position)} {said}")
        count = sum(bool(one.put_back_at) for one in done)
        typer.echo(f"{count} of {len(done)} {'can be ' if dry_run else ''}put back")
    if any(one.why_not for one in done):
        raise typer.Exit(EXIT_NOT_DONE)


async def _found(settings: Settings, stage: str, code: str, since: str, limit: int) -> tuple[Kept, ...]:
    since_ms = time.time_ns() // 1_000_000 - int(seconds_of(since) * 1000) if since else 0
    async with opened(settings, codec_of(settings)) as log:
        return await log.newest(_wanted(stage, code), limit, since_ms=since_ms)


async def _one(settings: Settings, position: Origin) -> Kept:
    async with opened(settings, codec_of(settings)) as log:
        return await log.at(position)


async def _replayed(
    settings: Settings,
    named: list[Origin],
    wanted: tuple[str, str, str, int],
    *,
    again: bool,
    dry_run: bool,
) -> tuple[Replayed, ...]:
    # The oldest first: what came first from a user is put back first.
    found = (
        [] if named else [one.position for one in reversed(await _found(settings, *wanted)) if again or not one.replays]
    )
    async with replaying(settings, codec_of(settings), time.time_ns() // 1_000_000) as replayer:
        return await replayer.replay(dict.fromkeys(named or found), again=again, dry_run=dry_run)


def _wanted(stage: str, code: str) -> Callable[[DeadLetter], bool]:
    return lambda letter: (not stage or letter.stage == stage) and (not code or letter.code == code)


def _position(text: str) -> Origin:
    found = _POSITION.match(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no position: say PARTITION:OFFSET, as `engram dead list` shows it")
    return Origin(int(found[1]), int(found[2]))


def _row(kept: Kept) -> dict[str, Any]:
    letter = kept.letter
    return {
        "position": position_text(kept.position),
        "stage": letter.stage,
        "code": letter.code,
        "reason": letter.reason,
        "tenant_id": letter.tenant_id,
        "user_id": letter.user_id,
        "event_id": letter.event_id,
        "at": datetime.fromtimestamp(letter.at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "came_from": f"{letter.topic} {letter.partition}:{letter.offset}",
        "put_back_at": list(kept.replays),
    }


def _said(one: Replayed) -> dict[str, str]:
    return {"position": position_text(one.position), "put_back_at": one.put_back_at, "why_not": one.why_not}


def age_text(seconds: float) -> str:
    """Return a length of time as people say it: ``12s``, ``5m``, ``3h``, ``2d``."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"
