"""The second half of ``decide``: what a person's command, or new vectors, do to memory.

Called by ``decide``. Pure. A command that does not fit the state is refused whole: ``Refused`` carries the sentence the asker
reads.
"""

import msgspec
from msgspec.structs import replace

from schemas.candidates import Candidate, Relation
from schemas.errors import Rejected
from schemas.memories import Memory, MemoryVectors, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.proposals import Command
from streams.canonical import canonical_value
from streams.decision_candidates import file_certain
from streams.decision_draft import Draft, is_gone
from streams.decision_facts import end_opposite, flag_group, retire, supersede
from streams.decision_rules import confirmed_confidence
from streams.decision_state import LIVE, WHOLE_USER, key_with_value, opposite_key, waiting_under
from streams.decision_statement import Statement

_CONTENT_FIELDS = (
    "value",
    "content",
    "language",
    "importance",
    "confidence",
    "source",
    "intent",
    "locked",
    "tags",
    "slot_hint",
    "scope",
    "event_time_ms",
    "valid_to_ms",
    "expires_at_ms",
    "relations",
)


class Refused(Exception):
    """The proposal does not fit the state; its text is one sentence for the asker. Nothing of it is done."""


def check_expected(draft: Draft) -> None:
    """Raise ``Refused`` when a memory does not have the version that the proposal expects."""
    for memory_id, version in sorted(draft.proposal.expected_versions.items()):
        known = draft.memory(memory_id)
        found = 0 if known is None else known.version
        if found != version:
            raise Refused(f"memory {memory_id} has version {found}, the proposal expects {version}")


def decide_command(draft: Draft, command: Command) -> None:
    """Carry out a command; raises ``Refused``."""
    check_expected(draft)
    kind = draft.proposal.kind
    match kind:
        case "forget":
            _forget(draft, command)
        case "restore":
            for memory in _named(draft, command):
                _restore(draft, memory)
        case "edit":
            _edit(draft, _only(draft, command), command)
        case "confirm" | "approve":
            _each_named(draft, command, _confirm, _accept)
        case "deny" | "reject":
            _each_named(draft, command, _deny, _reject)
        case "rollback":
            _roll_back(draft, _only(draft, command), command)
        case _:
            raise Refused(f"unknown kind of proposal: {kind}")


def decide_vectors(draft: Draft, vectors: MemoryVectors) -> None:
    """Set the vectors of one memory, unless it is gone; raises ``Refused``."""
    check_expected(draft)
    memory = draft.memory(vectors.memory_id)
    if memory is None or is_gone(memory):
        raise Refused(f"there is no memory {vectors.memory_id}")
    draft.set_vectors(memory.memory_id, vectors.vectors)


def _named(draft: Draft, command: Command) -> list[Memory]:
    if not command.memory_ids:
        raise Refused("the command names no memory")
    found = []
    for memory_id in dict.fromkeys(command.memory_ids):
        memory = draft.memory(memory_id)
        if memory is None or memory.status == "erased":
            raise Refused(f"there is no memory {memory_id}")
        found.append(memory)
    return found


def _only(draft: Draft, command: Command) -> Memory:
    named = _named(draft, command)
    if len(named) != 1:
        raise Refused("the command must name exactly one memory")
    return named[0]


def _each_named(draft: Draft, command: Command, of_memory: object, of_entry: object) -> None:
    if not command.memory_ids:
        raise Refused("the command names nothing")
    state = draft.state
    for name in dict.fromkeys(command.memory_ids):
        entry = state.pending.get(name) or state.reviews.get(name)
        memory = draft.memory(name)
        if entry is not None and entry.state == "waiting":
            of_entry(draft, entry)  # type: ignore[operator]
        elif name in state.quarantine and state.quarantine[name].state == "waiting":
            _judge(draft, state.quarantine[name])
        elif memory is not None and not is_gone(memory):
            of_memory(draft, memory)  # type: ignore[operator]
        else:
            raise Refused(f"there is no memory or waiting entry {name}")


def _forget(draft: Draft, command: Command) -> None:
    before_ms = command.before_ms or draft.proposal.occurred_at_ms
    named = draft.memories() if command.whole_user else _named(draft, command)
    if command.whole_user:
        draft.mark(WHOLE_USER, before_ms)
    keys = {memory.dedupe_key for memory in named}
    for memory in (*named, *waiting_under(draft.state, keys)):
        _forget_memory(draft, memory.memory_id, command, before_ms)
    # Whatever waits under a forgotten key goes too: approved later, it would bring back what the person wanted gone.
    waiting: list[PendingEntry | ReviewEntry] = [*draft.state.pending.values(), *draft.state.reviews.values()]
    for entry in waiting:
        if entry.state == "waiting" and (command.whole_user or entry.dedupe_key in keys):
            draft.file(replace(entry, state="forgotten"))
    for refused in draft.state.quarantine.values():
        if command.whole_user and refused.state == "waiting":
            draft.file(replace(refused, state="forgotten"))


def _forget_memory(draft: Draft, memory_id: str, command: Command, before_ms: int) -> None:
    memory = draft.memory(memory_id)
    if memory is None or is_gone(memory):
        return
    if not command.whole_user:
        draft.mark(memory.dedupe_key, before_ms)
    forgotten = draft.change(memory, "deleted", "forgotten", status="deleted", deleted_at_ms=draft.now)
    if memory.status in LIVE and not command.whole_user:
        flag_group(draft, forgotten, forgotten)


def _restore(draft: Draft, memory: Memory) -> None:
    if memory.status != "deleted":
        raise Refused(f"memory {memory.memory_id} is {memory.status}, not deleted")
    earlier = [m for (name, _), m in draft.state.history.items() if name == memory.memory_id and not is_gone(m)]
    if not earlier:
        raise Refused(f"memory {memory.memory_id} has no version to go back to")
    status = max(earlier, key=lambda m: m.version).status
    rival = _rivals(draft, memory)
    if status in LIVE and rival:
        raise Refused(f"memory {rival[0].memory_id} says something newer: forget or correct that one first")
    draft.change(memory, "restored", "restored", status=status, deleted_at_ms=None)


def _edit(draft: Draft, memory: Memory, command: Command) -> None:
    if memory.status not in LIVE:
        raise Refused(f"memory {memory.memory_id} is {memory.status} and cannot be edited")
    if not command.value and not command.content:
        raise Refused("the edit gives neither a value nor a content")
    try:
        value = canonical_value(command.value) if command.value else memory.value
    except Rejected as error:
        raise Refused(error.reason) from error
    content = command.content.replace("\x00", "") or memory.content
    key = key_with_value(memory, value, draft.policy)
    rivals = _rivals(draft, replace(memory, value=value, dedupe_key=key)) if key != memory.dedupe_key else []
    # What a person says now outdoes a memory that says the same already; two of them would be one fact told twice.
    certain = any(rival.status == "active" and rival.dedupe_key == key for rival in rivals)
    edited = draft.change(
        memory,
        "updated",
        command.reason or "edited",
        body_changed=True,
        value=value,
        content=content,
        relations=_relations_of_value(memory, value, draft.policy.id_limit_characters),
        dedupe_key=key,
        status="active" if certain else memory.status,
        supersedes=tuple(dict.fromkeys((*memory.supersedes, *(rival.memory_id for rival in rivals)))),
        needs_check="",
        last_confirmed_at_ms=draft.now,
        provenance={**memory.provenance, "edited_by": draft.proposal.actor},
    )
    # Vectors of the old text would find the memory under a meaning it no longer has.
    draft.set_vectors(memory.memory_id, command.vectors)
    retire(draft, rivals, edited)
    flag_group(draft, edited, edited)


def _relations_of_value(memory: Memory, value: str, limit: int) -> tuple[Relation, ...]:
    """Return the relations of ``memory`` once it says ``value`` (JSON text): those to the old value now end at the new one.

    A value that is no name of anything (no text, or longer than ``limit`` characters) has no relation.
    """
    old, new = msgspec.json.decode(memory.value), msgspec.json.decode(value)
    if new == old:
        return memory.relations
    names_something = isinstance(new, str) and 0 < len(new) <= limit
    moved = (
        replace(relation, object_id=new) if relation.object_id == old else relation
        for relation in memory.relations
        if names_something or relation.object_id != old
    )
    return tuple(moved)


def _roll_back(draft: Draft, memory: Memory, command: Command) -> None:
    old = draft.state.history.get((memory.memory_id, command.to_version))
    if old is None or is_gone(old):
        raise Refused(f"memory {memory.memory_id} has no version {command.to_version} to go back to")
    if is_gone(memory):
        raise Refused(f"memory {memory.memory_id} is {memory.status}: restore it first")
    key = key_with_value(memory, old.value, draft.policy)
    rivals = _rivals(draft, replace(memory, value=old.value, dedupe_key=key))
    status = old.status if old.status in LIVE else memory.status
    content = {name: getattr(old, name) for name in _CONTENT_FIELDS}
    rolled = draft.change(
        memory,
        "updated",
        f"rolled back to version {command.to_version}",
        body_changed=True,
        dedupe_key=key,
        status=status,
        superseded_at_ms=None if status in LIVE else memory.superseded_at_ms,
        **content,
    )
    if (old.value, old.content) != (memory.value, memory.content):
        # Where the text stays, its vectors stay; without a new version no store could be told that they went.
        draft.set_vectors(memory.memory_id, command.vectors)
    if status in LIVE:
        retire(draft, rivals, rolled)


def _rivals(draft: Draft, memory: Memory) -> list[Memory]:
    """Return the live memories that cannot stand beside ``memory``: others of its key, and what says the opposite."""
    opposite = opposite_key(memory, memory.user_id, draft.policy)
    keys = (memory.dedupe_key, opposite) if opposite else (memory.dedupe_key,)
    return [m for key in keys for m in draft.with_key(key, *LIVE) if m.memory_id != memory.memory_id]


def _confirm(draft: Draft, memory: Memory) -> None:
    if memory.status not in (*LIVE, "review"):
        raise Refused(f"memory {memory.memory_id} is {memory.status} and cannot be confirmed")
    confirmed = draft.change(
        memory,
        "updated",
        "confirmed",
        status="active",
        confidence=confirmed_confidence(memory.confidence, memory.confidence),
        confirmations=memory.confirmations + 1,
        last_confirmed_at_ms=draft.now,
        needs_check="",
    )
    if memory.status != "active":
        retire(draft, _rivals(draft, memory), confirmed)
    for entry in draft.reviews(memory.dedupe_key):
        if memory.memory_id == entry.other_memory_id:
            draft.file(replace(entry, state="approved"))


def _deny(draft: Draft, memory: Memory) -> None:
    if memory.status not in (*LIVE, "review"):
        raise Refused(f"memory {memory.memory_id} is {memory.status} and cannot be denied")
    denied = draft.change(memory, "superseded", "denied", status="superseded", superseded_at_ms=draft.now)
    for entry in draft.reviews(memory.dedupe_key):
        if memory.memory_id == entry.other_memory_id:
            draft.file(replace(entry, state="rejected"))
    if memory.status in LIVE:
        flag_group(draft, denied, denied)


def _refuse_forgotten(draft: Draft, key: str, created_at_ms: int) -> None:
    if draft.is_forgotten(key, created_at_ms):
        raise Refused("what this entry says was forgotten after it was filed")


def _judge(draft: Draft, entry: QuarantineEntry) -> None:
    approved = draft.proposal.kind == "approve"
    if approved:
        _refuse_forgotten(draft, WHOLE_USER, entry.created_at_ms)
    draft.file(replace(entry, state="approved" if approved else "rejected"))


def _accept(draft: Draft, entry: PendingEntry | ReviewEntry) -> None:
    """Believe what waited: a pending candidate as if said again, a reviewed one against the memory that stood."""
    _refuse_forgotten(draft, entry.dedupe_key, entry.created_at_ms)
    if isinstance(entry, ReviewEntry) and entry.other_memory_id:
        other = draft.memory(entry.other_memory_id)
        if other is not None and other.status == "review":
            _confirm(draft, other)
            return
    draft.file(replace(entry, state="promoted" if isinstance(entry, PendingEntry) else "approved"))
    candidate = msgspec.json.decode(entry.candidate, type=Candidate)
    confidence = max(candidate.confidence, draft.policy.pending_confidence)
    believed = replace(candidate, confidence=confidence, outcome="admit", source="user_statement", intent="correct")
    provenance = {"ordinal": str(candidate.ordinal), "accepted_event_id": entry.source_event_id}
    statement = Statement(believed, entry.dedupe_key, provenance)
    known = draft.with_key(entry.dedupe_key, *LIVE)
    if isinstance(entry, ReviewEntry) and not believed.negated and known:
        end_opposite(draft, statement, supersede(draft, known, statement))
    else:
        file_certain(draft, statement)


def _reject(draft: Draft, entry: PendingEntry | ReviewEntry) -> None:
    draft.file(replace(entry, state="rejected"))
    if isinstance(entry, ReviewEntry) and entry.other_memory_id:
        other = draft.memory(entry.other_memory_id)
        if other is not None and other.status == "review":
            draft.change(other, "superseded", "rejected", status="superseded", superseded_at_ms=draft.now)
