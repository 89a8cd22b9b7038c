"""The whole system in one process: the real code of every stage between fakes of the log, Postgres, the stores and the keys.

A step is what one process does between two points at which it can die; a crash is an exception that no code catches. After
one, a process begins again with nothing but what it had committed.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec
import neighbours  # noqa: F401 - before the kits of other folders
from keys_in_memory import KeysInMemory
from log_in_memory import Group, LogInMemory
from postgres_in_memory import PoolInMemory
from relay_edges import Meanwhile, OutboxInMemory, ProducerInMemory
from simulated_crash import CrashAt, SimulatedCrash
from store_in_memory import Projecting, StoreInMemory
from truth_world import POLICY

from projectors.entries import STORES, Generation, Store
from projectors.mapping import InfluxMapping, Mapping, MilvusMapping, Neo4jMapping
from projectors.payloads import payload_opener
from schemas.codec import Codec
from schemas.ids import derived_id, routing_key
from schemas.inputs import Origin
from schemas.proposals import Proposal
from schemas.routing import partition_of
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS, PROPOSALS
from schemas.working import WorkingEvent, WorkingPayload
from streams.changes import DecodedProposal
from streams.crash import CrashPoints
from streams.relay import Relay
from streams.remember import Outcome, Remember
from streams.sealed_records import seal_record
from streams.stage import Input

CODEC = Codec()
PARTITIONS = 2
REVISION, DIMENSION = "test-1", 4
SETTINGS = Settings(partitions=PARTITIONS, topic_prefix="")
START_MS = 1_700_000_000_000
EVERYTHING = 1_000_000
Answer = TypeVar("Answer")
User = tuple[str, str]


class System:
    """Everything that keeps data, and the steps that move it on."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Begin with empty stores of a generation each, or, inside a running ``loop``, with none."""
        self.loop = loop or asyncio.new_event_loop()
        self.now_ms = START_MS
        self.log = LogInMemory(PARTITIONS)
        self.pool = PoolInMemory()
        self.keys = KeysInMemory()
        self.stores: dict[Store, StoreInMemory] = {store: StoreInMemory(store) for store in STORES}
        self.projecting: dict[Store, list[Projecting]] = {store: [] for store in STORES}
        self.turns = Group(self.log, CHAT_TURNS.name)
        self.proposals = Group(self.log, PROPOSALS.name)
        self.said: dict[tuple[int, int], DecodedProposal] = {}
        self.proposed: dict[tuple[int, int], DecodedProposal | None] = {}
        self.texts: dict[str, str] = {}
        self._remember = self._new_remember()
        if loop is None:
            for store in STORES:
                self.run(self.begin(store, "live"))

    def close(self) -> None:
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Do ``work`` until it ends or its process dies."""
        return self.loop.run_until_complete(work)

    # What comes in

    def say(self, proposal: DecodedProposal) -> DecodedProposal:
        """Let a turn that will lead to ``proposal`` arrive in ``chat.turns``; return the proposal with its origin."""
        partition = self.partition(proposal.envelope)
        offset = self.log.append(CHAT_TURNS.name, partition, _key(proposal.envelope), b"turn")
        envelope = msgspec.structs.replace(proposal.envelope, origin=Origin(partition, offset))
        self.said[partition, offset] = DecodedProposal(envelope, proposal.body)
        return self.said[partition, offset]

    def propose(self, proposal: DecodedProposal) -> None:
        """Append a proposal, sealed, to its user's partition of ``memory.proposals``."""
        envelope = proposal.envelope
        if proposal.body is not None:
            key = self.keys.minted(envelope.tenant_id, envelope.user_id)
            envelope = msgspec.structs.replace(envelope, body=seal_record(CODEC, proposal.body, key))
        partition = self.partition(envelope)
        offset = self.log.append(PROPOSALS.name, partition, _key(envelope), CODEC.encode(envelope))
        self.proposed[partition, offset] = proposal

    def garbage(self, partition: int) -> None:
        """Append what nobody can read."""
        offset = self.log.append(PROPOSALS.name, partition, b"?", b"\x00not a proposal")
        self.proposed[partition, offset] = None

    def happen(self, user: User, session_id: str, text: str) -> None:
        """Let a session's event be committed as ``working`` does: the event and its outbox row together."""
        tables = self.pool.tables
        sequence = tables.next_number(f"session {user} {session_id}")
        event_id = derived_id("event", *user, session_id, str(sequence))
        key = self.keys.minted(*user)
        event = WorkingEvent(
            event_id=event_id,
            tenant_id=user[0],
            user_id=user[1],
            session_id=session_id,
            sequence=sequence,
            event_type="input",
            state_from="idle",
            state_to="asked",
            occurred_at_ms=self.now_ms,
            content_hash=derived_id("hash", event_id),
            origin=Origin(0, 0),
            body=seal_record(CODEC, WorkingPayload(masked_input=text), key),
        )
        tables.working[*user, event_id] = event
        self.texts[event_id] = text
        self._outbox_row(user, event_id, event_type="input", target="working", payload=CODEC.encode(event))

    def _outbox_row(self, user: User, aggregate_id: str, **columns: Any) -> None:
        known: dict[str, Any] = {
            "event_id": derived_id("row", str(self.pool.tables.numbers.get("outbox", 0))),
            "aggregate_id": aggregate_id,
            "tenant_id": user[0],
            "user_id": user[1],
            "shard": partition_of(*user, PARTITIONS),
            "aggregate_version": 1,
            "repair": None,
        }
        self.pool.tables.add_outbox(**(known | columns))

    def partition(self, envelope: Proposal) -> int:
        return partition_of(envelope.tenant_id, envelope.user_id, PARTITIONS)

    # The stages before remember, as one

    def pass_on(self, limit: int, *, dies: bool = False) -> None:
        """Turn inputs into proposals; a stage that dies before its commit does the same again later."""
        for records in self.turns.poll(limit).values():
            for record in records:
                self.propose(self.said[record.partition, record.offset])
        if dies:
            self.turns.crash()
        else:
            self.turns.commit()

    # Remember

    def _new_remember(self, crash: CrashPoints | None = None) -> Remember:
        pool: Any = self.pool
        keys: Any = self.keys
        return Remember(SETTINGS, pool, keys, CODEC, POLICY, topic_identity="cluster-1", crash=crash)

    async def remember(
        self, limit: int, partitions: Sequence[int] | None = None, *, dies_at: str = "", visit: int = 1
    ) -> list[Outcome]:
        """Decide and store what comes next, then commit; ``dies_at`` names where the process ends instead."""
        if dies_at:
            # A process that will die at its n-th visit is one that has just begun.
            self._remember = self._new_remember(CrashAt(dies_at, visit) if dies_at != "before_ack" else None)
        batch = self.proposals.poll(limit, partitions)
        inputs = [Input(r.value, Origin(r.partition, r.offset), r.key) for records in batch.values() for r in records]
        outcomes: list[Outcome] = []
        try:
            outcomes = await self._remember.handle(inputs) if inputs else []
        except SimulatedCrash:
            dies_at = "before_ack"
        if dies_at == "before_ack":
            self._remember = self._new_remember()
            self.proposals.crash()
        else:
            self.proposals.commit()
        return outcomes

    # The relay

    async def relay(
        self,
        limit: int,
        shards: Sequence[int] = tuple(range(PARTITIONS)),
        *,
        batches: int = 1,
        dies_at: str = "",
        visit: int = 1,
        landing: int | None = None,
        meanwhile: Meanwhile | None = None,
    ) -> None:
        """Publish the next rows of some shards; of a relay that dies after sending, ``landing`` records a partition arrive."""
        outbox: Any = OutboxInMemory(self.pool, shards, limit, meanwhile)
        producer: Any = ProducerInMemory(self.log, landing if dies_at else None)
        relay = Relay(SETTINGS, CODEC, crash=CrashAt(dies_at, visit) if dies_at else None)
        try:
            batch: Any = await relay._prepared(outbox, await outbox.claim())
            while batches > 0 and batch is not None and batch.rows:
                batch = await relay._batch(outbox, producer, batch)
                batches -= 1
        except SimulatedCrash:
            return

    # The projectors and their generations

    async def begin(self, store: Store, state: str) -> Projecting:
        """Begin a generation of ``store``, projected from the beginning of the log."""
        door = self.stores[store]
        number = 1 + max((one.generation.number for one in self.projecting[store]), default=0)
        revision = (REVISION, DIMENSION) if store == "milvus" else ("", 0)
        generation = Generation(store, number, state, *revision)
        await door.prepare(generation)
        made = Projecting(SETTINGS, mapping_of(store, self.keys), door, generation, self.log)
        self.projecting[store].append(made)
        return made

    def standing(self, store: Store) -> list[Projecting]:
        """Return the generations of ``store`` that are projected: live, building and draining ones."""
        return [one for one in self.projecting[store] if one.generation.state != "dropped"]

    def live(self, store: Store) -> Projecting:
        (found,) = [one for one in self.projecting[store] if one.generation.state == "live"]
        return found

    async def project(self, one: Projecting, limit: int, fault: str = "", visit: int = 1) -> None:
        """Let a projector write its next batch; ``fault`` names how it fails."""
        await one.step(limit, fault, visit)

    # Until nothing moves any more

    async def drain(self) -> None:
        """Let everything that is on its way arrive: no process fails, each works until it has caught up."""
        await self.arrive()
        await self.publish()
        for store in STORES:
            for one in self.standing(store):
                # By now another owner has written everything; what the one before held in its hands comes last.
                await one.wake()

    async def arrive(self) -> None:
        """Let everything that was said and asked be remembered and published; the stores lag behind."""
        self.pass_on(EVERYTHING)
        while not self.proposals.caught_up:
            await self.remember(EVERYTHING)
        while self.pool.tables.outbox:
            await self.relay(EVERYTHING)

    async def publish(self) -> None:
        """Let the outbox be published and every projector catch up, whatever is committed meanwhile elsewhere."""
        while self.pool.tables.outbox:
            await self.relay(EVERYTHING)
        for store in STORES:
            for one in self.standing(store):
                while not one.group.caught_up:
                    await self.project(one, EVERYTHING)


def _key(envelope: Proposal) -> bytes:
    return routing_key(envelope.tenant_id, envelope.user_id)


def mapping_of(store: Store, keys: KeysInMemory) -> Mapping[Any]:
    """Return the real mapping of a store."""
    if store == "influx":
        return InfluxMapping(CODEC, payload_opener(CODEC, keys))
    return MilvusMapping(CODEC) if store == "milvus" else Neo4jMapping(CODEC)
