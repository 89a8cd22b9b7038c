"""``engram rewind``: lets the stages that keep positions in Postgres read on from there, after Postgres was restored.

An entry: reads the environment, moves offsets of consumer groups, prints what it did. Kafka's groups stand where the old database
was; without this, what was decided between the back-up and now would be missing. Exit codes: 0 done, 65 a worker still runs,
69 Kafka or Postgres is away.
"""

import asyncio
from typing import Annotated

import msgspec
import typer

from infra.lag import STAGES
from reconcile.postgres import ROLE
from schemas.errors import Rejected
from schemas.settings import Settings, load_settings
from streams.faust_stage import group_of
from streams.kafka import TopicPartition, committed_offsets, consumer, started, try_commit
from streams.postgres import connected, translated

KEEPERS = ("remember", "working")


class Moved(msgspec.Struct, frozen=True):
    """One partition of a group: the next offset that the group would have read, and the one it reads now."""

    role: str
    partition: int
    before: int
    after: int


def rewind(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """After a restore of Postgres: let `remember` and `working`, which must be stopped, read on from where it stands.

    What they read again and the database knows already changes nothing.
    """
    moved = asyncio.run(move_groups(load_settings(), dry_run=dry_run))
    if as_json:
        typer.echo(msgspec.json.encode(moved).decode())
        return
    for one in moved:
        typer.echo(f"{one.role}, partition {one.partition}: from {one.before} to {one.after}")
    typer.echo(f"{len(moved)} partitions {'would be ' if dry_run else ''}moved")


async def move_groups(settings: Settings, *, dry_run: bool) -> tuple[Moved, ...]:
    """Commit for each group the offsets behind what Postgres knows; return the partitions that stood elsewhere.

    Raises ``Rejected`` (``running``) while a member of the group runs, and ``Retryable``.
    """
    moves = []
    for role in KEEPERS:
        topic, group = STAGES[role].named(settings.topic_prefix), group_of(role, settings)
        committed = await committed_offsets(settings, group, [topic])
        known = await _positions(settings, role)
        wanted = dict.fromkeys(committed, 0) | {
            TopicPartition(topic, number): offset for number, offset in known.items()
        }
        moves.append((role, group, committed, wanted))
    if not dry_run:
        # A group whose members run takes no offsets from outside. All are asked before any is moved.
        for role, group, committed, _ in moves:
            await _commit(settings, group, role, committed)
        for role, group, _, wanted in moves:
            await _commit(settings, group, role, wanted)
    return tuple(
        Moved(role, where.partition, committed.get(where, 0), offset)
        for role, _, committed, wanted in moves
        for where, offset in sorted(wanted.items())
        if committed.get(where, 0) != offset
    )


async def _positions(settings: Settings, role: str) -> dict[int, int]:
    """Return the next offset that ``role`` has still to handle, by partition."""
    async with connected(settings, ROLE) as connection:
        with translated():
            asked = "SELECT partition, last_offset + 1 FROM positions WHERE role = %s"
            return dict(await (await connection.execute(asked, (role,))).fetchall())


async def _commit(settings: Settings, group: str, role: str, offsets: dict[TopicPartition, int]) -> None:
    if not offsets:
        return
    async with started(consumer(settings, group=group)) as client:
        client.assign(list(offsets))
        if not await try_commit(client, offsets):
            raise Rejected(f"a worker of {role} still runs: stop the workers first", code="running")
