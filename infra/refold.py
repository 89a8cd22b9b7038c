"""Everything around the fold of Postgres: who must be stopped before it, and where the workers go on after it.

Called by ``engram rebuild postgres``. The proposals after the last folded one are decided again, the sessions are made again from
the inputs, and each store begins a generation that no earlier one can be mistaken for.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from msgspec import Struct

from infra.commands.rewind import move_groups
from infra.roles.milvus import first_generation
from projectors.entries import STORES, Generation, Store
from projectors.generations import ROLE as PROJECTOR_ROLE
from projectors.generations import Detail, ensure_first
from projectors.names import group_name
from schemas.codec import codec_of
from schemas.settings import Settings
from schemas.topics import PROPOSALS
from streams.faust_stage import group_of
from streams.kafka_groups import group_names, nobody_in
from streams.key_store import KeyStore
from streams.log_watch import identities_here, identity_of
from streams.postgres import connected
from streams.refold import Refold
from streams.remember import ROLE

# A worker that was killed is a member of its group until its session ends.
STOPPED_SECONDS = 30.0


class Refolded(Struct, frozen=True):
    """What a run did: changes read, proposals folded, the generation that each store begins, and how long it took."""

    changes: int
    proposals: int
    generations: dict[Store, int]
    seconds: float


async def refold(settings: Settings, progress: Callable[[int, int], None]) -> Refolded:
    """Fold ``memory.changes`` into the configured database, which must be migrated and empty (or left by an earlier run).

    Raises ``Rejected`` (``not_empty``), ``Retryable`` (workers are running, a server is away) and ``Broken`` (a gap in the log).
    """
    started = time.monotonic()
    remember, working = group_of("remember", settings), group_of("working", settings)
    await nobody_in(settings, remember, working, seconds=STOPPED_SECONDS)
    async with AsyncExitStack() as resources:
        connection = await resources.enter_async_context(connected(settings, ROLE))
        keys = await KeyStore.open(settings)
        resources.push_async_callback(keys.close)
        known = await identities_here(settings, connection)
        identity = identity_of(known, PROPOSALS.named(settings.topic_prefix))
        run = Refold(settings, connection, keys, codec_of(settings), identity=identity, progress=progress)
        folded = await run.run()
        # Behind the last folded proposal, and at the beginning of the inputs: Postgres knows no session yet.
        await move_groups(settings, dry_run=False)
        generations = {store: await _new_generation(settings, store) for store in STORES}
        await run.finish()
    return Refolded(folded.changes, folded.proposals, generations, round(time.monotonic() - started, 3))


async def _new_generation(settings: Settings, store: Store) -> int:
    """Begin, as live, the generation after the last one that ever had a consumer group; return its number."""
    prefix = group_name(settings.topic_prefix, Generation(store, 0)).removesuffix("0")
    numbers = [name.removeprefix(prefix) for name in await group_names(settings, prefix)]
    number = max((int(text) for text in numbers if text.isdecimal()), default=0) + 1
    detail = await asyncio.to_thread(first_generation, settings) if store == "milvus" else Detail()
    async with connected(settings, PROJECTOR_ROLE) as connection:
        await ensure_first(connection, store, detail, time.time_ns() // 1_000_000, number=number)
    return number
