"""Sends turns as a gateway does and follows them to the commit.

Called by the groups of the write path.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from bench.ground import administrator
from bench.texts import TENANT, BenchTurn
from schemas.errors import Broken
from schemas.inputs import TurnRecorded
from schemas.settings import Settings
from streams.key_store import KeyStore
from streams.postgres import OUTBOX_CHANNEL, Connection
from streams.producer import Receipt, Scope, TurnProducer

POSITIONS = "SELECT user_id, origin_offset FROM user_positions WHERE tenant_id = %s"
SILENT_SECONDS = 60.0
SENDERS = 16


@dataclass(slots=True)
class Watch:
    """Sees commits: ``seen`` has (user, offset remembered up to, when by ``time.perf_counter``), in order of time."""

    connection: Connection
    seen: list[tuple[str, int, float]] = field(default_factory=list)
    reached: dict[str, int] = field(default_factory=dict)
    moved_at: float = field(default_factory=time.perf_counter)

    async def follow(self, stop: asyncio.Event) -> None:
        """Look at the positions at each signal of a commit: the signal is sent by Postgres the moment it commits."""
        await self.connection.execute(f"LISTEN {OUTBOX_CHANNEL}")
        while not stop.is_set():
            async for _ in self.connection.notifies(timeout=0.2, stop_after=1):
                pass
            await self.look()

    async def look(self) -> None:
        """Note which users have moved on."""
        rows = await (await self.connection.execute(POSITIONS, (TENANT,))).fetchall()
        now = time.perf_counter()
        for user, offset in rows:
            if self.reached.get(user, -1) < offset:
                self.reached[user] = offset
                self.seen.append((user, offset, now))
                self.moved_at = now


@asynccontextmanager
async def watching(settings: Settings) -> AsyncIterator[Watch]:
    """Follow the commits of an area while the context lasts."""
    connection = await administrator(settings)
    watch, stop = Watch(connection), asyncio.Event()
    task = asyncio.create_task(watch.follow(stop))
    try:
        yield watch
    finally:
        stop.set()
        await task
        await connection.close()


@asynccontextmanager
async def gateway(settings: Settings) -> AsyncIterator[TurnProducer]:
    """Yield a connected producer with the key store behind it."""
    async with AsyncExitStack() as resources:
        keys = await KeyStore.open(settings)
        resources.push_async_callback(keys.close)
        yield await resources.enter_async_context(TurnProducer(settings, keys, name="engram-bench"))


def scope_of(turn: BenchTurn, event_id: str) -> Scope:
    """Return whose turn it is."""
    return Scope(tenant=TENANT, user=turn.user, session=turn.session, event_id=event_id)


def body_of(turn: BenchTurn) -> TurnRecorded:
    """Return what was said."""
    return TurnRecorded(user_message=turn.user_message, assistant_message=turn.assistant_message or None)


async def send_all(producer: TurnProducer, turns: Sequence[BenchTurn], mark: str) -> dict[str, int]:
    """Send the turns as fast as the producer takes them; return the last offset of each user."""
    last: dict[str, int] = {}
    queues: list[list[tuple[int, BenchTurn]]] = [[] for _ in range(SENDERS)]
    for number, turn in enumerate(turns):
        # One user's turns go through one sender, so that they keep their order.
        queues[hash(turn.user) % SENDERS].append((number, turn))

    async def send(queue: Sequence[tuple[int, BenchTurn]]) -> None:
        for number, turn in queue:
            receipt: Receipt = await producer.send(scope_of(turn, f"{mark}-{number}"), body_of(turn))
            last[turn.user] = max(last.get(turn.user, -1), receipt.position.offset)

    await asyncio.gather(*map(send, queues))
    return last


async def remembered(watch: Watch, last: dict[str, int]) -> float:
    """Return when (by ``time.perf_counter``) the last of these offsets was committed; raises ``Broken`` when it stands still."""
    while any(watch.reached.get(user, -1) < offset for user, offset in last.items()):
        if time.perf_counter() - watch.moved_at > SILENT_SECONDS:
            raise Broken(f"nothing was remembered for {SILENT_SECONDS:.0f} s")
        await asyncio.sleep(0.02)
    return max(at for user, offset, at in watch.seen if user in last and offset >= last[user])
