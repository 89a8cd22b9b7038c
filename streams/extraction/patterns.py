"""The patterns of extraction, read from ``streams/data``: named patterns of a module, and the rule tables.

Owns the file format: a table per pattern with ``any`` (alternatives, joined) and ``ignore_case``; ``[parts]`` holds pieces
that other patterns name as ``<<PART>>``. Called by the rule modules when they are imported. Data, so that words can be
added without touching code.
"""

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from streams.extraction.facts import EXPLICIT, PLAIN, Fact

_CONFIDENCES = {"explicit": EXPLICIT, "plain": PLAIN}


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern on the rest of a clause (after subject and adverbs); the group ``v`` is the value.

    ``many`` splits the value into a list, ``check`` names a test the value must pass, ``negated`` ends a value.
    """

    attribute: str
    pattern: re.Pattern[str]
    many: bool = False
    negated: bool = False
    confidence: float = PLAIN
    check: str = ""


@lru_cache(maxsize=16)
def patterns(name: str) -> dict[str, re.Pattern[str]]:
    """Return the named patterns of ``streams/data/patterns_<name>.toml``, compiled."""
    raw = _read(f"patterns_{name}")
    parts = raw.pop("parts", {})
    return {key: _compile(entry, parts) for key, entry in raw.items()}


@lru_cache(maxsize=2)
def rule_table(language: str) -> tuple[Rule, ...]:
    """Return the statement rules of ``chinese`` or ``english`` in the order in which they are tried."""
    raw = _read(f"rules_{language}")
    parts = raw.get("parts", {})
    return tuple(
        Rule(
            attribute=entry["attribute"],
            pattern=_compile(entry, parts),
            many=entry.get("many", False),
            negated=entry.get("negated", False),
            confidence=_CONFIDENCES.get(entry.get("confidence", "plain"), entry.get("confidence")),
            check=entry.get("check", ""),
        )
        for entry in raw["rule"]
    )


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("streams.data").joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _compile(entry: dict[str, Any], parts: dict[str, str]) -> re.Pattern[str]:
    text = "|".join(entry["any"])
    for part, piece in parts.items():
        text = text.replace(f"<<{part}>>", piece)
    return re.compile(text, re.IGNORECASE if entry.get("ignore_case", False) else 0)


def first_facts(
    rules: Iterable[Rule], rest: str, base: Fact, read: Callable[[Rule, re.Match[str], Fact], Iterable[Fact]]
) -> list[Fact]:
    """Return what the first rule says that fits ``rest`` and gives any fact; ``read`` turns a match into facts."""
    for rule in rules:
        match = rule.pattern.match(rest)
        if match is not None and (facts := list(read(rule, match, base))):
            return facts
    return []
