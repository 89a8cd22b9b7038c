"""The changes of one proposal, put together again from ``memory.changes``: the unit in which truth is folded.

Called by ``refold``. Pure. The relay may send a change twice and may stop between two changes of a proposal; a proposal is whole
when its outcome, which is always its last change, is here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from schemas.errors import Broken, EngramError
from schemas.memories import Memory, MemoryChanged, MemoryVectors, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.proposals import Proposal
from streams.changes import BeforeMark, Body, Change, CommandOutcome
from streams.decision_state import UserState
from streams.evolve import evolve_memory
from streams.truth_rows import Document, Published, document_of

BODY_OF_KIND: dict[str, type[Any]] = {
    "memory": Memory,
    "vectors": MemoryVectors,
    "pending": PendingEntry,
    "review": ReviewEntry,
    "quarantine": QuarantineEntry,
}
# A hole that lasts this long stays: what follows it is read again then.
_BEYOND_AT_MOST = 1_000_000
GroupName: TypeAlias = tuple[str, str, str]
MemoryName: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class Group:
    """The changes of one proposal so far, each once; ``first_offset`` is where the first of them stands."""

    first_offset: int
    changes: dict[str, MemoryChanged] = field(default_factory=dict)

    @property
    def outcome(self) -> MemoryChanged:
        """Return the last change."""
        return next(reversed(self.changes.values()))


class Groups:
    """Puts the changes of one partition together, in the order in which their proposals were decided."""

    def __init__(self) -> None:
        self._open: dict[GroupName, Group] = {}

    def add(self, offset: int, change: MemoryChanged) -> Group | None:
        """Add the change at ``offset``; return its group when that is whole."""
        name = (change.tenant_id, change.user_id, change.proposal_id)
        group = self._open.setdefault(name, Group(offset))
        group.changes.setdefault(change.event_id, change)
        return self._open.pop(name) if change.kind == "command" else None

    def resume_at(self, following: int) -> int:
        """Return the offset to read from after a stop: ``following``, or the first change of a group that is not whole."""
        return min((group.first_offset for group in self._open.values()), default=following)


class LowMark:
    """The offset up to which every proposal of a partition is folded, without a hole.

    Users are published apart from one another, so what was decided first may be missing when something later is there. Deciding a
    folded proposal again changes nothing, so ``remember`` goes on at the first hole.
    """

    def __init__(self, reached: int) -> None:
        self.reached = reached
        self._beyond: set[int] = set()

    def add(self, offset: int) -> None:
        """Note a folded proposal."""
        if offset <= self.reached or len(self._beyond) >= _BEYOND_AT_MOST:
            return
        self._beyond.add(offset)
        while self.reached + 1 in self._beyond:
            self.reached += 1
            self._beyond.remove(self.reached)


@dataclass(frozen=True, slots=True)
class OpenedChange:
    """A change with its body in clear (absent where its key was destroyed) and the id of the key that sealed it."""

    event: MemoryChanged
    body: Body | None
    key_id: str


def envelope_of(group: Group) -> Proposal:
    """Return what the rows of ``group`` need to know of its proposal."""
    outcome = group.outcome
    return Proposal(
        proposal_id=outcome.proposal_id,
        kind=outcome.op,
        tenant_id=outcome.tenant_id,
        user_id=outcome.user_id,
        actor=outcome.actor,
        occurred_at_ms=outcome.occurred_at_ms,
        stated_at_ms=outcome.occurred_at_ms,
        received_at_ms=outcome.occurred_at_ms,
        event_id="" if outcome.aggregate_id == outcome.proposal_id else outcome.aggregate_id,
        origin=outcome.origin,
    )


def document_of_group(
    group: Group, opened: Sequence[OpenedChange], known: Mapping[MemoryName, Memory], shard: int
) -> tuple[Document, dict[MemoryName, Memory]]:
    """Return the rows of a whole group, none for the outbox, and its memories as they are then.

    What is stored already (``known``) is left out: it was folded before. Raises ``Broken`` for a gap in a memory's versions.
    """
    envelope = envelope_of(group)
    after: dict[MemoryName, Memory] = {}
    published: list[Published] = []
    for one in opened:
        change = _change_of(one, group, envelope)
        if change is None:
            continue
        if change.kind == "memory":
            name = (change.tenant_id, change.user_id, change.aggregate_id)
            before = known.get(name)
            if before is not None and change.version <= before.version:
                continue
            after[name] = _evolved(before, change)
        published.append(Published(change, one.event.event_id, one.key_id, b""))
    memories = {memory_id: memory for (_, _, memory_id), memory in known.items()}
    document = document_of(envelope, published, UserState(memories=memories), shard)
    del document["outbox"]
    return document, after


def _evolved(before: Memory | None, change: Change) -> Memory:
    try:
        return evolve_memory(before, change)
    except EngramError as error:
        raise Broken(
            f"memory.changes has a gap: {error}; the change may be among the dead rows of the outbox"
        ) from error


def _change_of(one: OpenedChange, group: Group, envelope: Proposal) -> Change | None:
    event = one.event
    body: Body | None = one.body
    match event.kind:
        case "before":
            body = BeforeMark(event.aggregate_id, event.version)
        case "command":
            body = _outcome_of(event, group, envelope)
        case kind if kind != "memory" and body is None:
            # Its key was destroyed: nothing is left of a waiting entry, or of vectors.
            return None
    return Change(
        kind=event.kind,
        tenant_id=event.tenant_id,
        user_id=event.user_id,
        aggregate_id=event.aggregate_id,
        op=event.op,
        status=event.status,
        version=event.version,
        content_hash=event.content_hash,
        occurred_at_ms=event.occurred_at_ms,
        reason=event.reason,
        body=body,
    )


def _outcome_of(event: MemoryChanged, group: Group, envelope: Proposal) -> CommandOutcome:
    touched = dict.fromkeys(c.aggregate_id for c in group.changes.values() if c.kind in ("memory", "vectors"))
    return CommandOutcome(
        proposal_id=event.proposal_id,
        event_id=envelope.event_id,
        kind=event.op,
        outcome=event.status,
        reason=event.reason,
        memory_ids=tuple(touched),
        refused=event.version,
        decided_at_ms=event.occurred_at_ms,
    )
