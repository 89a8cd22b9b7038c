"""The attribute vocabulary: what an attribute is called in a sentence, how many values it may have, when values are the same.

Owns ``streams/data/vocabulary.toml`` and ``synonyms.toml``. Called by extraction (sentences, relations), classification
(category) and ``decide`` (cardinality, normalised value, sensitive jumps, opposites). Never looks at stored memories.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import msgspec

from streams.text.normalise import normalise

ONE = "one"
MANY = "many"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One entry of the vocabulary; ``identifier`` values are matched exactly and never embedded."""

    name: str
    cardinality: str = MANY
    category: str = ""
    predicate: str = ""
    object_type: str = ""
    opposite: str = ""
    link_group: str = ""
    sensitive: bool = False
    identifier: bool = False
    chinese: str = ""
    english: str = ""


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("streams.data").joinpath(f"{name}.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def attributes() -> dict[str, Attribute]:
    """Return the whole vocabulary by attribute name."""
    return {
        name: Attribute(
            name=name,
            cardinality=entry.get("cardinality", MANY),
            category=entry.get("category", ""),
            predicate=entry.get("predicate", ""),
            object_type=entry.get("object", ""),
            opposite=entry.get("opposite", ""),
            link_group=entry.get("link_group", ""),
            sensitive=entry.get("sensitive", False),
            identifier=entry.get("identifier", False),
            chinese=entry["zh"],
            english=entry["en"],
        )
        for name, entry in _read("vocabulary").items()
    }


@lru_cache(maxsize=1)
def _synonyms() -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for attribute, entry in _read("synonyms").items():
        tables[attribute] = {_fold(word): _fold(group[0]) for group in entry["groups"] for word in group}
    tables["dislikes"] = tables["prefers"] = tables["avoids"] = tables["likes"]
    tables["hometown"] = tables["city_before"] = tables["city"]
    return tables


def attribute_of(name: str) -> Attribute:
    """Return the vocabulary entry of ``name``; an unknown attribute has many values and no sentence."""
    return attributes().get(name) or Attribute(name=name)


def cardinality(name: str) -> str:
    """Return ``one`` or ``many``; ``many`` for unknown attributes."""
    return attribute_of(name).cardinality


def is_sensitive(name: str) -> bool:
    """Return whether a big jump of this attribute must go to review."""
    return attribute_of(name).sensitive


def opposite_of(name: str) -> str:
    """Return the attribute that the same value contradicts (likes and dislikes), or an empty string."""
    return attribute_of(name).opposite


def normalised_value(attribute: str, value_json: str) -> str:
    """Return the form of a value in which two ways to say the same are equal.

    ``value_json`` is the JSON text of a candidate's value. Folds width, case, script, spaces and known synonyms of both
    languages. Text that is not JSON is folded as it stands.
    """
    try:
        value = msgspec.json.decode(value_json)
    except msgspec.DecodeError:
        value = value_json
    if isinstance(value, str):
        folded = _fold(value)
        if attribute in {"phone", "member_number", "plate"}:
            return re.sub(r"[^0-9A-Za-z\u4e00-\u9fff]", "", folded).removeprefix("86" if len(folded) > 12 else "")
        if attribute == "birthday":
            return _date_form(folded)
        return _synonyms().get(attribute, {}).get(folded, folded)
    return msgspec.json.encode(value, order="deterministic").decode()


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NUMERIC_DATE = re.compile(r"(?:(\d{4})[年\-/.])?(\d{1,2})[月\-/.](\d{1,2})[日号]?")
_DAY_FIRST = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?(?: of)? ([a-z]{3})[a-z]*\.?,?(?: (\d{4}))?")
_MONTH_FIRST = re.compile(r"([a-z]{3})[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?,?(?: (\d{4}))?")


def _date_form(folded: str) -> str:
    """``1990-05-03``, or ``--05-03`` without a year; another text stays as it is."""
    if match := _NUMERIC_DATE.fullmatch(folded):
        year, month, day = match[1], int(match[2]), int(match[3])
    elif (match := _DAY_FIRST.fullmatch(folded)) and match[2] in _MONTHS:
        year, month, day = match[3], _MONTHS.index(match[2]) + 1, int(match[1])
    elif (match := _MONTH_FIRST.fullmatch(folded)) and match[1] in _MONTHS:
        year, month, day = match[3], _MONTHS.index(match[1]) + 1, int(match[2])
    else:
        return folded
    return f"{year or '-'}-{month:02d}-{day:02d}"


def _fold(value: str) -> str:
    folded = re.sub(r"\s+", " ", normalise(value)).strip(" .。,，!！~～\"'“”").lower()
    folded = re.sub(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])", "", folded)
    return re.sub(r"^(?:the|a|an) (?=.)", "", folded)
