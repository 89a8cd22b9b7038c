"""The draft of a decision: what a proposal has done so far to the loaded part of a user's memory.

Used by ``decide`` and its two halves (candidates, commands); it lives for one proposal. Touching a memory several times makes
one new version. ``changes`` closes the draft: it relinks the chain, counts versions, and hashes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable

from msgspec.structs import replace

from schemas.candidates import Candidate, Vector
from schemas.memories import GONE, Edge, Memory, MemoryVectors, PendingEntry, QuarantineEntry, ReviewEntry
from streams.changes import BeforeMark, Change, CommandOutcome, DecodedProposal
from streams.content_hash import content_hash
from streams.decision_policy import DecisionPolicy
from streams.decision_state import LIVE, WHOLE_USER, ChainKey, UserState, chain_key, in_chain
from streams.similarity import Neighbours, is_usable

_COUNTED = {"version": 0, "body_version": 0, "content_hash": "", "updated_at_ms": 0}


class Draft:
    """Collects the effects of one proposal."""

    def __init__(self, state: UserState, proposal: DecodedProposal, policy: DecisionPolicy) -> None:
        self.proposal = proposal.envelope
        self.policy = policy
        self.state = state
        self.now = proposal.envelope.occurred_at_ms
        self.refused: dict[str, int] = {}
        self._memories: dict[str, Memory] = dict(state.memories)
        self._touched: dict[str, tuple[str, str]] = {}
        self._body_changed: set[str] = set()
        self._vectors: dict[str, tuple[Vector, ...]] = {}
        self._neighbours: Neighbours | None = None
        self._entries: dict[str, PendingEntry | ReviewEntry | QuarantineEntry] = {}
        self._marks: dict[str, int] = {}
        self._relink: list[ChainKey] = []

    def memory(self, memory_id: str) -> Memory | None:
        """Return a memory as it stands in the draft."""
        return self._memories.get(memory_id)

    def memories(self) -> list[Memory]:
        """Return every loaded or made memory as it stands, in the order of ids."""
        return [self._memories[memory_id] for memory_id in sorted(self._memories)]

    def with_key(self, key: str, *statuses: str) -> list[Memory]:
        """Return the memories under a dedupe key that have one of ``statuses``, newest statement first."""
        found = [m for m in self._memories.values() if m.dedupe_key == key and m.status in statuses]
        return sorted(found, key=lambda m: (m.stated_at_ms, m.memory_id), reverse=True)

    def put(self, memory: Memory, op: str, reason: str, *, body_changed: bool = False) -> None:
        """Set the new state of a memory; versions, times and hash are counted when the draft is closed."""
        known = self._memories.get(memory.memory_id)
        if known is None or in_chain(known) != in_chain(memory):
            self._relink.append(chain_key(memory))
        self._memories[memory.memory_id] = memory
        before = self._touched.get(memory.memory_id)
        if before is not None:
            # A later side effect (an edge, a flag) does not hide what happened to the memory first.
            op = before[0] if op == "updated" or before[0] == "created" else op
            reason = before[1] if reason in before[1].split("; ") else f"{before[1]}; {reason}"
        self._touched[memory.memory_id] = (op, reason)
        if body_changed:
            self._body_changed.add(memory.memory_id)

    def change(self, memory: Memory, op: str, reason: str, *, body_changed: bool = False, **fields: object) -> Memory:
        """Put ``memory`` with other ``fields``; return what was put."""
        changed: Memory = replace(memory, **fields)
        self.put(changed, op, reason, body_changed=body_changed)
        return changed

    def add_edge(self, memory_id: str, edge: Edge, reason: str) -> None:
        """Give a memory one more outgoing edge; a weaker or equal one to the same target is replaced, not doubled."""
        memory = self._memories[memory_id]
        others = [
            e
            for e in memory.edges
            if (e.kind, e.target_kind, e.target_id) != (edge.kind, edge.target_kind, edge.target_id)
        ]
        if edge not in memory.edges:
            self.change(memory, "updated", reason, edges=tuple(sorted([*others, edge])))

    def set_vectors(self, memory_id: str, vectors: Iterable[Vector]) -> None:
        """Set the vectors of a memory; unusable ones are left out and counted."""
        usable = {}
        for vector in vectors:
            if is_usable(vector):
                usable[vector.revision] = vector
            else:
                self.refuse("bad_vector")
        self._vectors[memory_id] = tuple(usable[revision] for revision in sorted(usable))

    def link_similar(self, memory_id: str) -> None:
        """Give a new memory its SIMILAR_TO edges to the newest live ones, and let later ones of this proposal see it."""
        if self._neighbours is None:
            self._neighbours = Neighbours((v.memory_id, vector) for v in self.state.recent for vector in v.vectors)
        best: dict[str, float] = {}
        vectors = self._vectors.get(memory_id, ())
        for vector in vectors:
            for name, cosine in self._neighbours.similar(vector, self.policy.similarity_threshold(vector.revision)):
                if self._is_live(name):
                    best[name] = max(cosine, best.get(name, 0.0))
        chosen = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[: self.policy.similar_edges]
        memory = self._memories[memory_id]
        edges = [Edge(kind="SIMILAR_TO", target_kind="memory", target_id=n, weight=c) for n, c in chosen]
        self._memories[memory_id] = replace(memory, edges=tuple(sorted([*memory.edges, *edges])))
        for vector in vectors:
            self._neighbours.add(memory_id, vector)

    def _is_live(self, memory_id: str) -> bool:
        known = self._memories.get(memory_id)
        return known is None or known.status in LIVE

    def file(self, entry: PendingEntry | ReviewEntry | QuarantineEntry) -> None:
        """Set the new state of an entry of a queue."""
        self._entries[entry.entry_id] = entry

    def waiting(self, key: str) -> list[PendingEntry]:
        """Return the waiting pending entries of a key as they stand, oldest first."""
        known = {**self.state.pending, **{i: e for i, e in self._entries.items() if isinstance(e, PendingEntry)}}
        found = [
            e for e in known.values() if e.dedupe_key == key and e.state == "waiting" and e.expires_at_ms > self.now
        ]
        return sorted(found, key=lambda e: (e.created_at_ms, e.entry_id))

    def reviews(self, key: str) -> list[ReviewEntry]:
        """Return the waiting review entries of a key as they stand."""
        known = {**self.state.reviews, **{i: e for i, e in self._entries.items() if isinstance(e, ReviewEntry)}}
        return sorted(
            (e for e in known.values() if e.dedupe_key == key and e.state == "waiting"), key=lambda e: e.entry_id
        )

    def mark(self, key: str, before_ms: int) -> None:
        """Let inputs received before ``before_ms`` create nothing for ``key`` (empty: for the whole user)."""
        known = max(self._marks.get(key, 0), self.state.before.get(key, 0))
        if before_ms > known:
            self._marks[key] = before_ms

    def is_forgotten(self, key: str, received_at_ms: int) -> bool:
        """Return whether an input received then may create nothing for ``key``."""
        return any(received_at_ms < self.state.before.get(k, 0) for k in (key, WHOLE_USER))

    def refuse(self, reason: str) -> None:
        """Count something that was left out."""
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def changes(self) -> tuple[Change, ...]:
        """Close the draft: return one change per touched record, memories in the order they were touched."""
        self._join_chain()
        made: list[Change] = []
        for memory_id in dict.fromkeys([*self._touched, *self._vectors]):
            change = self._memory_change(memory_id) if memory_id in self._touched else None
            if change is not None:
                made.append(change)
            if memory_id in self._vectors:
                made.append(self._vectors_change(memory_id, change))
        made += [self._entry_change(entry) for entry in self._entries.values()]
        made += [
            self._change("before", key, "marked", "", before_ms, "", "forgotten", BeforeMark(key, before_ms))
            for key, before_ms in self._marks.items()
        ]
        return tuple(made)

    def outcome(self, outcome: str, reason: str, changes: Iterable[Change]) -> Change:
        """Return the change that says how the proposal ended."""
        touched = tuple(dict.fromkeys(c.aggregate_id for c in changes if c.kind in ("memory", "vectors")))
        envelope = self.proposal
        body = CommandOutcome(
            proposal_id=envelope.proposal_id,
            event_id=envelope.event_id,
            kind=envelope.kind,
            outcome=outcome,
            reason=reason,
            memory_ids=touched,
            refused=sum(self.refused.values()),
            decided_at_ms=self.now,
        )
        name = envelope.event_id or envelope.proposal_id
        return self._change("command", name, envelope.kind, outcome, body.refused, "", reason, body)

    def _join_chain(self) -> None:
        """Give every memory that entered the chain its FOLLOWS edge, and mend it around those that entered or left."""
        chain = sorted(chain_key(m) for m in self._memories.values() if in_chain(m))
        for place in sorted(set(self._relink)):
            index = bisect_left(chain, place)
            here = in_chain(self._memories[place[3]])
            # A memory that entered follows its neighbour and is followed by the next; one that left only has a next.
            for position in range(index, min(index + 1 + here, len(chain))):
                self._set_follows(self._memories[chain[position][3]], chain[position - 1][3] if position else "")
            if not here:
                self._set_follows(self._memories[place[3]], "")

    def _set_follows(self, memory: Memory, previous_id: str) -> None:
        edges = [e for e in memory.edges if e.kind != "FOLLOWS"]
        if previous_id:
            insort(edges, Edge(kind="FOLLOWS", target_kind="memory", target_id=previous_id))
        if tuple(edges) != memory.edges:
            self.change(memory, "updated", "chain", edges=tuple(edges))

    def _memory_change(self, memory_id: str) -> Change | None:
        op, reason = self._touched[memory_id]
        memory, known = self._memories[memory_id], self.state.memories.get(memory_id)
        if known is not None and replace(memory, **_COUNTED) == replace(known, **_COUNTED):
            return None
        version = 1 if known is None else known.version + 1
        body_version = 1 if known is None else known.body_version + (memory_id in self._body_changed)
        memory = replace(memory, version=version, body_version=body_version, updated_at_ms=self.now)
        memory = replace(memory, content_hash=content_hash(memory, self.policy.hash_key))
        body = None if memory.status == "erased" else memory
        return self._change("memory", memory_id, op, memory.status, version, memory.content_hash, reason, body)

    def _vectors_change(self, memory_id: str, change: Change | None) -> Change:
        memory = self._memories[memory_id]
        version, digest = (
            (memory.version, memory.content_hash) if change is None else (change.version, change.content_hash)
        )
        body = MemoryVectors(memory_id=memory_id, vectors=self._vectors[memory_id])
        return self._change("vectors", memory_id, "revectored", memory.status, version, digest, "vectors", body)

    def _entry_change(self, entry: PendingEntry | ReviewEntry | QuarantineEntry) -> Change:
        kind = {PendingEntry: "pending", ReviewEntry: "review", QuarantineEntry: "quarantine"}[type(entry)]
        known = (self.state.pending, self.state.reviews, self.state.quarantine)
        op = "resolved" if any(entry.entry_id in entries for entries in known) else "filed"
        return self._change(kind, entry.entry_id, op, entry.state, 1 + (op == "resolved"), "", entry.state, entry)

    def _change(  # noqa: PLR0917 - one line per kind of change above reads as a table
        self, kind: str, name: str, op: str, status: str, version: int, digest: str, reason: str, body: object
    ) -> Change:
        return Change(
            kind=kind,
            tenant_id=self.proposal.tenant_id,
            user_id=self.proposal.user_id,
            aggregate_id=name,
            op=op,
            status=status,
            version=version,
            content_hash=digest,
            occurred_at_ms=self.now,
            reason=reason,
            body=body,  # type: ignore[arg-type]
        )


def entity_edges(candidate: Candidate, entity_id: str) -> tuple[Edge, ...]:
    """Return the BELONGS_TO edge of a memory about an entity, if it is about one."""
    if not candidate.entity_type or not entity_id:
        return ()
    return (Edge(kind="BELONGS_TO", target_kind="entity", target_id=f"{candidate.entity_type}:{entity_id}"),)


def is_gone(memory: Memory) -> bool:
    """Return whether a memory is deleted or erased."""
    return memory.status in GONE
