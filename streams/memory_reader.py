"""Reads the truth for others: records, history, exact neighbours, and how far a user's inputs are remembered.

Called by the read path, the commands and the gateways, as ``engram_reader`` in the scope of one user. Never writes.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from schemas.candidates import Vector
from schemas.errors import Retryable
from schemas.ids import is_memory_id
from schemas.inputs import Origin
from schemas.memories import STATUSES, Memory
from schemas.settings import Settings
from streams.decision_state import LIVE
from streams.postgres import Connection, Pool, VectorParameter, borrowed, connect, pool, scoped, sql
from streams.postgres_truth import as_decided
from streams.vector_bytes import postgres_vector

ROLE = "engram_reader"
FIRST_ID = "00000000-0000-0000-0000-000000000000"
_POLL_SECONDS = (0.005, 0.01, 0.02, 0.05)


class MemoryVersion(Struct, frozen=True, kw_only=True):
    """One version of a memory: what happened, why, by whom, and the whole record (``None`` once it was erased)."""

    version: int
    event_id: str
    op: str
    status: str
    content_hash: str
    reason: str
    actor: str
    proposal_id: str
    source_event_id: str
    occurred_at_ms: int
    record: Memory | None


class MemoryReader:
    """Reads over a small pool; make one with ``open``, end it with ``close``.

    Every method raises ``Rejected`` (``bad_id``) for an id that is none, and ``Retryable`` when Postgres is away.
    """

    def __init__(self, connections: Pool) -> None:
        self._connections = connections

    @classmethod
    async def open(cls, settings: Settings, *, max_connections: int = 4) -> "MemoryReader":
        """Connect as ``engram_reader``."""
        return cls(await pool(settings, ROLE, max_connections))

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    async def memories(
        self, tenant_id: str, user_id: str, memory_ids: Sequence[str], *, statuses: Sequence[str] = LIVE
    ) -> dict[str, Memory]:
        """Return the memories of this user among ``memory_ids`` that have one of ``statuses``, by id."""
        known = [memory_id for memory_id in memory_ids if is_memory_id(memory_id)]
        names = {"memory_ids": known, "statuses": list(statuses)}
        found = [_record(row[0]) for row in await self._rows("records_by_id", tenant_id, user_id, names)]
        return {memory.memory_id: memory for memory in found}

    async def page(
        self,
        tenant_id: str,
        user_id: str,
        *,
        after: str = FIRST_ID,
        limit: int = 100,
        statuses: Sequence[str] = STATUSES,
    ) -> tuple[Memory, ...]:
        """Return at most ``limit`` memories in the order of ids, after the id of the page before."""
        names = {"after": after if is_memory_id(after) else FIRST_ID, "limit": limit, "statuses": list(statuses)}
        return tuple(_record(row[0]) for row in await self._rows("records_of_user", tenant_id, user_id, names))

    async def history(self, tenant_id: str, user_id: str, memory_id: str) -> tuple[MemoryVersion, ...]:
        """Return every version of a memory, oldest first; empty when this user has no such memory."""
        if not is_memory_id(memory_id):
            return ()
        rows = await self._rows("record_history", tenant_id, user_id, {"memory_id": memory_id})
        names = MemoryVersion.__struct_fields__[:-1]
        return tuple(
            MemoryVersion(**dict(zip(names, row, strict=False)), record=_record(row[-1]) if row[-1] else None)
            for row in rows
        )

    async def nearest(self, tenant_id: str, user_id: str, vector: Vector, limit: int) -> tuple[tuple[str, float], ...]:
        """Return (memory id, cosine similarity) of the active memories nearest to ``vector``, exact, best first."""
        parameter = VectorParameter(postgres_vector(vector.values))
        names = {"revision": vector.revision, "vector": parameter, "limit": limit}
        return tuple((row[0], row[1]) for row in await self._rows("nearest_memories", tenant_id, user_id, names))

    async def _rows(self, name: str, tenant_id: str, user_id: str, names: dict[str, Any]) -> list[tuple[Any, ...]]:
        async with borrowed(self._connections) as connection, scoped(connection, tenant_id, user_id):
            cursor = await connection.execute(sql(name), {**names, "tenant_id": tenant_id, "user_id": user_id})
            return await cursor.fetchall()


def _record(text: str) -> Memory:
    return as_decided(msgspec.json.decode(text, type=Memory))


async def remembered_up_to(connection: Connection, tenant_id: str, user_id: str) -> Origin | None:
    """Return the highest position in ``chat.turns`` whose proposal is decided for this user, ``None`` when there is none."""
    async with scoped(connection, tenant_id, user_id):
        names = {"tenant_id": tenant_id, "user_id": user_id}
        row = await (await connection.execute(sql("user_position"), names)).fetchone()
    return None if row is None else Origin(*row)


async def wait_for(settings: Settings, tenant_id: str, user_id: str, origin: Origin, *, timeout_seconds: float) -> None:
    """Return when the input at ``origin`` is remembered; raises ``Retryable`` after ``timeout_seconds``."""
    until = time.monotonic() + timeout_seconds
    connection = await connect(settings, ROLE)
    try:
        turn = 0
        while True:
            reached = await remembered_up_to(connection, tenant_id, user_id)
            if reached is not None and reached.offset >= origin.offset:
                return
            if time.monotonic() >= until:
                raise Retryable(
                    f"the input at offset {origin.offset} is not remembered after {timeout_seconds:.0f} s; it goes on in the "
                    "background"
                )
            await asyncio.sleep(_POLL_SECONDS[min(turn, len(_POLL_SECONDS) - 1)])
            turn += 1
    finally:
        await connection.close()
