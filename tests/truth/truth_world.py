"""One user's memory held in dictionaries, moved by ``decide`` and ``evolve`` alone: what Postgres must equal."""

from dataclasses import dataclass, field

import numpy as np

from schemas.candidates import Candidate, Extraction, Refusal, Vector
from schemas.inputs import Origin
from schemas.memories import Memory, MemoryVectors, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.proposals import Command, Proposal
from streams import vocabulary
from streams.changes import BeforeMark, Body, Change, CommandOutcome, DecodedProposal
from streams.decide import decide
from streams.decision_policy import DecisionPolicy
from streams.decision_state import UserState
from streams.evolve import evolve

TENANT, USER = "acme", "alice"
DAY_MS = 86_400_000
START_MS = 1_700_000_000_000
POLICY = DecisionPolicy(vocabulary=vocabulary, hash_key=b"h" * 32)


def vector(*values: float, revision: str = "test-1") -> Vector:
    return Vector(revision, np.asarray(values, "<f4").tobytes())


def candidate(attribute: str, value: str, **fields: object) -> Candidate:
    """A plain user statement; ``value`` is the JSON text."""
    known: dict[str, object] = {
        "ordinal": 0,
        "type": "user_profile",
        "subject": "user",
        "entity_type": "user",
        "entity_id": "self",
        "attribute": attribute,
        "value": value,
        "content": f"{attribute}: {value}",
        "language": "en",
        "confidence": 0.85,
        "importance": 0.7,
        "source": "user_statement",
        "category": "identity",
        "outcome": "admit",
    }
    return Candidate(**(known | fields))  # type: ignore[arg-type]


def said(number: int, *candidates: Candidate, refusals: tuple[Refusal, ...] = (), **fields: object) -> DecodedProposal:
    """The proposal of the turn ``number``, a minute after the one before it."""
    at_ms = START_MS + number * 60_000
    known: dict[str, object] = {
        "proposal_id": f"proposal-{number}",
        "kind": "candidates",
        "tenant_id": TENANT,
        "user_id": USER,
        "actor": "turn",
        "occurred_at_ms": at_ms,
        "stated_at_ms": at_ms,
        "received_at_ms": at_ms,
        "event_id": f"event-{number}",
        "origin": Origin(0, number),
    }
    numbered = tuple(
        Candidate(**({f: getattr(c, f) for f in c.__struct_fields__} | {"ordinal": i}))
        for i, c in enumerate(candidates)
    )
    body = Extraction(status="extracted", extractor="rules", candidates=numbered, refusals=refusals)
    return DecodedProposal(Proposal(**(known | fields)), body)  # type: ignore[arg-type]


def asked(
    number: int, kind: str, *memory_ids: str, expected: dict[str, int] | None = None, **fields: object
) -> DecodedProposal:
    """The command ``kind`` of a person at the time of turn ``number``."""
    at_ms = START_MS + number * 60_000
    envelope = Proposal(
        proposal_id=f"command-{number}",
        kind=kind,
        tenant_id=TENANT,
        user_id=USER,
        actor="operator",
        occurred_at_ms=at_ms,
        stated_at_ms=at_ms,
        received_at_ms=at_ms,
        expected_versions=expected or {},
    )
    return DecodedProposal(envelope, Command(memory_ids=memory_ids, **fields))  # type: ignore[arg-type]


@dataclass
class World:
    """Everything of one user, and the changes that made it."""

    policy: DecisionPolicy = POLICY
    records: dict[tuple[str, str], Body] = field(default_factory=dict)
    log: list[Change] = field(default_factory=list)

    def apply(self, proposal: DecodedProposal) -> tuple[Change, ...]:
        changes = decide(self.state(), proposal, self.policy)
        self.log += changes
        fold(self.records, changes)
        return changes

    def outcome(self, proposal: DecodedProposal) -> CommandOutcome:
        body = self.apply(proposal)[-1].body
        assert isinstance(body, CommandOutcome)
        return body

    def state(self) -> UserState:
        memories = {m.memory_id: m for m in self.memories()}
        active = [m for m in memories.values() if m.status == "active"]
        newest = sorted(active, key=lambda m: (-m.created_at_ms, m.memory_id))[: self.policy.similar_memories]
        vectors = {b.memory_id: b for b in self.records.values() if isinstance(b, MemoryVectors)}
        return UserState(
            memories=memories,
            recent=tuple(vectors[m.memory_id] for m in newest if m.memory_id in vectors),
            pending={b.entry_id: b for b in self.records.values() if isinstance(b, PendingEntry)},
            reviews={b.entry_id: b for b in self.records.values() if isinstance(b, ReviewEntry)},
            quarantine={b.entry_id: b for b in self.records.values() if isinstance(b, QuarantineEntry)},
            before={b.dedupe_key: b.before_ms for b in self.records.values() if isinstance(b, BeforeMark)},
            history={
                (c.body.memory_id, c.body.version): c.body
                for c in self.log
                if isinstance(c.body, Memory) and c.kind == "memory"
            },
        )

    def memories(self, *statuses: str) -> list[Memory]:
        found = [b for b in self.records.values() if isinstance(b, Memory)]
        return [m for m in found if not statuses or m.status in statuses]

    def only(self, *statuses: str) -> Memory:
        (found,) = self.memories(*statuses)
        return found

    def values(self, *statuses: str) -> list[str]:
        return sorted(m.value for m in self.memories(*(statuses or ("active",))))

    def waiting(self) -> list[PendingEntry]:
        return [b for b in self.records.values() if isinstance(b, PendingEntry) and b.state == "waiting"]

    def reviews(self) -> list[ReviewEntry]:
        return [b for b in self.records.values() if isinstance(b, ReviewEntry) and b.state == "waiting"]

    def vectors_of(self, memory_id: str) -> tuple[Vector, ...]:
        body = self.records.get(("vectors", memory_id))
        return body.vectors if isinstance(body, MemoryVectors) else ()

    def follows(self, memory_id: str) -> str:
        memory = self.records["memory", memory_id]
        assert isinstance(memory, Memory)
        return next((e.target_id for e in memory.edges if e.kind == "FOLLOWS"), "")


def fold(records: dict[tuple[str, str], Body], changes: tuple[Change, ...] | list[Change]) -> None:
    """Move ``records`` forward; the command change of a proposal is an outcome and leaves nothing here."""
    for change in changes:
        if change.kind == "command":
            continue
        name = (change.kind, change.aggregate_id)
        after = evolve(records.get(name), change)
        if after is None:
            records.pop(name, None)
        else:
            records[name] = after
