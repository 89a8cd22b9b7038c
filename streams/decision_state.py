"""What ``decide`` may look at: the part of one user's memory that a proposal can touch, and how that part is named.

``needs_of`` says which part a proposal needs and ``further_needs`` what only that part can name (the keys of a value that a
command makes live); ``remember`` loads exactly that; ``decide`` reads nothing else. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from schemas.candidates import Candidate, Extraction
from schemas.errors import Rejected
from schemas.ids import derived_id, is_memory_id
from schemas.memories import GONE, Memory, MemoryVectors, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.proposals import Command, Proposal
from streams.canonical import canonical_value
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


def entity_id_of(said: Candidate | Memory, user_id: str) -> str:
    """Return the entity's id; ``self`` names the user."""
    return user_id if said.entity_id == "self" else said.entity_id


def dedupe_key(said: Candidate | Memory, user_id: str, policy: DecisionPolicy, attribute: str = "") -> str:
    """Return the key under which statements about the same thing meet (32 hex digits, keyed: it outlives an erasure).

    ``attribute`` asks for the key of another attribute of the same thing (the opposite).
    """
    name = attribute or said.attribute
    parts = [said.subject, said.entity_type, entity_id_of(said, user_id), name]
    if policy.vocabulary.cardinality(name) == "many":
        parts.append(policy.vocabulary.normalised_value(name, said.value))
    return keyed_digest(policy.hash_key, *parts)


def keys_of(said: Candidate | Memory, user_id: str, policy: DecisionPolicy) -> tuple[str, ...]:
    """Return the key of what is said and that of its opposite, if there is one."""
    key, opposite = dedupe_key(said, user_id, policy), opposite_key(said, user_id, policy)
    return (key, opposite) if opposite else (key,)


def opposite_key(said: Candidate | Memory, user_id: str, policy: DecisionPolicy) -> str:
    """Return the key of what contradicts this (likes and dislikes of one thing), or an empty string."""
    opposite = policy.vocabulary.opposite_of(said.attribute)
    return dedupe_key(said, user_id, policy, opposite) if opposite else ""


def first_memory_id(envelope: Proposal, key: str, ordinal: int) -> str:
    """Return the id of the memory that the candidate of this ordinal makes, if it makes one, under its dedupe key.

    The input's event counts, not the proposal: embedded again, an input makes nothing twice.
    """
    first = f"{envelope.event_id or envelope.proposal_id}:{ordinal}"
    return derived_id("memory", envelope.tenant_id, envelope.user_id, key, first)


def key_with_value(memory: Memory, value: str, policy: DecisionPolicy) -> str:
    """Return the key under which ``memory`` stands once it says ``value``; another way to say the same keeps its key."""
    normalised = policy.vocabulary.normalised_value
    if normalised(memory.attribute, value) == normalised(memory.attribute, memory.value):
        return memory.dedupe_key
    return dedupe_key(msgspec.structs.replace(memory, value=value), memory.user_id, policy)


def needs_of(proposal: DecodedProposal, policy: DecisionPolicy) -> Needs:
    """Return what must be loaded before this proposal can be decided."""
    envelope, body = proposal.envelope, proposal.body
    if isinstance(body, Extraction):
        chosen = body.candidates[: policy.facts_per_turn]
        own = [keys_of(c, envelope.user_id, policy) for c in chosen]
        keys = dict.fromkeys(key for found in own for key in found)
        stated = envelope.stated_at_ms
        points = dict.fromkeys(
            (stated if c.valid_from_ms is None else c.valid_from_ms, envelope.occurred_at_ms, c.ordinal) for c in chosen
        )
        return Needs(
            keys=tuple(keys),
            link_groups=tuple(dict.fromkeys(c.link_group for c in chosen if c.link_group)),
            # The id of the memory to come is not known yet; no other memory has this place.
            chain_points=tuple((*point, "00000000-0000-0000-0000-000000000000") for point in points),
            # An earlier proposal of the same input may have made them; whatever became of them since, they are not made again.
            memory_ids=tuple(
                dict.fromkeys(
                    first_memory_id(envelope, found[0], c.ordinal) for found, c in zip(own, chosen, strict=True)
                )
            ),
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


def further_needs(proposal: DecodedProposal, known: UserState, policy: DecisionPolicy) -> Needs | None:
    """Return everything that a command needs once what it names is known, or ``None`` when that is loaded already.

    A value that becomes live meets its key, its opposite and its group; they stand in the named memory or entry, not in the
    command. A forgotten key takes along what waits under it, and its neighbours in the chain with it.
    """
    command = proposal.body
    if not isinstance(command, Command) or command.whole_user:
        return None
    needs = needs_of(proposal, policy)
    memories = [known.memories[name] for name in needs.memory_ids if name in known.memories]
    if proposal.envelope.kind == "forget":
        waiting = waiting_under(known, {m.dedupe_key for m in memories})
        along = tuple(m.memory_id for m in waiting if m.memory_id not in needs.memory_ids)
        return replace(needs, memory_ids=(*needs.memory_ids, *along)) if along else None
    said: list[Candidate | Memory] = list(_made_live(proposal.envelope.kind, memories, command, known))
    entries = [known.pending.get(name) or known.reviews.get(name) for name in needs.entry_ids]
    if proposal.envelope.kind in ("confirm", "approve"):
        said += [msgspec.json.decode(entry.candidate, type=Candidate) for entry in entries if entry is not None]
    loaded = {named.dedupe_key for named in (*memories, *entries) if named is not None}
    keys = dict.fromkeys(key for one in said for key in keys_of(one, proposal.envelope.user_id, policy))
    groups = dict.fromkeys(one.link_group for one in said if one.link_group)
    if not groups and keys.keys() <= loaded:
        return None
    return replace(needs, keys=tuple(keys), link_groups=tuple(groups))


def _made_live(kind: str, memories: list[Memory], command: Command, known: UserState) -> list[Memory]:
    """Return the memories as a command would leave them, where it gives them a value or makes them live."""
    if kind == "rollback":
        olds = (known.history.get((m.memory_id, command.to_version)) for m in memories)
        return [old for old in olds if old is not None]
    if kind == "edit" and command.value:
        try:
            value = canonical_value(command.value)
        except Rejected:
            return []
        return [msgspec.structs.replace(m, value=value) for m in memories]
    return memories if kind in ("restore", "confirm", "approve") else []


def waiting_under(known: UserState, keys: set[str]) -> list[Memory]:
    """Return the memories kept for review under these keys; they were never believed."""
    return [m for m in known.memories.values() if m.status == "review" and m.dedupe_key in keys]
