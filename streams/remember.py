"""Remember: reads proposals, decides, and writes the truth. The only writer of memories.

Called by the worker with one message at a time. One transaction per proposal: lock the position, read the state, decide, write
record, history, edges, vectors, queues, outbox, outcome and position. A redelivered proposal changes nothing; a writer
whose partition moved on is fenced by the position's row. It never talks to Kafka and never acknowledges.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass

from schemas.candidates import Extraction
from schemas.codec import Codec
from schemas.errors import EngramError, Rejected
from schemas.ids import check_id
from schemas.inputs import Origin
from schemas.memories import MemoryChanged, MemoryVectors
from schemas.proposals import Command, Proposal
from schemas.routing import partition_of
from schemas.sealing import DataKey
from schemas.settings import Settings
from streams.changes import BeforeMark, Change, CommandOutcome, DecodedProposal
from streams.crash import CrashPoints
from streams.decide import decide
from streams.decision_policy import DecisionPolicy
from streams.decision_state import Needs, UserState, further_needs, needs_of
from streams.key_store import KeyStore, opened
from streams.postgres import Connection, Pool, borrowed, pool, scoped
from streams.postgres_truth import Loaded, Published, load, lock_position, move_position, write
from streams.sealed_records import open_record, seal_record

ROLE = "engram_writer"
_SPARE_USERS = 1_000
_LABEL_CHARACTERS = 256
_COMMANDS = ("edit", "confirm", "deny", "approve", "reject", "rollback", "restore", "forget", "erase")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one message.

    ``status`` is decided, refused, nothing, duplicate or rejected; ``changes`` counts the effects. When it was rejected, its
    position has moved all the same, and ``error`` says why: the caller puts it among the dead letters.
    """

    status: str
    changes: int = 0
    envelope: Proposal | None = None
    error: Rejected | None = None


class Remember:
    """The shell around ``decide``; make one with ``open``, end it with ``close``."""

    def __init__(
        self,
        settings: Settings,
        connections: Pool,
        keys: KeyStore,
        codec: Codec,
        policy: DecisionPolicy,
        *,
        topic_identity: str,
        crash: CrashPoints | None = None,
    ) -> None:
        self._settings = settings
        self._connections = connections
        self._keys = keys
        self._codec = codec
        self._policy = policy
        self._topic_identity = topic_identity
        self._crash = crash or CrashPoints()
        self._spare = _SpareKeys(settings.key_cache_seconds)

    @classmethod
    async def open(
        cls,
        settings: Settings,
        codec: Codec,
        policy: DecisionPolicy,
        *,
        topic_identity: str,
        crash: CrashPoints | None = None,
    ) -> "Remember":
        """Connect to both databases. ``topic_identity`` has the ids of cluster and topic (``known_log``)."""
        keys = await KeyStore.open(settings)
        try:
            connections = await pool(settings, ROLE, 2)
        except EngramError:
            await keys.close()
            raise
        return cls(settings, connections, keys, codec, policy, topic_identity=topic_identity, crash=crash)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()
        await self._keys.close()

    async def handle(self, value: bytes, partition: int, offset: int) -> Outcome:
        """Decide and store the proposal in ``value``, which stands at ``partition`` and ``offset`` of ``memory.proposals``.

        Raises ``Retryable`` (nothing is stored; try again) or ``Broken`` (end the process before acknowledging).
        """
        position = Origin(partition, offset)
        envelope = None
        try:
            envelope = _checked(self._codec.decode(value, Proposal))
            proposal = await self._opened(envelope)
            return await self._decide_and_store(proposal, position)
        except Rejected as error:
            return await self.skip(envelope, position, error)

    async def skip(self, envelope: Proposal | None, position: Origin, error: Rejected) -> Outcome:
        """Move past a proposal that can never be decided, and store that as its outcome where its user is known."""
        async with borrowed(self._connections) as connection:
            if envelope is None:
                async with connection.transaction():
                    last = await lock_position(connection, position.partition, self._topic_identity)
                    if position.offset > last:
                        await move_position(connection, None, position)
                return Outcome("rejected", error=error)
            async with scoped(connection, envelope.tenant_id, envelope.user_id):
                found = await self._load(connection, envelope, position, Needs())
                if position.offset > found.last_offset:
                    changes = (_rejection(envelope, error),) if found.outcome is None else ()
                    await self._write(connection, envelope, changes, found, {}, position)
        return Outcome("rejected", envelope=envelope, error=error)

    async def _opened(self, envelope: Proposal) -> DecodedProposal:
        if envelope.body is None:
            return DecodedProposal(envelope, None)
        body_type = _body_type(envelope.kind)
        if body_type is None:
            return DecodedProposal(envelope, Command())
        key = await self._keys.key(envelope.tenant_id, envelope.user_id, envelope.body.key_id)
        return DecodedProposal(envelope, open_record(self._codec, envelope.body, key, body_type))

    async def _decide_and_store(self, proposal: DecodedProposal, position: Origin) -> Outcome:
        envelope = proposal.envelope
        tenant_id, user_id = envelope.tenant_id, envelope.user_id
        await self._spare.fill(self._keys, tenant_id, user_id, _records_at_most(proposal))
        async with borrowed(self._connections) as connection, scoped(connection, tenant_id, user_id):
            found = await self._load(connection, envelope, position, needs_of(proposal, self._policy))
            if position.offset <= found.last_offset:
                return _seen(envelope, found)
            if found.outcome is not None:
                await self._write(connection, envelope, (), found, {}, position)
                return _seen(envelope, found)
            further = further_needs(proposal, found.state, self._policy)
            if further is not None:
                found = await self._load(connection, envelope, position, further)
            changes = decide(found.state, proposal, self._policy)
            keys = await self._keys_for(envelope, changes, found.key_ids)
            await self._write(connection, envelope, changes, found, keys, position)
            self._crash.visit("in_transaction")
        self._crash.visit("after_commit")
        status = changes[-1].status
        return Outcome("decided" if status == "accepted" else status, len(changes) - 1, envelope)

    async def _load(self, connection: Connection, envelope: Proposal, position: Origin, needs: Needs) -> Loaded:
        limit = self._policy.similar_memories
        return await load(
            connection,
            envelope,
            needs,
            partition=position.partition,
            topic_identity=self._topic_identity,
            similar_memories=limit,
        )

    async def _keys_for(
        self, envelope: Proposal, changes: tuple[Change, ...], known: dict[str, str]
    ) -> dict[str, DataKey]:
        """Return the data key of every record that has content to seal: its own, or a new one for a new record."""
        tenant_id, user_id = envelope.tenant_id, envelope.user_id
        names = dict.fromkeys(c.aggregate_id for c in changes if _is_sealed(c))
        fresh = [name for name in names if name not in known]
        made = await self._spare.take(self._keys, tenant_id, user_id, len(fresh))
        keys = dict(zip(fresh, made, strict=True))
        # One query for all: the truth's transaction stands open meanwhile.
        own = await self._keys.keys(tenant_id, user_id, [known[name] for name in names if name in known])
        return keys | {name: opened(own[known[name]]) for name in names if name in known}

    async def _write(  # noqa: PLR0917 - each argument has a type of its own
        self,
        connection: Connection,
        envelope: Proposal,
        changes: tuple[Change, ...],
        found: Loaded,
        keys: dict[str, DataKey],
        position: Origin,
    ) -> None:
        published = [self._published(envelope, change, keys.get(change.aggregate_id), position) for change in changes]
        shard = partition_of(envelope.tenant_id, envelope.user_id, self._settings.partitions)
        state: UserState = found.state
        await write(connection, envelope, published, state, shard=shard, position=position)

    def _published(self, envelope: Proposal, change: Change, key: DataKey | None, position: Origin) -> Published:
        event_id = change.event_id(envelope.proposal_id)
        sealed = _is_sealed(change) and key is not None and change.body is not None
        event = MemoryChanged(
            event_id=event_id,
            tenant_id=change.tenant_id,
            user_id=change.user_id,
            aggregate_id=change.aggregate_id,
            kind=change.kind,
            op=change.op,
            status=change.status,
            version=change.version,
            content_hash=change.content_hash,
            occurred_at_ms=change.occurred_at_ms,
            proposal_id=envelope.proposal_id,
            actor=envelope.actor,
            reason=change.reason,
            position=position,
            origin=envelope.origin,
            body=seal_record(self._codec, change.body, key) if sealed and key and change.body else None,
        )
        return Published(change, event_id, key.key_id if key else "", self._codec.encode(event))


class _SpareKeys:
    """New data keys that a proposal might need are made before its transaction; those left over serve the user's next one.

    They are dropped after the time that a key may be cached, so that an erased user's keys are not used again.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: OrderedDict[tuple[str, str], tuple[float, tuple[DataKey, ...]]] = OrderedDict()

    async def fill(self, keys: KeyStore, tenant_id: str, user_id: str, count: int) -> None:
        kept = self._fresh(tenant_id, user_id)
        if len(kept) < count:
            made = await keys.mint(tenant_id, user_id, count)
            self._keep(tenant_id, user_id, time.monotonic(), made)

    async def take(self, keys: KeyStore, tenant_id: str, user_id: str, count: int) -> tuple[DataKey, ...]:
        if count == 0:
            return ()
        kept = self._fresh(tenant_id, user_id)
        if len(kept) < count:
            return await keys.mint(tenant_id, user_id, count)
        self._keep(tenant_id, user_id, self._kept[tenant_id, user_id][0], kept[count:])
        return kept[:count]

    def _fresh(self, tenant_id: str, user_id: str) -> tuple[DataKey, ...]:
        made_at, kept = self._kept.get((tenant_id, user_id), (0.0, ()))
        return kept if time.monotonic() < made_at + self._seconds else ()

    def _keep(self, tenant_id: str, user_id: str, made_at: float, kept: tuple[DataKey, ...]) -> None:
        self._kept[tenant_id, user_id] = (made_at, kept)
        self._kept.move_to_end((tenant_id, user_id))
        while len(self._kept) > _SPARE_USERS:
            self._kept.popitem(last=False)


def _checked(envelope: Proposal) -> Proposal:
    check_id("tenant_id", envelope.tenant_id)
    check_id("user_id", envelope.user_id)
    for name, text in (
        ("proposal_id", envelope.proposal_id),
        ("event_id", envelope.event_id),
        ("actor", envelope.actor),
    ):
        if len(text) > _LABEL_CHARACTERS or "\x00" in text:
            raise Rejected(f"{name} is longer than {_LABEL_CHARACTERS} characters or holds a NUL", code="bad_id")
    if not envelope.proposal_id:
        raise Rejected("proposal_id is missing or empty", code="bad_id")
    return envelope


def _body_type(kind: str) -> type[Extraction] | type[Command] | type[MemoryVectors] | None:
    if kind == "candidates":
        return Extraction
    if kind == "vectors":
        return MemoryVectors
    return Command if kind in _COMMANDS else None


def _is_sealed(change: Change) -> bool:
    return change.body is not None and not isinstance(change.body, BeforeMark | CommandOutcome)


def _records_at_most(proposal: DecodedProposal) -> int:
    body = proposal.body
    return len(body.candidates) + len(body.refusals) if isinstance(body, Extraction) else 0


def _seen(envelope: Proposal, found: Loaded) -> Outcome:
    """Return the outcome of a proposal that was decided before; one that was rejected must be told again."""
    known = found.outcome
    if known is not None and known.outcome == "rejected":
        code, _, reason = known.reason.partition(": ")
        return Outcome("rejected", envelope=envelope, error=Rejected(reason, code=code))
    return Outcome("duplicate", envelope=envelope)


def _rejection(envelope: Proposal, error: Rejected) -> Change:
    reason = f"{error.code}: {error.reason}"
    body = CommandOutcome(
        proposal_id=envelope.proposal_id,
        event_id=envelope.event_id,
        kind=envelope.kind,
        outcome="rejected",
        reason=reason,
        memory_ids=(),
        refused=0,
        decided_at_ms=envelope.occurred_at_ms,
    )
    return Change(
        kind="command",
        tenant_id=envelope.tenant_id,
        user_id=envelope.user_id,
        aggregate_id=envelope.event_id or envelope.proposal_id,
        op=envelope.kind,
        status="rejected",
        version=0,
        content_hash="",
        occurred_at_ms=envelope.occurred_at_ms,
        reason=reason,
        body=body,
    )
