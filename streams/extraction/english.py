"""The English rule table: what a clause says about somebody.

Owns the patterns of statements (names, places, jobs, family, tastes, health). Called by ``rules`` for each clause that is
not a question, quotation or supposition. Returns facts without times; commitments and orders have files of their own.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from streams.extraction.facts import EXPLICIT, HEDGED, USER, Fact, person_by_word, sentence_of, subject_label
from streams.extraction.patterns import Rule, first_facts, patterns, rule_table
from streams.extraction.values import clean_english, list_english, usable_english

_PATTERNS = patterns("english")
_FILLER = _PATTERNS["filler"]
_CONTRACTIONS = (
    (re.compile(r"\b(I)['’]m\b", re.IGNORECASE), r"\1 am"),
    (re.compile(r"\b(I|we|they|you)['’]ve\b", re.IGNORECASE), r"\1 have"),
    (re.compile(r"\b(I|we|they|you|he|she)['’]d\b", re.IGNORECASE), r"\1 would"),
    (re.compile(r"\b(I|we|they|you|he|she)['’]ll\b", re.IGNORECASE), r"\1 will"),
    (re.compile(r"\b(he|she|it|that)['’]s\b", re.IGNORECASE), r"\1 is"),
    (re.compile(r"\b(we|they|you)['’]re\b", re.IGNORECASE), r"\1 are"),
    (re.compile(r"\bcan['’]?t\b|\bcannot\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon['’]t\b", re.IGNORECASE), "will not"),
    (re.compile(r"n['’]t\b", re.IGNORECASE), " not"),
    (re.compile(r"\bdont\b", re.IGNORECASE), "do not"),
)
_ADVERB = _PATTERNS["adverb"]
_NAME = r"[A-Za-z][\w'’-]{0,24}(?: [A-Z][\w'’.-]{0,24}){0,3}"
_NOT_NAME = _PATTERNS["not_name"]
_NATIONALITY = _PATTERNS["nationality"]
_JOB = _PATTERNS["job"]


_RULES = rule_table("english")
_CALL_ME = re.compile(
    rf"^(?:please |just |you can |everyone |people |my friends )*call(?:s)? me (?P<v>{_NAME})$", re.IGNORECASE
)
_NAMED_APPOSITION = re.compile(r"^([A-Z][a-z'’-]{1,20}), (?:an? )?(?P<rest>.+)$")
_WOULD_LIKE = re.compile(
    r"^would (?:like|love|prefer|enjoy)|^(?:will|might|may|could|should|can|had|need|want)\b", re.IGNORECASE
)


@lru_cache(maxsize=1)
def _subject_pattern() -> re.Pattern[str]:
    words = "|".join(sorted(map(re.escape, person_by_word("en")), key=len, reverse=True))
    return re.compile(
        rf"^(?:it (?:is|was) )?(?P<me>I|we)\s+(?=\S)"
        rf"|^(?:it (?:is|was) |not me,? )*(?:my|our) (?:[a-z-]+ )??(?P<kin>{words})"
        rf"(?:,? (?P<named>(?-i:[A-Z][a-z'’-]+)),?)?(?P<have>['’]s)?\s+(?=\S)"
        rf"|^(?P<mine>my)\s+(?=\S)"
        rf"|^(?P<pronoun>he|she|they|his|her|their)\s+(?=\S)"
        rf"|^(?P<name>(?-i:[A-Z][a-z]{{1,20}})) (?=(?:likes|loves|hates|enjoys|is|lives|works|prefers|has|dislikes)\b)",
        re.IGNORECASE,
    )


@lru_cache(maxsize=256)
def opened(text: str) -> str:
    """Return the clause without fillers at its beginning and with contractions written out."""
    body = text
    if "'" in body or "’" in body or "cannot" in body or "dont" in body:
        for pattern, replacement in _CONTRACTIONS:
            body = pattern.sub(replacement, body)
    return _FILLER.sub("", body)


def subject_of(text: str, carried: str | None, person: str | None) -> tuple[str | None, str]:
    """Return who a clause speaks about and the rest of it; ``None`` when it is somebody we cannot name.

    ``carried`` is the subject an omitted one continues, ``person`` whom he or she means.
    """
    body = opened(text)
    match = _subject_pattern().match(body)
    if match is None:
        if _CALL_ME.match(body):
            return USER, body
        verb = re.match(
            r"(?:am|work|live|love|like|hate|enjoy|prefer|allergic|based|from|not|no longer|born"
            r"|moved|do not|has|have|is|likes|loves|hates|lives|works|prefers|does not)\b",
            body,
        )
        return (carried, body) if verb else (None, body)
    rest = re.sub(r"^(?:who|that) (?=is|was|has|likes|hates|lives|works|loves)", "", body[match.end() :])
    if match["me"] or match["mine"]:
        return USER, rest
    if match["pronoun"]:
        return person, rest
    if match["name"]:
        named = match["name"]
        return (f"person:{named}", rest) if named[0].isupper() and named.lower() not in _NO_PERSON else (None, body)
    if match["have"] and re.match(r"(?:allergic|an?|from|called|named|\d|born|vegan|vegetarian|married|not)\b", rest):
        rest = f"is {rest}"
    key = person_by_word("en")[match["kin"].lower()]
    return (f"person:{match['named']}" if match["named"] and match["named"][0].isupper() else f"person:{key}"), rest


_NO_PERSON = frozenset(
    [
        "there",
        "here",
        "everyone",
        "everything",
        "nothing",
        "work",
        "life",
        "food",
        "music",
        "china",
        "english",
        "jazz",
        "python",
        "google",
        "he",
        "she",
        "it",
        "who",
        "someone",
        "somebody",
        "nobody",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "january",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "which",
        "that",
        "this",
        "and",
        "but",
        "so",
    ]
)


def facts_of(text: str, subject: str, rest: str, *, hedged: bool, past: bool) -> Iterator[Fact]:
    """Yield what an English clause states about ``subject``; ``rest`` is the clause after its subject."""
    base = Fact(attribute="", value="", language="en", subject=subject)
    if call := _CALL_ME.match(opened(text)):
        yield replace(base, subject=USER, attribute="nickname", value=call["v"], confidence=EXPLICIT)
        return
    bare = _ADVERB.sub("", rest.strip(" .,!?")) if '"' not in rest else rest
    if _WOULD_LIKE.match(bare) and not bare.startswith("would rather"):
        return
    if subject == USER and re.match(r"am [A-Z]", bare) and (apposition := _NAMED_APPOSITION.match(bare[3:])):
        if not _NATIONALITY.match(apposition[1]):
            yield replace(base, attribute="name", value=apposition[1], confidence=EXPLICIT)
        bare = f"am a {apposition['rest']}"
    if ended := re.match(
        r"no longer (?!eat|drink|smok)(?P<rest>.+)|do not (?P<now>(?:live|work) .+?) any ?more$", bare
    ):
        was = ended["rest"] or ended["now"]
        stated = [fact for form in (was, f"am {was}") for fact in _apply(form, base)]
        yield from (replace(fact, negated=True, intent="correct") for fact in stated if not fact.negated)
        return
    for part in _coordinated(bare):
        yield from _qualify_all(_apply(part, base), bare, hedged=hedged, past=past)


def _coordinated(rest: str) -> list[str]:
    """``have two kids and a dog`` is two statements with one verb."""
    if not rest.startswith("have "):
        return [rest]
    parts = re.split(r"(?:,\s*|\s+)and\s+(?=(?:an?|one|two|three)\s)", rest)
    return [parts[0], *(f"have {part}" for part in parts[1:])]


def _qualify_all(facts: Iterable[Fact], clause: str, *, hedged: bool, past: bool) -> Iterator[Fact]:
    for fact in facts:
        yield _qualified(fact, clause, hedged=hedged, past=past)


def _apply(rest: str, base: Fact) -> list[Fact]:
    return first_facts(_RULES, rest, base, _facts_of_match)


def _facts_of_match(rule: Rule, match: re.Match[str], base: Fact) -> Iterator[Fact]:
    groups = match.groupdict()
    raw = groups["v"] or groups.get("w") or ""
    if rule.attribute == "employment":
        yield from _employment(raw, base, strict=rule.check == "job")
        return
    if rule.attribute == "favourite":
        value = clean_english(raw)
        if usable_english(value):
            kind = groups["k"].strip()
            yield replace(base, attribute="likes", value=value, sentence=_favourite(base, kind, value))
        return
    if rule.attribute == "avoids":
        yield from _avoided(raw, base)
        return
    attribute = "hometown" if rule.attribute == "nationality" else rule.attribute
    values = list_english(raw) if rule.many else (_single(rule.check, raw),)
    infinitive = groups.get("to")
    for value in values:
        if value and (rule.many or _passes(rule.check, value)):
            told = (
                sentence_of(replace(base, attribute=attribute, value=f"{infinitive.strip()} {value}"))
                if infinitive
                else ""
            )
            yield replace(
                base, attribute=attribute, value=value, negated=rule.negated, confidence=rule.confidence, sentence=told,
                intent="correct" if rule.negated else "inform",
            )  # fmt: skip


def _avoided(raw: str, base: Fact) -> Iterator[Fact]:
    """``do not eat coriander``: the thing is coriander, the sentence keeps the verb."""
    match = re.match(r"(?P<verb>eat|drink|smoke)(?:ing)?\b ?(?P<thing>.*)$", raw, re.IGNORECASE)
    verb, things = (match["verb"].lower(), match["thing"]) if match else ("", raw)
    label = subject_label(base.subject, "en")
    if verb and not clean_english(things):
        yield replace(
            base,
            attribute="avoids",
            value={"eat": "eating", "drink": "alcohol", "smoke": "smoking"}[verb],
            sentence=f"{label} does not {verb}",
        )
        return
    for thing in list_english(things):
        told = f"{label} does not {verb} {thing}" if verb else f"{label} avoids {thing}"
        yield replace(base, attribute="avoids", value=thing, sentence=told)


def _single(check: str, raw: str) -> str:
    if check == "place":
        return re.sub(r"^the ", "", re.split(r"\s+(?:and|with|for|since|as|near|but|last|this)\b", raw)[0]).strip(" ,.")
    return clean_english(raw) if check not in {"date", "title"} else raw.strip(" .,!")


def _favourite(base: Fact, kind: str, value: str) -> str:
    owner = (
        "The user's" if base.subject == USER else f"{base.subject.partition(':')[2].replace('_', ' ').capitalize()}'s"
    )
    return f"{owner} favourite {kind} is {value}"


def _employment(raw: str, base: Fact, *, strict: bool) -> Iterator[Fact]:
    """A job with its employer and place: ``backend developer at Nebula in Berlin``."""
    aged = re.match(r"(\d{1,3})[- ]years?[- ]old ", raw)
    if aged:
        yield replace(base, attribute="age", value=aged[1], confidence=EXPLICIT)
        raw = raw[aged.end() :]
    raw = re.sub(r"\s+(?:living|working|based|who lives|who works)(?= (?:in|at|for)\b)", "", raw)
    parts = re.split(r"\s+(at|for|with|in|from|based in)\s+(?=(?:the |an? )?[A-Z])", raw)
    job = clean_english(parts[0])
    if usable_english(job, 40) and (_JOB.search(job) if strict else True):
        yield replace(base, attribute="job", value=job)
    elif strict:
        return
    for word, name in zip(parts[1::2], parts[2::2], strict=False):
        clean = clean_english(name)
        if clean:
            attribute = {"in": "city", "based in": "city", "from": "hometown"}.get(word, "employer")
            yield replace(base, attribute=attribute, value=clean)


_NO_EMPLOYER = re.compile(r"(?:an? )?(?:I|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)\b")
_CHECKS: dict[str, Callable[[str], bool]] = {
    "name": lambda value: _NOT_NAME.match(value) is None,
    "self_name": lambda value: not (_NOT_NAME.match(value) or _NATIONALITY.match(value) or _JOB.search(value)),
    "nationality": lambda value: _NATIONALITY.match(value) is not None,
    "age": lambda value: 0 < int(value) < 130,
    "title": bool,
    "date": lambda value: re.search(r"\d", value) is not None,
    "place": lambda value: usable_english(value) and value not in {"I", "God", "Friday"},
    "employer": lambda value: _NO_EMPLOYER.match(value) is None,
}


def _passes(check: str, value: str) -> bool:
    return _CHECKS[check](value) if check in _CHECKS else usable_english(value, 90)


def _qualified(fact: Fact, clause: str, *, hedged: bool, past: bool) -> Fact:
    if hedged:
        fact = replace(fact, confidence=min(fact.confidence, HEDGED))
    former = {"city": "city_before", "job": "job_before", "employer": "job_before"}
    if past and fact.attribute in former and re.search(r"used to|formerly|previously|worked", clause, re.IGNORECASE):
        return replace(fact, attribute=former[fact.attribute])
    return fact
