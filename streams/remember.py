"""Remember: reads proposals, decides, and writes the truth. The only writer of memories.

Called by the worker with the messages that came together. One transaction for all of them: lock the positions, then round after
round (each with one proposal of every user): read the states, decide, write record, history, edges, vectors, queues, outbox and
outcome; the positions move last. A redelivered proposal changes nothing; a writer whose partition moved on is fenced by the
positions' rows. It never talks to Kafka and never acknowledges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schemas.codec import Codec
from schemas.errors import EngramError, Rejected
from schemas.inputs import Origin
from schemas.memories import MemoryChanged
from schemas.proposals import Proposal
from schemas.routing import partition_of
from schemas.sealing import DataKey, opened_key
from schemas.settings import Settings
from streams.changes import BeforeMark, Change, CommandOutcome, DecodedProposal
from streams.crash import CrashPoints
from streams.decide import decide
from streams.decision_policy import DecisionPolicy
from streams.decision_state import Needs, further_needs, needs_of
from streams.key_store import KeyStore, UserName
from streams.postgres import Connection, Pool, borrowed, in_halves, pool, transaction
from streams.postgres_positions import lock_positions
from streams.postgres_truth import Loaded, load, write
from streams.proposals import open_proposals, read_proposal, records_at_most
from streams.sealed_records import seal_record
from streams.spare_keys import SpareKeys
from streams.stage import Input, unless_rejected
from streams.truth_rows import Document, Published, document_of

ROLE = "engram_writer"


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


@dataclass(frozen=True, slots=True)
class _Task:
    """A message on its way: its place, what could be read of it, why it is not decided (``error``) or was before (``late``)."""

    position: Origin
    envelope: Proposal | None = None
    proposal: DecodedProposal | None = None
    error: Rejected | None = None
    late: bool = False

    @property
    def user(self) -> UserName:
        envelope = self.envelope
        return (envelope.tenant_id, envelope.user_id) if envelope else ("", "")

    def refused(self, error: Rejected) -> "_Task":
        """Return what is left to do when Postgres does not take it: store the refusal, or else only move the position."""
        return _Task(self.position, self.envelope if self.error is None else None, None, self.error or error)


@dataclass(frozen=True, slots=True)
class _Decision:
    """What becomes of a task: its changes on the state that was found, and the outcome to tell."""

    task: _Task
    envelope: Proposal
    found: Loaded
    changes: tuple[Change, ...]
    outcome: Outcome

    def refused(self, error: Rejected) -> "_Decision":
        """Return the decision that only says why there is none."""
        outcome = Outcome("rejected", envelope=self.envelope, error=error)
        return replace(self, changes=(_rejection(self.envelope, error),), outcome=outcome)


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
        self._spare = SpareKeys(keys, settings.key_cache_seconds)

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

    async def handle(self, inputs: Sequence[Input]) -> list[Outcome]:
        """Decide and store the proposals of ``memory.proposals`` that came together, in order; return what became of each.

        Raises ``Retryable`` (not everything is stored; all may come again) or ``Broken`` (end the process before
        acknowledging).
        """
        tasks: list[_Task] = []
        counts: dict[UserName, int] = {}
        opened = await open_proposals(self._codec, self._keys, inputs)
        for one, (envelope, proposal) in zip(inputs, opened, strict=True):
            if isinstance(envelope, Rejected):
                tasks.append(_Task(one.position, error=envelope))
            elif isinstance(proposal, Rejected):
                tasks.append(_Task(one.position, envelope, error=proposal))
            else:
                tasks.append(task := _Task(one.position, envelope, proposal))
                counts[task.user] = counts.get(task.user, 0) + records_at_most(proposal)
        await self._spare.fill(counts)
        return await self._remembered(tasks)

    async def skip(self, message: bytes, position: Origin, error: Rejected) -> Outcome:
        """Move past a proposal that can never be decided, and store that as its outcome where its user is known."""
        envelope = unless_rejected(lambda one: read_proposal(self._codec, one), message)
        task = _Task(position, None if isinstance(envelope, Rejected) else envelope, error=error)
        return (await self._remembered([task]))[0]

    async def _remembered(self, tasks: Sequence[_Task]) -> list[Outcome]:
        """Store all in one transaction; where Postgres takes one of them not, all but that one, in smaller ones."""
        return await in_halves(tasks, self._stored, self._refused)

    async def _refused(self, task: _Task, error: Rejected) -> Outcome:
        return (await self._remembered([task.refused(error)]))[0]

    async def _stored(self, tasks: Sequence[_Task]) -> list[Outcome]:
        async with borrowed(self._connections) as connection, transaction(connection):
            partitions = {task.position.partition for task in tasks}
            last = await lock_positions(connection, "remember", partitions, self._topic_identity)
            tasks, moved = _in_time(tasks, last)
            outcomes = [Outcome("rejected", error=task.error) for task in tasks]
            rounds = _rounds(tasks)
            for places in rounds:
                decided = await self._decided(connection, [tasks[place] for place in places])
                for place, (decision, _) in zip(places, decided, strict=True):
                    outcomes[place] = decision.outcome
                documents = [document for decision, document in decided if not decision.task.late]
                await self._write(connection, documents, moved if places is rounds[-1] else {})
            if not rounds:
                await self._write(connection, (), moved)
            self._crash.visit("in_transaction", len(tasks))
        self._crash.visit("after_commit", len(tasks))
        return outcomes

    async def _decided(self, connection: Connection, tasks: Sequence[_Task]) -> list[tuple[_Decision, Document]]:
        """Decide one proposal of each of several users; return what follows from each and its rows."""
        asked = [(task.envelope, self._needs(task)) for task in tasks if task.envelope is not None]
        found = await self._load(connection, asked)
        further: dict[int, tuple[Proposal, Needs]] = {}
        for place, (task, loaded) in enumerate(zip(tasks, found, strict=True)):
            if task.proposal is not None and not task.late and loaded.outcome is None:
                needs = further_needs(task.proposal, loaded.state, self._policy)
                if needs is not None:
                    further[place] = (task.proposal.envelope, needs)
        for place, loaded in zip(further, await self._load(connection, list(further.values())), strict=True):
            found[place] = loaded
        decisions = [
            self._decision(task, envelope, loaded)
            for task, (envelope, _), loaded in zip(tasks, asked, found, strict=True)
        ]
        keys = await self._keys_for(decisions)
        return [self._with_rows(decision, own) for decision, own in zip(decisions, keys, strict=True)]

    def _needs(self, task: _Task) -> Needs:
        return Needs() if task.late or task.proposal is None else needs_of(task.proposal, self._policy)

    async def _load(self, connection: Connection, asked: Sequence[tuple[Proposal, Needs]]) -> list[Loaded]:
        return await load(connection, asked, similar_memories=self._policy.similar_memories)

    def _decision(self, task: _Task, envelope: Proposal, found: Loaded) -> _Decision:
        if task.error is not None:
            refused = _Decision(task, envelope, found, (), Outcome("rejected", envelope=envelope, error=task.error))
            return refused if task.late or found.outcome is not None else refused.refused(task.error)
        if task.late or task.proposal is None or found.outcome is not None:
            return _Decision(task, envelope, found, (), _seen(envelope, found))
        changes = decide(found.state, task.proposal, self._policy)
        status = changes[-1].status
        outcome = Outcome("decided" if status == "accepted" else status, len(changes) - 1, envelope)
        return _Decision(task, envelope, found, changes, outcome)

    async def _keys_for(self, decisions: Sequence[_Decision]) -> list[dict[str, DataKey | Rejected]]:
        """Return the data key of every record that has content to seal: its own, or a new one for a new record."""
        names = [dict.fromkeys(c.aggregate_id for c in d.changes if _is_sealed(c)) for d in decisions]
        # One query for all: the truth's transaction stands open meanwhile.
        own = await self._keys.keys_of(
            (*decision.task.user, decision.found.key_ids[name])
            for decision, records in zip(decisions, names, strict=True)
            for name in records
            if name in decision.found.key_ids
        )
        keys: list[dict[str, DataKey | Rejected]] = []
        for decision, records in zip(decisions, names, strict=True):
            user, known = decision.task.user, decision.found.key_ids
            fresh = [name for name in records if name not in known]
            made = await self._spare.take(user, len(fresh))
            found = {name: own[(*user, known[name])] for name in records if name in known}
            keys.append({**dict(zip(fresh, made, strict=True)), **found})
        return keys

    def _with_rows(self, decision: _Decision, keys: dict[str, DataKey | Rejected]) -> tuple[_Decision, Document]:
        """Return the decision with its rows; one whose record has no key any more is refused alone."""
        try:
            return decision, self._document(decision, {name: opened_key(key) for name, key in keys.items()})
        except Rejected as error:
            decision = decision.refused(error)
            return decision, self._document(decision, {})

    def _document(self, decision: _Decision, keys: dict[str, DataKey]) -> Document:
        envelope, position = decision.envelope, decision.task.position
        published = [self._published(envelope, c, keys.get(c.aggregate_id), position) for c in decision.changes]
        shard = partition_of(envelope.tenant_id, envelope.user_id, self._settings.partitions)
        return document_of(envelope, published, decision.found.state, shard)

    async def _write(self, connection: Connection, documents: Sequence[Document], moved: Mapping[int, int]) -> None:
        if documents or moved:
            await write(connection, documents, moved)

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


def _in_time(tasks: Sequence[_Task], last: Mapping[int, int]) -> tuple[list[_Task], dict[int, int]]:
    """Return the tasks, those marked that stand at or before an offset decided already, and where partitions move to."""
    marked: list[_Task] = []
    moved: dict[int, int] = {}
    for task in tasks:
        partition, offset = task.position.partition, task.position.offset
        late = offset <= moved.get(partition, last[partition])
        marked.append(replace(task, late=late))
        if not late:
            moved[partition] = offset
    return marked, moved


def _rounds(tasks: Sequence[_Task]) -> list[list[int]]:
    """Return the places of the tasks, the first of every user together, then the second ones, and so on."""
    rounds: list[list[int]] = []
    seen: dict[UserName, int] = {}
    for place, task in enumerate(tasks):
        if task.envelope is None:
            continue
        number = seen.get(task.user, 0)
        seen[task.user] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(place)
    return rounds


def _is_sealed(change: Change) -> bool:
    return change.body is not None and not isinstance(change.body, BeforeMark | CommandOutcome)


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
