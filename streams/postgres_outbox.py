"""The outbox in Postgres as the relay sees it: owned shards, claims in order of commit, snapshots, done, failed, dead.

Called by the relay, over one connection in autocommit mode that also holds the locks of the shards: when it is lost, so is
the right to publish. Knows nothing of Kafka.
"""

import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from msgspec import Struct

from schemas.candidates import Vector
from schemas.ids import is_memory_id
from schemas.settings import Settings
from streams.postgres import OUTBOX_CHANNEL, Connection, connect, connected, sql, translated
from streams.publication import OutboxRow, Snapshot, Truth, snapshot_of, working_event_of
from streams.vector_bytes import values_of

ROLE = "engram_relay"
_LOOK_SECONDS = 0.5
_FULL_SCAN_SECONDS = 60.0


class Outbox:
    """Owns shards and hands out their rows.

    ``_floor`` is a number below which no row can appear any more and all rows are published or held, so that a claim does
    not pass over what was deleted while some long transaction keeps it from being cleaned.
    """

    def __init__(self, connection: Connection, partitions: int, limit: int) -> None:
        self._connection = connection
        self._partitions = partitions
        self._limit = limit
        self._shards: set[int] = set()
        self._held: frozenset[str] = frozenset()
        self._floor = 0
        self._looked_at = float("-inf")
        self._scanned_at = float("-inf")
        self._mark: tuple[int, int] | None = None
        self._settled = 0

    @classmethod
    async def open(cls, settings: Settings) -> "Outbox":
        """Connect and listen for the writers' signal; raises ``Retryable`` when Postgres is away."""
        connection = await connect(settings, ROLE, autocommit=True)
        try:
            with translated():
                await connection.execute(f"LISTEN {OUTBOX_CHANNEL}")
        except BaseException:
            await connection.close()
            raise
        return cls(connection, settings.partitions, settings.relay_claim_rows)

    async def close(self) -> None:
        """Give up the shards."""
        await self._connection.close()

    @property
    def shards(self) -> frozenset[int]:
        """The shards that this session owns."""
        return frozenset(self._shards)

    async def take_shards(self) -> None:
        """Try to own the shards that nobody owns."""
        wanted = sorted(set(range(self._partitions)) - self._shards)
        if not wanted:
            return
        with translated():
            cursor = await self._connection.execute(sql("outbox_lock_shard"), {"shards": wanted})
            taken = {row[0] for row in await cursor.fetchall()}
        if taken:
            self._shards |= taken
            self._floor = 0

    async def claim(self) -> list[OutboxRow]:
        """Return the next rows in order of commit, at most the claim limit; empty when there are none."""
        if not self._shards:
            return []
        await self._look()
        settled = self._settled
        rows = await self._claimed(self._floor)
        # Everything up to ``settled`` was visible to this claim: what it did not return is published or held.
        first = rows[0].outbox_id - 1 if rows else settled
        self._floor = max(self._floor, min(settled, first))
        return rows

    async def claim_behind(self, rows: Sequence[OutboxRow]) -> list[OutboxRow]:
        """Return the rows behind those of the last claim, which are still being published; empty when it is time to look.

        Only a whole claim has more behind it. What was committed late with a lower number, or is due again, is found by the
        next ``claim``: it looks.
        """
        if len(rows) < self._limit or time.monotonic() >= self._looked_at + _LOOK_SECONDS:
            return []
        return await self._claimed(rows[-1].outbox_id)

    async def _claimed(self, floor: int) -> list[OutboxRow]:
        names = {
            "floor": floor,
            "shards": sorted(self._shards),
            "held": sorted(self._held),
            "nobody_held": not self._held,
            "limit": self._limit,
        }
        with translated():
            cursor = await self._connection.execute(sql("outbox_claim"), names, binary=True)
            return [OutboxRow(*row) for row in await cursor.fetchall()]

    async def _look(self) -> None:
        """Now and then: who is held, which row is due again, and below which number everything is settled."""
        now = time.monotonic()
        if now < self._looked_at + _LOOK_SECONDS:
            return
        self._looked_at = now
        with translated():
            found = await (await self._connection.execute(sql("outbox_look"))).fetchone()
            # Asked for after the last number: whoever was given that one has begun by now.
            seen = await (await self._connection.execute(sql("outbox_transactions"))).fetchone()
        if found is None or seen is None:
            return
        (held, due, number), (oldest, following) = found, seen
        self._held = frozenset(held)
        if self._mark is not None and oldest >= self._mark[1]:
            self._settled = max(self._settled, self._mark[0])
            self._mark = None
        if self._mark is None:
            self._mark = (number, following)
        if due is not None:
            self._floor = min(self._floor, due - 1)
        if now > self._scanned_at + _FULL_SCAN_SECONDS:
            # A statement that took its number before its transaction had one could hide below the floor.
            self._scanned_at = now
            self._floor = 0

    async def truth_of(self, rows: Sequence[OutboxRow]) -> Truth:
        """Return the current state of everything that ``rows`` publish: one query each for records, vectors and events."""
        snapshots = await self._snapshots([row for row in rows if row.wants_snapshot])
        repaired = [row for row in rows if row.wants_working_event]
        events = {}
        if repaired:
            names = {
                "tenant_ids": [row.tenant_id for row in repaired],
                "user_ids": [row.user_id for row in repaired],
                "event_ids": [row.aggregate_id for row in repaired],
            }
            with translated():
                cursor = await self._connection.execute(sql("outbox_working_events"), names, binary=True)
                events = {row[0]: working_event_of(row) for row in await cursor.fetchall()}
        return Truth(snapshots, events)

    async def _snapshots(self, rows: Sequence[OutboxRow]) -> dict[str, Snapshot]:
        if not rows:
            return {}
        # An orphan of a store can have any name; only a memory's id can have a row here.
        wanted = sorted(
            {(row.tenant_id, row.user_id, row.aggregate_id) for row in rows if is_memory_id(row.aggregate_id)}
        )
        names = {
            "tenant_ids": ",".join(tenant_id for tenant_id, _, _ in wanted),
            "user_ids": ",".join(user_id for _, user_id, _ in wanted),
            "memory_ids": ",".join(memory_id for _, _, memory_id in wanted),
        }
        with translated():
            cursor = await self._connection.execute(sql("outbox_snapshots"), names, binary=True)
            return snapshots_of(await cursor.fetchall())

    async def done(self, rows: Sequence[OutboxRow]) -> None:
        """Remove rows whose messages were acknowledged."""
        numbers = "{" + ",".join(str(row.outbox_id) for row in rows) + "}"
        with translated():
            await self._connection.execute(sql("outbox_done"), {"outbox_ids": numbers})

    async def failed(self, row: OutboxRow, error: str, delay_seconds: float) -> None:
        """Let a row and its user wait ``delay_seconds``."""
        names = {"outbox_id": row.outbox_id, "error": error, "delay_seconds": delay_seconds}
        with translated():
            await self._connection.execute(sql("outbox_failed"), names)
        self._looked_at = float("-inf")

    async def bury(self, row: OutboxRow, error: str) -> None:
        """Put a row among the dead; its user waits until an operator requeues it."""
        with translated():
            await self._connection.execute(sql("outbox_bury"), {"outbox_id": row.outbox_id, "error": error})
        self._looked_at = float("-inf")

    async def wait(self, seconds: float) -> bool:
        """Return when a writer signals, or after ``seconds``, and whether there was a signal since the last wait."""
        signalled = False
        with translated():
            async with aclosing(self._connection.notifies(timeout=seconds, stop_after=1)) as signals:
                async for _ in signals:
                    signalled = True
        return signalled


def snapshots_of(lines: Sequence[tuple[Any, ...]]) -> dict[str, Snapshot]:
    """Return the snapshots by memory id from the lines of ``outbox_snapshots.sql``, their vectors in order of revision."""
    vectors: dict[str, list[Vector]] = {}
    chosen: dict[str, tuple[str, str, str, int, str]] = {}
    for memory_id, record_json, op, event_id, occurred_at_ms, proposal_id, revision, vector in lines:
        chosen[memory_id] = (record_json, op, event_id, occurred_at_ms, proposal_id)
        if revision is not None:
            vectors.setdefault(memory_id, []).append(Vector(revision, values_of(vector)))
    return {
        memory_id: snapshot_of(columns, tuple(sorted(vectors.get(memory_id, ()), key=lambda one: one.revision)))
        for memory_id, columns in chosen.items()
    }


class DeadRow(Struct, frozen=True):
    """A row that failed too often, without what it carries; ``died_at_ms`` is milliseconds since the epoch."""

    outbox_id: int
    tenant_id: str
    user_id: str
    aggregate_id: str
    aggregate_version: int
    event_type: str
    target: str
    attempts: int
    last_error: str
    died_at_ms: int


class Standing(Struct, frozen=True):
    """How the outbox stands: rows to publish, dead rows, and whom those hold back.

    ``held_back`` has (tenant, user), the longest waiting first and not more than were asked for; ``held_back_users`` counts all.
    """

    waiting: int = 0
    dead: int = 0
    held_back_users: int = 0
    held_back: tuple[tuple[str, str], ...] = ()


async def standing(settings: Settings, users_at_most: int) -> Standing:
    """Return how the outbox stands; raises ``Retryable`` when Postgres is away."""
    async with connected(settings, ROLE) as connection:
        with translated():
            counts = await (await connection.execute(sql("outbox_waiting"))).fetchone()
            held = await (await connection.execute(sql("outbox_held_back"), {"limit": users_at_most})).fetchall()
    waiting, dead = counts or (0, 0)
    return Standing(waiting, dead, held[0][2] if held else 0, tuple((row[0], row[1]) for row in held))


async def dead_rows(settings: Settings, limit: int) -> tuple[DeadRow, ...]:
    """Return at most ``limit`` dead rows, oldest first; raises ``Retryable`` when Postgres is away."""
    async with connected(settings, ROLE) as connection:
        with translated():
            cursor = await connection.execute(sql("outbox_dead_list"), {"limit": limit})
            return tuple(DeadRow(*row) for row in await cursor.fetchall())


async def requeue_dead(settings: Settings, outbox_ids: Sequence[int] | None) -> tuple[int, ...]:
    """Give dead rows (``None``: all) another set of tries at their old place; return the numbers that were found."""
    async with connected(settings, ROLE) as connection:
        with translated():
            names = {"all": outbox_ids is None, "outbox_ids": list(outbox_ids or ())}
            cursor = await connection.execute(sql("outbox_requeue"), names)
            return tuple(sorted(row[0] for row in await cursor.fetchall()))
