"""Explicit causes: which fact of a turn the user gave as the reason of another.

Owns the patterns of "because" in both languages. Called by ``rules`` when all facts of a message are known. Only what is
said with a word of cause is linked; nothing is inferred from order.
"""

import re
from dataclasses import replace

import msgspec

from schemas.candidates import Candidate
from streams.extraction.clauses import language_of, own_words
from streams.extraction.commitments import third_person
from streams.extraction.facts import PLAIN, Fact

_PATTERNS = (
    re.compile(r"(?:因为|由于)(?P<cause>[^，,。！？!?\n]{2,60})[，,](?:所以|因此|就)?(?P<effect>[^。！？!?\n]{2,100})"),
    re.compile(r"(?P<effect>[^。！？!?\n]{2,100}?)[，,]?(?:主要)?(?:是)?(?:因为|由于)(?P<cause>[^。！？!?\n]{2,60})"),
    re.compile(r"(?P<effect>[^.!?\n]{3,200}?),? because (?P<cause>(?!of\b)[^.!?\n]{3,160})", re.IGNORECASE),
    re.compile(r"\bbecause (?P<cause>(?!of\b)[^.!?,\n]{3,160}), (?P<effect>[^.!?\n]{3,200})", re.IGNORECASE),
)


def with_reasons(facts: list[Fact], message: str) -> list[Fact]:
    """Return the facts, and a fact for each reason that no rule had found by itself."""
    added = []
    for cause, effect in _pairs(message):
        effects = [fact for fact in facts if fact.clause and fact.clause in effect and not fact.negated]
        known = any(fact.clause and fact.clause in cause for fact in facts)
        if effects and not known:
            language = language_of(cause)
            told = third_person(cause.strip(), language)
            sentence = f"用户说：{told}" if language == "zh" else f"The user said: {told}"
            base = Fact(attribute="reason", value=cause.strip(), language=language, type="fact", importance=0.5)
            added.append(
                replace(base, sentence=sentence, clause=cause, confidence=PLAIN, message_id=effects[0].message_id)
            )
    return [*facts, *added]


def linked(candidates: tuple[Candidate, ...], facts: list[Fact], message: str) -> tuple[Candidate, ...]:
    """Return the candidates with the ordinals of their causes; both lists have the same order."""
    causes: dict[int, set[int]] = {}
    for cause, effect in _pairs(message):
        reasons = {
            index for index, fact in enumerate(facts) if fact.clause and fact.clause in cause and not fact.negated
        }
        for index, fact in enumerate(facts):
            if fact.clause and fact.clause in effect and index not in reasons:
                causes.setdefault(index, set()).update(reasons)
    return tuple(
        msgspec.structs.replace(candidate, causes=tuple(sorted(causes[index]))) if causes.get(index) else candidate
        for index, candidate in enumerate(candidates)
    )


def _pairs(message: str) -> list[tuple[str, str]]:
    if not re.search(r"因为|由于|because", message, re.IGNORECASE):
        return []
    text = own_words(message)
    for pattern in _PATTERNS:
        found = [(match["cause"], match["effect"]) for match in pattern.finditer(text)]
        if found:
            return found
    return []
