"""``engram turn`` and ``engram import``: what a gateway does, from the command line.

Entries: they read the environment, build a producer, and say in one line what was sent.
"""

import asyncio
import gzip
import sys
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from schemas.errors import Rejected, Retryable
from schemas.ids import check_id, user_id_of_name
from schemas.inputs import Origin, TurnRecorded
from schemas.settings import Settings, load_settings
from streams.importers import FORMATS, ImportedTurn, ImportOptions, read_turns
from streams.key_store import KeyStore
from streams.producer import Receipt, Scope, TurnProducer, check_body
from streams.remembered import wait_for

IMPORT_LINGER_MS = 5
_IMPORT_CONNECTIONS = 8

Tenant = Annotated[str, typer.Option("--tenant", help="The tenant the turns belong to.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON line.")]
Wait = Annotated[bool, typer.Option("--wait", help="Return when everything sent is remembered.")]
WaitSeconds = Annotated[float, typer.Option("--wait-seconds", min=0.1, help="How long --wait waits at most.")]


def turn(
    text: Annotated[str, typer.Argument(help="What the user said.")],
    tenant: Tenant,
    user: Annotated[str, typer.Option("--user", help="The user; a name in any language.")],
    *,
    answer: Annotated[str | None, typer.Option("--answer", help="What the assistant answered.")] = None,
    session: Annotated[str, typer.Option("--session", help="The session it belongs to.")] = "command-line",
    event_id: Annotated[
        str | None, typer.Option("--event-id", help="Idempotency key; sending it twice does nothing.")
    ] = None,
    wait: Wait = False,
    wait_seconds: WaitSeconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Send one turn."""
    settings = load_settings()
    user_id = user_id_of_name(user)
    scope = Scope(
        tenant=tenant,
        user=user_id,
        session=session,
        event_id=event_id,
        timezone_offset=settings.tenant_timezone_offset,
        channel="command-line",
    )
    receipt = asyncio.run(_send_one(settings, scope, TurnRecorded(user_message=text, assistant_message=answer)))
    if wait:
        asyncio.run(wait_for(settings, tenant, user_id, receipt.position, timeout_seconds=wait_seconds))
    if as_json:
        _print_json(
            {
                "event_id": receipt.event_id,
                "user_id": user_id,
                "partition": receipt.position.partition,
                "offset": receipt.position.offset,
                "remembered": wait,
            }
        )
    else:
        done = "remembered" if wait else "sent"
        Console().print(f"{done}: {receipt.event_id}", highlight=False, markup=False)


async def _send_one(settings: Settings, scope: Scope, body: TurnRecorded) -> Receipt:
    async with AsyncExitStack() as resources:
        keys = await KeyStore.open(settings)
        resources.push_async_callback(keys.close)
        producer = await resources.enter_async_context(TurnProducer(settings, keys, name="engram-command-line"))
        return await producer.send(scope, body)


def import_file(
    file: Annotated[Path, typer.Argument(help="The file to import; .gz is unpacked.", exists=True, dir_okay=False)],
    file_format: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")],
    tenant: Tenant,
    user: Annotated[
        str | None, typer.Option("--user", help="Whose turns they are, where the file does not say.")
    ] = None,
    *,
    wait: Wait = False,
    wait_seconds: WaitSeconds = 600.0,
    as_json: AsJson = False,
) -> None:
    """Import a conversation file. The file is checked whole before the first turn is sent; importing it twice adds nothing."""
    settings = load_settings()
    check_id("tenant", tenant)
    turns = _read(file, file_format, ImportOptions(user, settings.tenant_timezone_offset))
    begun = time.monotonic()
    with _progress(hidden=as_json) as progress:
        asyncio.run(_import(settings, tenant, turns, progress, wait_seconds if wait else None))
    seconds = time.monotonic() - begun
    users = len({turn.user_id for turn in turns})
    if as_json:
        _print_json({"turns": len(turns), "users": users, "seconds": round(seconds, 3), "remembered": wait})
    else:
        done = "sent and remembered" if wait else "sent"
        Console().print(f"{len(turns)} turns of {users} users {done} in {seconds:.1f} s", highlight=False)


def _read(file: Path, file_format: str, options: ImportOptions) -> list[ImportedTurn]:
    try:
        raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError) as error:
        raise Rejected(f"{file.name} cannot be read: {error}", code="bad_file") from error
    try:
        turns = list(read_turns(raw, file_format, options))
        for each in turns:
            check_body(each.body)
    except Rejected as error:
        raise Rejected(f"{file.name}: {error}; nothing was imported", code=error.code) from error
    if not turns:
        raise Rejected(f"{file.name} has no turns; nothing was imported", code="bad_file")
    return turns


async def _import(
    settings: Settings, tenant: str, turns: list[ImportedTurn], progress: Progress, wait_seconds: float | None
) -> None:
    last: dict[str, Origin] = {}
    sending = progress.add_task("sending", total=len(turns))
    async with AsyncExitStack() as resources:
        keys = await KeyStore.open(settings, max_connections=_IMPORT_CONNECTIONS)
        resources.push_async_callback(keys.close)
        producer = await resources.enter_async_context(
            TurnProducer(settings, keys, name="engram-import", linger_ms=IMPORT_LINGER_MS)
        )

        def sent(user_id: str, future: "asyncio.Future[Receipt]") -> None:
            if not future.cancelled() and future.exception() is None:
                position = future.result().position
                last[user_id] = max(position, last.get(user_id, position))
                progress.advance(sending)

        for each in turns:
            scope = Scope(
                tenant=tenant,
                user=each.user_id,
                session=each.session,
                event_id=each.event_id,
                device_timestamp_ms=each.at_ms,
                timezone_offset=settings.tenant_timezone_offset,
                channel="import",
            )
            future = await producer.submit(scope, each.body)
            future.add_done_callback(partial(sent, each.user_id))
        await producer.flush()
    if wait_seconds is not None:
        await _wait_for_all(settings, tenant, last, progress, wait_seconds)


async def _wait_for_all(
    settings: Settings, tenant: str, last: dict[str, Origin], progress: Progress, wait_seconds: float
) -> None:
    waiting = progress.add_task("remembering", total=len(last))
    deadline = time.monotonic() + wait_seconds
    for user_id, position in last.items():
        left = deadline - time.monotonic()
        if left <= 0:
            raise Retryable(f"not everything was remembered within {wait_seconds:.0f} s; it goes on in the background")
        await wait_for(settings, tenant, user_id, position, timeout_seconds=left)
        progress.advance(waiting)


def _progress(*, hidden: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=hidden or not sys.stderr.isatty(),
    )


def _print_json(result: dict[str, object]) -> None:
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
