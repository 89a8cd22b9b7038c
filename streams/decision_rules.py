"""The tables of ``decide``: how a new statement relates to a known one, and what follows from that.

Called by ``decide`` only. Pure and small: each rule can be read, and tested, on its own.
"""

import re
from typing import Literal

import msgspec

from streams.decision_policy import Vocabulary

Relation = Literal["same", "narrower", "broader", "other"]
Time = Literal["now", "earlier"]
Rank = Literal["lower", "equal", "higher"]
Action = Literal["confirm", "specify", "supersede", "weigh", "review", "history", "beside"]

# (how the new value relates to the known one, which time it is about, rank of its source against the known source's).
# "weigh" supersedes unless the attribute is sensitive and the jump is big: then it waits for review.
ACTIONS: dict[tuple[Relation, Time, Rank], Action] = {
    ("same", "now", "lower"): "confirm",
    ("same", "now", "equal"): "confirm",
    ("same", "now", "higher"): "confirm",
    ("same", "earlier", "lower"): "confirm",
    ("same", "earlier", "equal"): "confirm",
    ("same", "earlier", "higher"): "confirm",
    ("narrower", "now", "lower"): "beside",
    ("narrower", "now", "equal"): "specify",
    ("narrower", "now", "higher"): "specify",
    ("narrower", "earlier", "lower"): "history",
    ("narrower", "earlier", "equal"): "history",
    ("narrower", "earlier", "higher"): "history",
    ("broader", "now", "lower"): "confirm",
    ("broader", "now", "equal"): "confirm",
    ("broader", "now", "higher"): "confirm",
    ("broader", "earlier", "lower"): "confirm",
    ("broader", "earlier", "equal"): "confirm",
    ("broader", "earlier", "higher"): "confirm",
    ("other", "now", "lower"): "beside",
    ("other", "now", "equal"): "weigh",
    ("other", "now", "higher"): "supersede",
    ("other", "earlier", "lower"): "history",
    ("other", "earlier", "equal"): "history",
    ("other", "earlier", "higher"): "history",
}

# What hardly ever changes in a life: another text is a mistake or another person, until somebody confirms it.
LASTING = frozenset({"name", "gender", "hometown", "birthday"})
_NEGATING = re.compile(r"不|没|無|无|非|未|别|\b(?:no|not|never|non|none|without|except|former|formerly|ex)\b")
_YEAR = re.compile(r"(?<!\d)(1[89]\d\d|20\d\d)(?!\d)")
_SMALL_NUMBER = re.compile(r"\d{1,3}(?:\.\d+)?")
_CJK = re.compile(r"[\u3400-\u9fff]")
_WORD = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]")


def relation_of(vocabulary: Vocabulary, attribute: str, new_json: str, known_json: str) -> Relation:
    """Return how the new value relates to the known one; both are JSON texts of values of ``attribute``."""
    new, known = vocabulary.normalised_value(attribute, new_json), vocabulary.normalised_value(attribute, known_json)
    if new == known:
        return "same"
    if _adds_to(_plain(new_json, new), _plain(known_json, known)):
        return "narrower"
    if _adds_to(_plain(known_json, known), _plain(new_json, new)):
        return "broader"
    return "other"


def _plain(value_json: str, normalised: str) -> str | dict[str, object]:
    """Return the form that can be compared for "says more": text as normalised, an object as it is, else nothing."""
    try:
        value = msgspec.json.decode(value_json)
    except msgspec.DecodeError:
        return normalised
    if isinstance(value, dict):
        return value
    return normalised if isinstance(value, str) else ""


def _adds_to(longer: str | dict[str, object], shorter: str | dict[str, object]) -> bool:
    if isinstance(longer, dict) and isinstance(shorter, dict):
        return bool(shorter) and all(name in longer and longer[name] == value for name, value in shorter.items())
    if isinstance(longer, dict) or isinstance(shorter, dict) or not shorter or len(longer) <= len(shorter):
        return False
    start = longer.find(shorter)
    if start < 0:
        return False
    end = start + len(shorter)
    rest = longer[:start] + " " + longer[end:]
    if _NEGATING.search(rest):
        return False
    # A single Chinese character inside a word is chance, not a wider meaning.
    if _CJK.search(shorter):
        return len(shorter) >= 2
    return not (_continues(longer[start - 1 : start], shorter[0]) or _continues(longer[end : end + 1], shorter[-1]))


def _continues(neighbour: str, edge: str) -> bool:
    """Return whether a letter or digit goes on across the edge, so that the match is only a part of a word or number."""
    return bool(neighbour) and neighbour.isalnum() and edge.isalnum() and not _CJK.match(neighbour)


def is_big_jump(vocabulary: Vocabulary, attribute: str, new_json: str, known_json: str, jump_years: int) -> bool:
    """Return whether a sensitive value moves too far to believe at once.

    Dates and numbers: by more than ``jump_years``. Texts, where the attribute lasts a life: nothing of the old one is left in
    the new one. An address or a phone number changes without a jump.
    """
    new, known = vocabulary.normalised_value(attribute, new_json), vocabulary.normalised_value(attribute, known_json)
    new_number, known_number = _year_or_number(new), _year_or_number(known)
    if new_number is not None and known_number is not None:
        return abs(new_number - known_number) > jump_years
    return attribute in LASTING and not set(_WORD.findall(new.lower())) & set(_WORD.findall(known.lower()))


def _year_or_number(value: str) -> float | None:
    """Return the year in a date, or a small number such as an age; a telephone number is neither."""
    year = _YEAR.search(value)
    if year:
        return float(year.group(1))
    return float(value) if _SMALL_NUMBER.fullmatch(value) else None


def confirmed_confidence(known: float, new: float) -> float:
    """Return the confidence after an independent confirmation: a tenth of the missing part more than the better one."""
    best = max(known, new)
    return round(max(best, min(0.99, best + 0.1 * (1 - best))), 4)
