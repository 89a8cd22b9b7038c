"""The tables of the truth in memory, and a transaction over them. They hold rows; what a row says is decided elsewhere."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from msgspec.structs import replace

from schemas.candidates import Vector
from schemas.memories import Edge, Memory, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.working import WorkingEvent
from streams.changes import CommandOutcome
from streams.postgres_truth import as_decided
from streams.publication import OutboxRow, Snapshot

User = tuple[str, str]
Id = tuple[str, str, str]
"""Tenant, user, and the id of a memory, an entry, a key or a proposal."""
Entry = PendingEntry | ReviewEntry | QuarantineEntry


@dataclass(frozen=True, slots=True)
class HistoryRow:
    op: str
    status: str
    content_hash: str
    event_id: str
    occurred_at_ms: int
    proposal_id: str
    record: Memory | None


@dataclass
class Tables:
    """Every value is immutable, so that a copy of the dictionaries is a copy of the truth."""

    memories: dict[Id, Memory] = field(default_factory=dict)
    edges: dict[Id, tuple[Edge, ...]] = field(default_factory=dict)
    relations: dict[Id, frozenset[tuple[str, ...]]] = field(default_factory=dict)
    keys: dict[Id, str] = field(default_factory=dict)
    history: dict[tuple[Id, int], HistoryRow] = field(default_factory=dict)
    vectors: dict[Id, tuple[Vector, ...]] = field(default_factory=dict)
    pending: dict[Id, PendingEntry] = field(default_factory=dict)
    review: dict[Id, ReviewEntry] = field(default_factory=dict)
    quarantine: dict[Id, QuarantineEntry] = field(default_factory=dict)
    marks: dict[Id, int] = field(default_factory=dict)
    outcomes: dict[Id, CommandOutcome] = field(default_factory=dict)
    user_positions: dict[User, tuple[int, int]] = field(default_factory=dict)
    positions: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    outbox: dict[int, OutboxRow] = field(default_factory=dict)
    repairs: dict[tuple[str, str], int] = field(default_factory=dict)
    committed: dict[User, tuple[str, ...]] = field(default_factory=dict)
    working: dict[Id, WorkingEvent] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Keep everything that was done inside, or, after any error, nothing of it."""
        before = {one.name: dict(getattr(self, one.name)) for one in fields(self)}
        try:
            yield
        except BaseException:
            for name, rows in before.items():
                setattr(self, name, rows)
            raise

    def next_number(self, name: str) -> int:
        self.numbers[name] = self.numbers.get(name, 0) + 1
        return self.numbers[name]

    def add_outbox(self, **columns: Any) -> None:
        """Add one row, in the order of commit; what a proposal did is remembered as the order of its user."""
        number = self.next_number("outbox")
        row = OutboxRow(outbox_id=number, attempts=0, **columns)
        self.outbox[number] = row
        user = (row.tenant_id, row.user_id)
        if row.repair is None and row.target == "memory":
            self.committed[user] = (*self.committed.get(user, ()), row.event_id)

    def memory(self, name: Id) -> Memory:
        """Return a memory with its outgoing edges in the order in which they are kept."""
        return as_decided(replace(self.memories[name], edges=self.edges.get(name, ())))

    def snapshot(self, name: Id) -> Snapshot | None:
        """Return the current row of a memory with the change that made it and its vectors."""
        if name not in self.memories:
            return None
        memory = self.memory(name)
        made = self.history[name, memory.version]
        return Snapshot(
            memory, made.op, made.event_id, made.occurred_at_ms, made.proposal_id, self.vectors.get(name, ())
        )

    def of_user(self, table: str, user: User) -> dict[str, Any]:
        """Return the rows of one user by their last id."""
        return {name[2]: row for name, row in getattr(self, table).items() if name[:2] == user}
