"""A candidate as ``decide`` reads it: cleaned, with its key, its place in time and its standing against what is known.

Called by the candidate half of ``decide`` and by commands that believe a waiting candidate. Pure.
"""

import math
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from schemas.candidates import Candidate, Extraction, Relation
from schemas.errors import Rejected
from schemas.memories import Memory
from streams import decision_rules
from streams.canonical import canonical_value
from streams.decision_draft import Draft
from streams.decision_rules import Rank, Time, relation_of
from streams.decision_state import entity_id_of


@dataclass(frozen=True, slots=True)
class Statement:
    """A candidate with what it is said about: its key, its place in time, and what made it."""

    candidate: Candidate
    key: str
    provenance: dict[str, str]

    def from_ms(self, stated_at_ms: int) -> int:
        """Return since when the value holds."""
        return stated_at_ms if self.candidate.valid_from_ms is None else self.candidate.valid_from_ms


def made_by(extraction: Extraction, candidate: Candidate) -> dict[str, str]:
    """Return the provenance of a candidate: which extractor, prompt, model, gate and classifier, and its ordinal."""
    made = {
        "extractor": extraction.extractor,
        "extractor_revision": extraction.extractor_revision,
        "prompt_version": extraction.prompt_version,
        "model": extraction.model,
        "gate_version": extraction.gate_version,
        "classifier_version": extraction.classifier_version,
        "ordinal": str(candidate.ordinal),
    }
    return {name: text for name, text in made.items() if text}


def cleaned_candidate(draft: Draft, candidate: Candidate) -> Candidate:
    """Return the candidate in the form that is stored; raises ``Rejected`` with the reason it cannot be."""
    numbers = (candidate.confidence, candidate.importance)
    if not all(math.isfinite(number) and 0 <= number <= 1 for number in numbers):
        raise Rejected("confidence and importance must be from 0 to 1", code="bad_number")
    limit = draft.policy.id_limit_characters
    named = (candidate.subject, candidate.entity_type, candidate.entity_id, candidate.attribute, candidate.link_group)
    if max(map(len, (*named, candidate.type, candidate.category, candidate.scope))) > limit:
        raise Rejected(f"a name is longer than {limit} characters", code="too_long")
    if b"\\u0000" in msgspec.json.encode(replace(candidate, vectors=())):
        raise Rejected("the candidate holds a NUL character", code="bad_value")
    relations = {}
    for relation in candidate.relations:
        kept = _relation(draft, relation)
        if kept is None:
            draft.refuse("bad_relation")
        else:
            relations[(kept.subject_type, kept.subject_id, kept.predicate, kept.object_type, kept.object_id)] = kept
    return replace(
        candidate,
        value=canonical_value(candidate.value),
        entity_id=entity_id_of(candidate, draft.proposal.user_id),
        relations=tuple(relations.values()),
        tags=tuple(dict.fromkeys(candidate.tags)),
    )


def _relation(draft: Draft, relation: Relation) -> Relation | None:
    user_id, limit = draft.proposal.user_id, draft.policy.id_limit_characters
    names = (relation.subject_type, relation.subject_id, relation.predicate, relation.object_type, relation.object_id)
    if not all(0 < len(name) <= limit for name in names) or not 0 <= relation.weight <= 1:
        return None
    return replace(
        relation,
        subject_id=user_id if relation.subject_id == "self" else relation.subject_id,
        object_id=user_id if relation.object_id == "self" else relation.object_id,
    )


def relation_to(draft: Draft, statement: Statement, memory: Memory) -> decision_rules.Relation:
    """Return how the statement's value relates to a memory's."""
    return relation_of(draft.policy.vocabulary, memory.attribute, statement.candidate.value, memory.value)


def time_of(draft: Draft, statement: Statement, known: Memory) -> Time:
    """Say whether the statement is about a time before the known one's; a correction is about now."""
    stated = draft.proposal.stated_at_ms
    if statement.candidate.valid_from_ms is not None and statement.candidate.intent != "correct":
        since = known.stated_at_ms if known.valid_from_ms is None else known.valid_from_ms
        return "earlier" if statement.candidate.valid_from_ms < since else "now"
    return "earlier" if stated < known.stated_at_ms else "now"


def rank_of(draft: Draft, statement: Statement, known: Memory) -> Rank:
    """Return how the statement's source stands against the memory's."""
    difference = draft.policy.rank(statement.candidate.source) - draft.policy.rank(known.source)
    return "equal" if difference == 0 else "higher" if difference > 0 else "lower"
