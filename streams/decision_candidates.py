"""The first half of ``decide``: what the facts proposed from one input do to memory.

Called by ``decide``. Pure. Each candidate is filed on its own, in the order of the turn; the tables are in ``decision_rules``.
"""

import msgspec
from msgspec.structs import replace

from schemas.candidates import Candidate, Extraction
from schemas.errors import Rejected
from schemas.ids import derived_id
from schemas.memories import Edge, Memory, PendingEntry, QuarantineEntry, ReviewEntry
from streams.decision_draft import Draft
from streams.decision_facts import confirm, create, end_opposite, flag_group, specify, supersede
from streams.decision_rules import ACTIONS, is_big_jump
from streams.decision_state import LIVE, dedupe_key, first_memory_id
from streams.decision_statement import Statement, cleaned_candidate, made_by, rank_of, relation_to, time_of

_DAY_MS = 86_400_000


def decide_extraction(draft: Draft, extraction: Extraction) -> None:
    """File every refusal and every candidate of an input."""
    _file_refusals(draft, extraction)
    for _ in extraction.candidates[draft.policy.facts_per_turn :]:
        draft.refuse("too_many")
    memory_of_ordinal: dict[int, str] = {}
    chosen = sorted(extraction.candidates[: draft.policy.facts_per_turn], key=lambda c: c.ordinal)
    for candidate in chosen:
        if candidate.outcome in ("reject", "quarantine"):
            draft.refuse(candidate.outcome)
            continue
        try:
            cleaned = cleaned_candidate(draft, candidate)
        except Rejected as error:
            draft.refuse(error.code)
            continue
        statement = Statement(
            cleaned, dedupe_key(cleaned, draft.proposal.user_id, draft.policy), made_by(extraction, cleaned)
        )
        memory = _file(draft, statement)
        if memory is not None:
            memory_of_ordinal[candidate.ordinal] = memory.memory_id
    _link_causes(draft, chosen, memory_of_ordinal)


def _file_refusals(draft: Draft, extraction: Extraction) -> None:
    envelope = draft.proposal
    for number, refusal in enumerate(extraction.refusals):
        draft.file(
            QuarantineEntry(
                entry_id=derived_id(
                    "quarantine", envelope.tenant_id, envelope.user_id, envelope.proposal_id, str(number)
                ),
                gate=refusal.gate,
                rule_id=refusal.rule_id,
                gate_version=refusal.gate_version,
                outcome=refusal.outcome,
                side=refusal.side,
                excerpt=refusal.excerpt.replace("\x00", "")[:200],
                source_event_id=envelope.event_id,
                created_at_ms=draft.now,
                state="waiting" if refusal.outcome == "quarantine" else "rejected",
            )
        )


def _file(draft: Draft, statement: Statement) -> Memory | None:
    """File one candidate; return the memory that now says it, if there is one."""
    candidate = statement.candidate
    if draft.is_forgotten(statement.key, draft.proposal.received_at_ms):
        draft.refuse("forgotten")
        return None
    made = _made_before(draft, statement)
    if made is not None:
        return made
    if candidate.outcome == "pending" or candidate.confidence < draft.policy.pending_confidence:
        return _file_uncertain(draft, statement)
    for entry in _same_entries(draft, statement):
        if entry.source_event_id != draft.proposal.event_id:
            draft.file(replace(entry, state="promoted"))
    return file_certain(draft, statement)


def _made_before(draft: Draft, statement: Statement) -> Memory | None:
    """Return what an earlier proposal of the same input made of this statement, or told it about the same thing.

    An input is decided once: embedded again, it neither undoes what became of that since nor gives way to itself.
    """
    event_id, loaded = draft.proposal.event_id, draft.state.memories
    if statement.candidate.negated:
        return None
    made = loaded.get(first_memory_id(draft.proposal, statement.key, statement.candidate.ordinal))
    if made is not None:
        return draft.memory(made.memory_id)
    for known in draft.with_key(statement.key, *LIVE, "review", "historical"):
        if event_id and known.memory_id in loaded and event_id in loaded[known.memory_id].source_event_ids:
            return known
    return None


def file_certain(draft: Draft, statement: Statement) -> Memory | None:
    """File a candidate that is believed: negation, confirmation, change, history or a new memory."""
    if statement.candidate.negated:
        _end(draft, statement)
        return None
    memory = _meet_live(draft, statement)
    end_opposite(draft, statement, memory)
    return memory


def _meet_live(draft: Draft, statement: Statement) -> Memory:
    known = draft.with_key(statement.key, *LIVE)
    if not known:
        return _meet_historical(draft, statement) or create(draft, statement, "active")
    met = next((m for m in known if relation_to(draft, statement, m) == "same"), known[0])
    action = ACTIONS[relation_to(draft, statement, met), time_of(draft, statement, met), rank_of(draft, statement, met)]
    if action == "weigh":
        action = "review" if _waits_for_review(draft, met, statement) else "supersede"
    match action:
        case "confirm":
            memory = confirm(draft, met, statement)
        case "specify":
            memory = specify(draft, met, statement)
        case "history":
            memory = _meet_historical(draft, statement) or create(draft, statement, "historical", until=met)
        case "beside":
            memory = _keep_beside(draft, met, statement)
        case "review":
            _file_review(draft, met, statement, "sensitive_jump")
            memory = met
        case "supersede":
            memory = supersede(draft, known, statement)
    return memory


def _waits_for_review(draft: Draft, known: Memory, statement: Statement) -> bool:
    vocabulary, attribute, candidate = draft.policy.vocabulary, known.attribute, statement.candidate
    if not vocabulary.is_sensitive(attribute):
        return False
    return is_big_jump(vocabulary, attribute, candidate.value, known.value, draft.policy.jump_years)


def _meet_historical(draft: Draft, statement: Statement) -> Memory | None:
    """Confirm a memory of earlier times when the same is told about the same time again."""
    if statement.candidate.valid_from_ms is None:
        return None
    for memory in draft.with_key(statement.key, "historical"):
        same_time = memory.valid_from_ms == statement.candidate.valid_from_ms
        if same_time and relation_to(draft, statement, memory) == "same":
            return confirm(draft, memory, statement)
    return None


def _keep_beside(draft: Draft, known: Memory, statement: Statement) -> Memory:
    """Keep a lower-ranked statement as a memory under review; what a better source said stays."""
    for other in draft.with_key(statement.key, "review"):
        if relation_to(draft, statement, other) == "same":
            return confirm(draft, other, statement)
    confidence = min(statement.candidate.confidence, draft.policy.beside_confidence)
    beside = create(draft, statement, "review", confidence=confidence)
    _file_review(draft, known, statement, "lower_source", beside.memory_id)
    return beside


def _file_review(draft: Draft, known: Memory, statement: Statement, reason: str, other_memory_id: str = "") -> None:
    candidate, envelope = statement.candidate, draft.proposal
    if any(r.reason == reason and _same_as_entry(draft, statement, r.candidate) for r in draft.reviews(statement.key)):
        return
    draft.file(
        ReviewEntry(
            entry_id=derived_id(
                "review", envelope.tenant_id, envelope.user_id, envelope.proposal_id, str(candidate.ordinal)
            ),
            memory_id=known.memory_id,
            dedupe_key=statement.key,
            content=candidate.content,
            candidate=msgspec.json.encode(candidate).decode(),
            reason=reason,
            source_event_id=envelope.event_id,
            created_at_ms=draft.now,
            other_memory_id=other_memory_id,
        )
    )


def _end(draft: Draft, statement: Statement) -> None:
    """Let a negation end the live memories of that value; a lower-ranked source only asks."""
    for known in draft.with_key(statement.key, *LIVE):
        named = statement.candidate.value in ("null", '""') or relation_to(draft, statement, known) != "other"
        if not named or draft.proposal.stated_at_ms < known.stated_at_ms:
            continue
        if rank_of(draft, statement, known) == "lower":
            _file_review(draft, known, statement, "negated_by_lower_source")
            continue
        ended = draft.change(
            known, "updated", "negated", status="historical", valid_to_ms=statement.from_ms(draft.proposal.stated_at_ms)
        )
        flag_group(draft, ended, ended)


def _file_uncertain(draft: Draft, statement: Statement) -> Memory | None:
    """File a candidate of low confidence: it strengthens what is known, is believed the second time, or waits."""
    candidate, envelope = statement.candidate, draft.proposal
    if not candidate.negated:
        for known in draft.with_key(statement.key, *LIVE):
            if relation_to(draft, statement, known) == "same":
                return confirm(draft, known, statement)
    entries = _same_entries(draft, statement)
    for entry in entries:
        if entry.source_event_id != envelope.event_id:
            draft.file(replace(entry, state="promoted"))
            return file_certain(draft, promoted(draft, statement, entry))
    if not entries:
        draft.file(
            PendingEntry(
                entry_id=derived_id(
                    "pending", envelope.tenant_id, envelope.user_id, envelope.proposal_id, str(candidate.ordinal)
                ),
                dedupe_key=statement.key,
                content=candidate.content,
                confidence=candidate.confidence,
                candidate=msgspec.json.encode(candidate).decode(),
                reason="low_confidence" if candidate.confidence < draft.policy.pending_confidence else "marked",
                source_event_id=envelope.event_id,
                created_at_ms=draft.now,
                expires_at_ms=draft.now + draft.policy.pending_days * _DAY_MS,
            )
        )
    return None


def promoted(draft: Draft, statement: Statement, entry: PendingEntry) -> Statement:
    """Return the statement as it is believed once an earlier, uncertain one said the same."""
    confidence = max(statement.candidate.confidence, entry.confidence, draft.policy.pending_confidence)
    provenance = {**statement.provenance, "pending_event_id": entry.source_event_id}
    return Statement(replace(statement.candidate, confidence=confidence, outcome="admit"), statement.key, provenance)


def _same_entries(draft: Draft, statement: Statement) -> list[PendingEntry]:
    return [e for e in draft.waiting(statement.key) if _same_as_entry(draft, statement, e.candidate)]


def _same_as_entry(draft: Draft, statement: Statement, candidate_json: str) -> bool:
    other = msgspec.json.decode(candidate_json, type=Candidate)
    normalised = draft.policy.vocabulary.normalised_value
    name = statement.candidate.attribute
    same_value = normalised(name, other.value) == normalised(name, statement.candidate.value)
    return same_value and other.negated == statement.candidate.negated


def _link_causes(draft: Draft, candidates: list[Candidate], memory_of_ordinal: dict[int, str]) -> None:
    for candidate in candidates:
        effect = memory_of_ordinal.get(candidate.ordinal)
        for ordinal in candidate.causes:
            cause = memory_of_ordinal.get(ordinal)
            if cause and effect and cause != effect:
                draft.add_edge(cause, Edge(kind="CAUSES", target_kind="memory", target_id=effect), "cause")
