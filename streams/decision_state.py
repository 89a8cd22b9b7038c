"""What ``decide`` may look at: the part of one user's memory that a proposal can touch, and how that part is named.

``needs_of`` says which part a proposal needs; ``remember`` loads exactly that; ``decide`` reads nothing else. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.candidates import Candidate, Extraction
from schemas.ids import is_memory_id
from schemas.memories import GONE, Memory, MemoryVectors, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.proposals import Command
from streams.changes import DecodedProposal
from streams.content_hash import keyed_digest
from streams.decision_policy import DecisionPolicy

LIVE = ("active", "tentative")
WHOLE_USER = ""
ChainKey = tuple[int, int, int, str]


@dataclass(frozen=True, slots=True)
class Needs:
    """Which part of the truth a proposal can touch; everything is looked up inside one user."""

    keys: tuple[str, ...] = ()
    link_groups: tuple[str, ...] = ()
    chain_points: tuple[ChainKey, ...] = ()
    memory_ids: tuple[str, ...] = ()
    entry_ids: tuple[str, ...] = ()
    whole_user: bool = False
    history: bool = False
    vectors: bool = False


@dataclass(frozen=True, slots=True)
class UserState:
    """The loaded part of one user's memory.

    ``memories`` holds every memory named by the needs, with the direct neighbours in the FOLLOWS chain of each chain point;
    ``recent`` the vectors of the newest live memories; ``history`` old versions by (memory id, version), for commands that
    go back; ``before`` the marks by key.
    """

    memories: Mapping[str, Memory] = field(default_factory=dict)
    recent: tuple[MemoryVectors, ...] = ()
    pending: Mapping[str, PendingEntry] = field(default_factory=dict)
    reviews: Mapping[str, ReviewEntry] = field(default_factory=dict)
    quarantine: Mapping[str, QuarantineEntry] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=dict)
    history: Mapping[tuple[str, int], Memory] = field(default_factory=dict)


def chain_key(memory: Memory) -> ChainKey:
    """Return the place of a memory in its user's FOLLOWS chain; it is fixed when the memory is made."""
    stated = memory.stated_at_ms if memory.valid_from_ms is None else memory.valid_from_ms
    return stated, memory.created_at_ms, int(memory.provenance.get("ordinal", "0")), memory.memory_id


def in_chain(memory: Memory) -> bool:
    """Return whether a memory stands in the chain: everything but deleted and erased."""
    return memory.status not in GONE


def entity_id_of(candidate: Candidate, user_id: str) -> str:
    """Return the entity's id; ``self`` names the user."""
    return user_id if candidate.entity_id == "self" else candidate.entity_id


def dedupe_key(candidate: Candidate, user_id: str, policy: DecisionPolicy, attribute: str = "") -> str:
    """Return the key under which statements about the same thing meet (32 hex digits, keyed: it outlives an erasure).

    ``attribute`` asks for the key of another attribute of the same thing (the opposite).
    """
    name = attribute or candidate.attribute
    parts = [candidate.subject, candidate.entity_type, entity_id_of(candidate, user_id), name]
    if policy.vocabulary.cardinality(name) == "many":
        parts.append(policy.vocabulary.normalised_value(name, candidate.value))
    return keyed_digest(policy.hash_key, *parts)


def keys_of(candidate: Candidate, user_id: str, policy: DecisionPolicy) -> tuple[str, ...]:
    """Return the candidate's key and that of its opposite, if there is one."""
    key = dedupe_key(candidate, user_id, policy)
    opposite = policy.vocabulary.opposite_of(candidate.attribute)
    return (key, dedupe_key(candidate, user_id, policy, opposite)) if opposite else (key,)


def needs_of(proposal: DecodedProposal, policy: DecisionPolicy) -> Needs:
    """Return what must be loaded before this proposal can be decided."""
    envelope, body = proposal.envelope, proposal.body
    if isinstance(body, Extraction):
        chosen = body.candidates[: policy.facts_per_turn]
        keys = dict.fromkeys(key for c in chosen for key in keys_of(c, envelope.user_id, policy))
        stated = envelope.stated_at_ms
        points = dict.fromkeys(
            (stated if c.valid_from_ms is None else c.valid_from_ms, envelope.occurred_at_ms, c.ordinal) for c in chosen
        )
        return Needs(
            keys=tuple(keys),
            link_groups=tuple(dict.fromkeys(c.link_group for c in chosen if c.link_group)),
            # The id of the memory to come is not known yet; no other memory has this place.
            chain_points=tuple((*point, "00000000-0000-0000-0000-000000000000") for point in points),
            vectors=any(c.vectors for c in chosen),
        )
    if isinstance(body, MemoryVectors):
        return Needs(memory_ids=(body.memory_id,) if is_memory_id(body.memory_id) else ())
    if isinstance(body, Command):
        named = tuple(
            dict.fromkeys(name for name in (*body.memory_ids, *envelope.expected_versions) if is_memory_id(name))
        )
        return Needs(
            memory_ids=named,
            entry_ids=named,
            whole_user=body.whole_user,
            history=envelope.kind in ("restore", "rollback"),
            # Believing a waiting candidate makes a memory, which is linked to the similar ones.
            vectors=envelope.kind in ("confirm", "approve"),
        )
    return Needs()
