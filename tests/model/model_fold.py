"""The two independent ways to the truth: deciding every unique proposal on the whole state, and folding ``memory.changes``."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import neighbours  # noqa: F401 - before the kits of other folders
from model_system import CODEC, System, User
from truth_world import World, fold

from schemas.errors import Rejected
from schemas.memories import Memory, MemoryChanged, MemoryVectors, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.topics import CHANGES
from streams.changes import BeforeMark, Body, Change, DecodedProposal
from streams.sealed_records import open_record

Records = dict[tuple[str, str], Body]
BODIES: dict[str, type[Memory | MemoryVectors | PendingEntry | ReviewEntry | QuarantineEntry]] = {
    "memory": Memory,
    "vectors": MemoryVectors,
    "pending": PendingEntry,
    "review": ReviewEntry,
    "quarantine": QuarantineEntry,
}


@dataclass
class Oracle:
    """One world per user, moved by ``decide`` and ``evolve`` alone, once per proposal, in the order of the log."""

    worlds: dict[User, World] = field(default_factory=dict)
    decided: dict[User, list[DecodedProposal]] = field(default_factory=dict)
    _next: dict[int, int] = field(default_factory=dict)
    _seen: set[tuple[User, str]] = field(default_factory=set)

    def catch_up(self, system: System) -> None:
        """Decide what was appended since the last time; a proposal that had to be rejected decides nothing."""
        for partition in range(system.log.partitions):
            offset = self._next.get(partition, 0)
            while (partition, offset) in system.proposed:
                proposal = system.proposed[partition, offset]
                offset += 1
                if proposal is not None and not _was_rejected(system, proposal):
                    self._decide(proposal)
            self._next[partition] = offset

    def _decide(self, proposal: DecodedProposal) -> None:
        envelope = proposal.envelope
        user = (envelope.tenant_id, envelope.user_id)
        if (user, envelope.proposal_id) in self._seen:
            return
        self._seen.add((user, envelope.proposal_id))
        self.worlds.setdefault(user, World()).apply(proposal)
        self.decided.setdefault(user, []).append(proposal)


def _was_rejected(system: System, proposal: DecodedProposal) -> bool:
    envelope = proposal.envelope
    outcome = system.pool.tables.outcomes[envelope.tenant_id, envelope.user_id, envelope.proposal_id]
    return outcome.outcome == "rejected"


@dataclass
class Folded:
    """What ``memory.changes`` gives: the records of each user, and the order of its events."""

    records: dict[User, Records] = field(default_factory=dict)
    events: dict[User, list[MemoryChanged]] = field(default_factory=dict)


async def folded(system: System, *, unique: bool) -> Folded:
    """Fold the log from its beginning; ``unique`` leaves out what was delivered before, as a reader with a memory would."""
    found, seen = Folded(), set[str]()
    for event in _events(system):
        if event.event_id in seen and unique:
            continue
        user = (event.tenant_id, event.user_id)
        if event.event_id not in seen:
            found.events.setdefault(user, []).append(event)
        seen.add(event.event_id)
        fold(found.records.setdefault(user, {}), [await _change(system, event)])
    return found


def _events(system: System) -> Iterator[MemoryChanged]:
    for record in system.log.every(CHANGES.name):
        yield CODEC.decode(record.value, MemoryChanged)


async def _change(system: System, event: MemoryChanged) -> Change:
    body: Body | None = None
    if event.kind == "before":
        body = BeforeMark(event.aggregate_id, event.version)
    elif event.body is not None:
        name = (event.tenant_id, event.user_id, event.body.key_id)
        key = (await system.keys.keys_of([name]))[name]
        if isinstance(key, Rejected):
            assert key.code == "erased", "a change in the log cannot be read"
        else:
            body = open_record(CODEC, event.body, key, BODIES[event.kind])
    names = set(Change.__struct_fields__) - {"body"}
    return Change(**{name: getattr(event, name) for name in names}, body=body)
