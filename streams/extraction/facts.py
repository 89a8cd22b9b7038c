"""A fact as the rules find it, and the candidate it becomes: sentence, relation, value, times.

Owns the wording of memories (templates of the vocabulary, names of people) and the confidence guide. Called by every rule
module of extraction. Never reads text for facts itself.
"""

import datetime as dt
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import msgspec

from schemas.candidates import Candidate, Relation
from streams.text.times import TimeSpan, end_of_day_ms, local_time
from streams.vocabulary import attribute_of

EXPLICIT = 0.95
PLAIN = 0.85
CORRECTED_RECORD = 0.7
HEDGED = 0.5
INFERRED = 0.3
SELF = "self"
USER = "user"


@dataclass(frozen=True, slots=True)
class Person:
    """A person the user talks about: subject key and how both languages call them."""

    key: str
    chinese: tuple[str, ...]
    english: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One found fact; ``value`` is the text as said, ``structured`` replaces it in the JSON value where one exists."""

    attribute: str
    value: str
    language: str
    subject: str = USER
    type: str = "user_profile"
    entity_type: str = ""
    entity_id: str = ""
    structured: object = None
    sentence: str = ""
    confidence: float = PLAIN
    importance: float = 0.7
    source: str = "user_statement"
    intent: str = "inform"
    negated: bool = False
    tentative: bool = False
    period: TimeSpan | None = None
    expires: bool = False
    message_id: str = "user"
    relation: tuple[str, str, str] | None = None
    clause: str = ""


@lru_cache(maxsize=1)
def people() -> dict[str, Person]:
    """Return the kinship and acquaintance table by subject key."""
    raw = tomllib.loads(resources.files("streams.data").joinpath("kinship.toml").read_text(encoding="utf-8"))
    return {key: Person(key, tuple(entry["zh"]), tuple(entry["en"]), entry["label"]) for key, entry in raw.items()}


@lru_cache(maxsize=2)
def person_by_word(language: str) -> dict[str, str]:
    """Return the subject key of every word for a person in ``zh`` or ``en``."""
    return {
        word: person.key
        for person in people().values()
        for word in (person.chinese if language == "zh" else person.english)
    }


def subject_label(subject: str, language: str, *, possessive: bool = False) -> str:
    """Return how a sentence names the subject: 用户的母亲, The user's mother, Tom."""
    person, _, key = subject.partition(":")
    known = people().get(key)
    if language == "zh":
        if person == USER:
            return "用户"
        return f"用户的{known.label}" if known else key
    label = "The user" if person == USER else (f"The user's {key.replace('_', ' ')}" if known else key)
    return f"{label}'s" if possessive else label


def sentence_of(fact: Fact) -> str:
    """Return the self-contained sentence of a fact in its language."""
    if fact.sentence:
        return fact.sentence
    entry = attribute_of(fact.attribute)
    template = entry.chinese if fact.language == "zh" else entry.english
    if not template:
        template = "{s}的{a}是{v}" if fact.language == "zh" else "{p} {a} is {v}"
    text = template.format(
        s=subject_label(fact.subject, fact.language),
        p=subject_label(fact.subject, fact.language, possessive=True),
        v=fact.value,
        a=fact.attribute.replace("_", " "),
        e=entity_label(fact),
    )
    if fact.negated:
        return f"不再成立：{text}" if fact.language == "zh" else f"No longer true: {text}"
    return text


def entity_label(fact: Fact) -> str:
    """Return how a sentence names the entity of an order or a ticket."""
    number = "" if fact.entity_id in {"", "latest"} else fact.entity_id
    if fact.language == "zh":
        return {"order": "订单", "ticket": "工单"}.get(fact.entity_type, fact.entity_type) + number
    name = {"order": "order", "ticket": "ticket"}.get(fact.entity_type, fact.entity_type)
    return f"{name} {number}" if number else f"the {name}"


def candidate_of(fact: Fact, ordinal: int, timezone_offset: str | None) -> Candidate:
    """Return the candidate of a fact; identifiers and times are filled from the fact's own period."""
    person, _, key = fact.subject.partition(":")
    entity_type = fact.entity_type or ("user" if person == USER else "person")
    entity_id = fact.entity_id or (SELF if person == USER else key)
    period = fact.period
    return Candidate(
        ordinal=ordinal,
        type=fact.type,
        subject=fact.subject,
        entity_type=entity_type,
        entity_id=entity_id,
        attribute=fact.attribute,
        value=msgspec.json.encode(fact.value if fact.structured is None else fact.structured).decode(),
        content=sentence_of(fact),
        language=fact.language,
        confidence=fact.confidence,
        importance=fact.importance,
        source=fact.source,
        intent=fact.intent,
        negated=fact.negated,
        tentative=fact.tentative,
        event_time_ms=period.from_ms if period else None,
        valid_from_ms=period.from_ms if period and fact.type in {"event", "event_commitment"} else None,
        valid_to_ms=period.to_ms if period and fact.type == "event_commitment" else None,
        expires_at_ms=end_of_day_ms(period.to_ms - 1, timezone_offset) if period and fact.expires else None,
        source_message_ids=(fact.message_id,),
        relations=_relations(fact, entity_type, entity_id),
    )


def _relations(fact: Fact, entity_type: str, entity_id: str) -> tuple[Relation, ...]:
    if fact.negated:
        return ()
    if fact.relation is not None:
        predicate, object_type, object_id = fact.relation
    else:
        entry = attribute_of(fact.attribute)
        predicate, object_type, object_id = entry.predicate, entry.object_type, fact.value
    if not predicate:
        return ()
    return (
        Relation(
            subject_type=entity_type,
            subject_id=entity_id,
            predicate=predicate,
            object_type=object_type,
            object_id=object_id,
            weight=fact.confidence,
        ),
    )


def local_stamp(period: TimeSpan, timezone_offset: str | None) -> str:
    """Return the beginning of a period as local text: ``2025-03-11 15:00``, or the date alone for whole days."""
    moment: dt.datetime = local_time(period.from_ms, timezone_offset)
    whole_days = (period.to_ms - period.from_ms) >= 86_400_000
    return moment.strftime("%Y-%m-%d") if whole_days else moment.strftime("%Y-%m-%d %H:%M")
