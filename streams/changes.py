"""What ``decide`` returns: changes, one per record a proposal touches, and the proposal it reads.

Values only. ``decide`` is their only maker; ``evolve`` says what a memory is after one, and the writer of Postgres stores that.
"""

from dataclasses import dataclass

from msgspec import Struct

from schemas.candidates import Extraction
from schemas.ids import derived_id
from schemas.memories import Memory, MemoryVectors, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.proposals import Command, Proposal

KINDS_OF_CHANGE = ("memory", "vectors", "pending", "review", "quarantine", "before", "command")


class BeforeMark(Struct, frozen=True):
    """Inputs received before ``before_ms`` create nothing for ``dedupe_key`` (empty: for the whole user)."""

    dedupe_key: str
    before_ms: int


class CommandOutcome(Struct, frozen=True, kw_only=True):
    """How a proposal ended: accepted, refused or nothing, why, which memories it touched, how many candidates it refused."""

    proposal_id: str
    event_id: str
    kind: str
    outcome: str
    reason: str
    memory_ids: tuple[str, ...]
    refused: int
    decided_at_ms: int


Body = Memory | MemoryVectors | PendingEntry | ReviewEntry | QuarantineEntry | BeforeMark | CommandOutcome


class Change(Struct, frozen=True, kw_only=True):
    """One effect: what it is about, how that stands afterwards, and the whole new record in ``body``.

    ``kind`` is one of ``KINDS_OF_CHANGE``. ``body`` is ``None`` where the content is gone for good: an erased memory, or a
    change read from the log whose key was destroyed.
    """

    kind: str
    tenant_id: str
    user_id: str
    aggregate_id: str
    op: str
    status: str
    version: int
    content_hash: str
    occurred_at_ms: int
    reason: str
    body: Body | None

    def event_id(self, proposal_id: str) -> str:
        """Return the id of this effect of that proposal; a replay gives the same."""
        return effect_id(proposal_id, self.kind, self.aggregate_id, self.version, self.op)


def effect_id(proposal_id: str, kind: str, aggregate_id: str, version: int, op: str) -> str:
    """Return the event id of what a proposal did to one record."""
    return derived_id("change", proposal_id, kind, aggregate_id, str(version), op)


@dataclass(frozen=True, slots=True)
class DecodedProposal:
    """A proposal with its body opened; ``body`` is ``None`` when it proposes nothing."""

    envelope: Proposal
    body: Extraction | Command | MemoryVectors | None
