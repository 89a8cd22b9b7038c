"""The truth behind ``remember`` as a test asks it: the tables in memory, or the real Postgres past every policy."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import neighbours  # noqa: F401 - before the kits of other folders
from keys_in_memory import KeysInMemory
from model_system import CODEC
from postgres_in_memory import PoolInMemory
from truth_bench import Bench, opened
from truth_world import POLICY, TENANT, USER

from schemas.candidates import Vector
from schemas.inputs import Origin
from schemas.memories import Memory
from schemas.settings import Settings
from streams.changes import DecodedProposal
from streams.key_store import KeyStore
from streams.remember import Outcome, Remember
from streams.sealed_records import seal_record
from streams.stage import Input
from streams.vector_bytes import values_of


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything of one user that two truths must agree on; chance is left out (data keys, sealed bytes)."""

    memories: dict[str, Memory]
    versions: list[tuple[str, int, str]]
    vectors: dict[str, tuple[Vector, ...]]
    relations: set[tuple[str, str]]
    waiting: dict[str, str]
    outcomes: dict[str, str]
    outbox: list[tuple[str, str, int, str]]
    user_position: tuple[int, int] | None


class Truth(Protocol):
    """A running ``remember`` and the truth that it writes."""

    keys: KeyStore | KeysInMemory
    remember: Remember

    async def stored(self, user: str = USER) -> Stored: ...

    async def positions(self) -> dict[int, int]: ...


async def handle(truth: Truth, *proposals: tuple[DecodedProposal | bytes, int], partition: int = 0) -> list[Outcome]:
    """Let ``remember`` work on proposals that came together, each with its offset."""
    inputs = []
    for proposal, offset in proposals:
        value = proposal if isinstance(proposal, bytes) else await sealed(truth, proposal)
        inputs.append(Input(value, Origin(partition, offset)))
    return await truth.remember.handle(inputs)


async def sealed(truth: Truth, proposal: DecodedProposal) -> bytes:
    envelope = proposal.envelope
    if proposal.body is not None:
        (key,) = await truth.keys.mint(envelope.tenant_id, envelope.user_id, 1)
        envelope = msgspec.structs.replace(envelope, body=seal_record(CODEC, proposal.body, key))
    return CODEC.encode(envelope)


class TruthInMemory:
    def __init__(self, settings: Settings) -> None:
        self.pool = PoolInMemory()
        self.keys: KeyStore | KeysInMemory = KeysInMemory()
        pool: Any = self.pool
        keys: Any = self.keys
        self.remember = Remember(settings, pool, keys, CODEC, POLICY, topic_identity="cluster-1")

    async def stored(self, user: str = USER) -> Stored:
        tables, owner = self.pool.tables, (TENANT, user)
        queues = [tables.of_user(table, owner) for table in ("pending", "review", "quarantine")]
        return Stored(
            memories={name: tables.memory((*owner, name)) for name in tables.of_user("memories", owner)},
            versions=sorted((n[2], v, row.op) for (n, v), row in tables.history.items() if n[:2] == owner),
            vectors=tables.of_user("vectors", owner),
            relations={(n, row[4]) for n, rows in tables.of_user("relations", owner).items() for row in rows},
            waiting={name: entry.state for queue in queues for name, entry in queue.items()},
            outcomes={name: row.outcome for name, row in tables.of_user("outcomes", owner).items()},
            outbox=[
                (row.event_id, row.aggregate_id, row.aggregate_version, row.event_type)
                for _, row in sorted(tables.outbox.items())
                if (row.tenant_id, row.user_id) == owner
            ],
            user_position=tables.user_positions.get(owner),
        )

    async def positions(self) -> dict[int, int]:
        return {partition: offset for (_, partition), (_, offset) in self.pool.tables.positions.items()}


class TruthInPostgres:
    def __init__(self, bench: Bench) -> None:
        self._bench, self.remember = bench, bench.remember
        self.keys: KeyStore | KeysInMemory = bench.keys

    async def _rows(self, statement: str, user: str) -> list[tuple[Any, ...]]:
        return await self._bench.rows(statement, TENANT, user)

    async def stored(self, user: str = USER) -> Stored:
        of = "WHERE tenant_id = %s AND user_id = %s"
        waiting: dict[str, str] = {}
        for table in ("pending", "review", "quarantine"):
            waiting |= dict(await self._rows(f"SELECT entry_id::text, state FROM {table} {of}", user))
        vectors: dict[str, tuple[Vector, ...]] = {}
        for name, revision, sent in await self._rows(
            f"SELECT memory_id::text, revision, vector_send(vector) FROM memory_vectors {of} ORDER BY 1, 2", user
        ):
            vectors[name] = (*vectors.get(name, ()), Vector(revision, values_of(bytes(sent))))
        positions = await self._rows(f"SELECT origin_partition, origin_offset FROM user_positions {of}", user)
        return Stored(
            memories=await self._bench.memories(user_id=user),
            versions=sorted(await self._rows(f"SELECT memory_id::text, version, op FROM memory_history {of}", user)),
            vectors=vectors,
            relations=set(await self._rows(f"SELECT memory_id::text, object_id FROM relations {of}", user)),
            waiting=waiting,
            outcomes=dict(await self._rows(f"SELECT proposal_id, outcome FROM command_outcomes {of}", user)),
            outbox=await self._rows(
                "SELECT event_id::text, aggregate_id, aggregate_version, event_type FROM memory_outbox "
                f"{of} ORDER BY outbox_id",
                user,
            ),
            user_position=positions[0] if positions else None,
        )

    async def positions(self) -> dict[int, int]:
        return dict(await self._bench.rows("SELECT partition, last_offset FROM positions WHERE role = 'remember'"))


@asynccontextmanager
async def truth_in_postgres(settings: Settings) -> AsyncIterator[Truth]:
    async with opened(settings) as bench:
        yield TruthInPostgres(bench)
