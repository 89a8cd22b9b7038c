"""What happens to memories: made, confirmed, made more specific, superseded, flagged.

Called by both halves of ``decide``. Pure; which of these happens is decided by the callers.
"""

from msgspec.structs import replace

from schemas.memories import Memory
from streams.decision_draft import Draft, entity_edges
from streams.decision_rules import confirmed_confidence
from streams.decision_state import LIVE, first_memory_id, opposite_key
from streams.decision_statement import Statement, rank_of, relation_to, time_of


def create(draft: Draft, statement: Statement, status: str, *, until: Memory | None = None, **fields: object) -> Memory:
    """Make a new memory of a statement; ``until`` is the memory that ends a historical one's time."""
    candidate, envelope = statement.candidate, draft.proposal
    if status == "active" and candidate.tentative:
        status = "tentative"
    valid_to_ms = candidate.valid_to_ms
    if until is not None and valid_to_ms is None:
        since = until.stated_at_ms if until.valid_from_ms is None else until.valid_from_ms
        valid_to_ms = max(since, statement.from_ms(envelope.stated_at_ms))
    memory = Memory(
        memory_id=first_memory_id(envelope, statement.key, candidate.ordinal),
        tenant_id=envelope.tenant_id,
        user_id=envelope.user_id,
        subject=candidate.subject,
        category=candidate.category or "general",
        type=candidate.type,
        entity_type=candidate.entity_type,
        entity_id=candidate.entity_id,
        attribute=candidate.attribute,
        dedupe_key=statement.key,
        value=candidate.value,
        content=candidate.content,
        language=candidate.language,
        importance=candidate.importance,
        confidence=candidate.confidence,
        source=candidate.source,
        status=status,
        version=0,
        body_version=0,
        content_hash="",
        stated_at_ms=envelope.stated_at_ms,
        created_at_ms=draft.now,
        updated_at_ms=draft.now,
        intent=candidate.intent,
        locked=candidate.locked,
        tags=candidate.tags,
        slot_hint=candidate.slot_hint,
        scope=candidate.scope,
        link_group=candidate.link_group,
        event_time_ms=candidate.event_time_ms,
        valid_from_ms=candidate.valid_from_ms,
        valid_to_ms=valid_to_ms,
        expires_at_ms=candidate.expires_at_ms,
        source_event_ids=(envelope.event_id,) if envelope.event_id else (),
        source_message_ids=candidate.source_message_ids,
        provenance=statement.provenance,
        edges=entity_edges(candidate, candidate.entity_id),
        relations=candidate.relations,
    )
    memory = replace(memory, **fields)
    known = draft.memory(memory.memory_id)
    if known is not None:
        # One candidate makes one memory; it was made by an earlier copy of this statement.
        return known
    draft.put(memory, "created", memory.status)
    if candidate.vectors:
        draft.set_vectors(memory.memory_id, candidate.vectors)
        draft.link_similar(memory.memory_id)
    return memory


def confirm(draft: Draft, known: Memory, statement: Statement) -> Memory:
    """Let the same statement, made in another input, strengthen a memory; the same input again changes nothing."""
    candidate, event_id = statement.candidate, draft.proposal.event_id
    if event_id and event_id in known.source_event_ids:
        return known
    stronger = draft.policy.rank(candidate.source) > draft.policy.rank(known.source)
    becomes_active = known.status == "tentative" and not candidate.tentative
    confirmed = draft.change(
        known,
        "updated",
        "confirmed",
        status="active" if becomes_active else known.status,
        confidence=confirmed_confidence(known.confidence, candidate.confidence),
        confirmations=known.confirmations + 1,
        last_confirmed_at_ms=max(draft.proposal.stated_at_ms, known.last_confirmed_at_ms or 0),
        source=candidate.source if stronger else known.source,
        locked=known.locked and candidate.locked,
        needs_check="",
        source_event_ids=joined(draft, known.source_event_ids, (event_id,)),
        source_message_ids=joined(draft, known.source_message_ids, candidate.source_message_ids),
    )
    if becomes_active:
        others = [m for m in draft.with_key(known.dedupe_key, "active") if m.memory_id != known.memory_id]
        retire(draft, others, confirmed)
    return confirmed


def specify(draft: Draft, known: Memory, statement: Statement) -> Memory:
    """Let a memory say more precisely what it said; the old wording stays in its history."""
    candidate = statement.candidate
    specified = draft.change(
        known,
        "updated",
        "more specific",
        body_changed=True,
        value=candidate.value,
        content=candidate.content,
        language=candidate.language,
        confidence=max(known.confidence, candidate.confidence),
        importance=max(known.importance, candidate.importance),
        source=max(known.source, candidate.source, key=draft.policy.rank),
        status="active" if not candidate.tentative else known.status,
        last_confirmed_at_ms=draft.proposal.stated_at_ms,
        needs_check="",
        tags=tuple(dict.fromkeys((*known.tags, *candidate.tags))),
        relations=candidate.relations or known.relations,
        source_event_ids=joined(draft, known.source_event_ids, (draft.proposal.event_id,)),
        source_message_ids=joined(draft, known.source_message_ids, candidate.source_message_ids),
    )
    draft.set_vectors(known.memory_id, candidate.vectors)
    return specified


def supersede(draft: Draft, known: list[Memory], statement: Statement) -> Memory:
    """Make a new memory that takes the place of the live ones of its key; an unconfirmed one only of unconfirmed ones."""
    replaced = [m for m in known if m.status == "tentative" or not statement.candidate.tentative]
    memory = create(draft, statement, "active", supersedes=tuple(m.memory_id for m in replaced))
    retire(draft, [m for m in replaced if m.memory_id != memory.memory_id], memory)
    return memory


def retire(draft: Draft, replaced: list[Memory], by: Memory) -> None:
    """End live memories because ``by`` says something newer, and flag what hangs together with them."""
    for old in replaced:
        draft.change(
            old,
            "superseded",
            f"superseded by {by.memory_id}",
            status="superseded",
            superseded_at_ms=draft.now,
            valid_to_ms=old.valid_to_ms if old.valid_to_ms is not None else draft.proposal.stated_at_ms,
        )
        flag_group(draft, old, by)


def end_opposite(draft: Draft, statement: Statement, memory: Memory) -> None:
    """Retire the live memories that say the opposite of the same value; a lower-ranked source ends nothing."""
    key = opposite_key(statement.candidate, draft.proposal.user_id, draft.policy)
    if not key or memory.status not in LIVE:
        return
    for known in draft.with_key(key, *LIVE):
        same = relation_to(draft, statement, known) == "same"
        if same and time_of(draft, statement, known) == "now" and rank_of(draft, statement, known) != "lower":
            retire(draft, [known], memory)
            current = draft.memory(memory.memory_id) or memory
            draft.change(current, "updated", "opposite", supersedes=(*current.supersedes, known.memory_id))


def flag_group(draft: Draft, changed: Memory, by: Memory) -> None:
    """Ask for a check of the live memories that belong to the same thing as one that changed."""
    if not changed.link_group:
        return
    for other in draft.memories():
        same_group = other.link_group == changed.link_group and other.status in LIVE
        if same_group and other.memory_id not in (changed.memory_id, by.memory_id) and not other.needs_check:
            draft.change(other, "updated", "needs check", needs_check=by.memory_id)


def joined(draft: Draft, known: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """Return both without doubles; beyond the limit the first and the newest are kept."""
    joined = tuple(dict.fromkeys(text for text in (*known, *new) if text))
    limit = draft.policy.sources_kept
    return joined if len(joined) <= limit else (joined[0], *joined[-(limit - 1) :])
