"""The pattern sets of the gates: our own rules and the Agent Threat Rules, both linear-time (RE2).

Owns loading and matching. Called by ``streams.gates.gate``. Agent Threat Rules are read as data from the installed ``pyatr``
package: rules whose conditions must all hold are evaluated so (flattening them would raise false alarms twenty-fold), and
only severities high and critical take part. A filter on literal atoms decides which patterns are tried at all.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import msgspec
import re2

TEXT_FIELDS = frozenset({"user_input", "content"})


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that matched, and where in the examined text."""

    rule_id: str
    outcome: str
    start: int


@dataclass(frozen=True, slots=True)
class _OwnRule:
    rule_id: str
    outcome: str
    patterns: dict[int, Any]
    need_all: bool
    unless: Any


@dataclass(frozen=True, slots=True)
class _OwnSet:
    """One filter over the patterns of all rules, which are numbered through: most texts match none of them."""

    screen: Any
    rules: tuple[_OwnRule, ...]


@dataclass(frozen=True, slots=True)
class _ThreatSet:
    """One filter over all patterns; ``owners`` gives the rule of each pattern, ``needed`` how many a rule needs."""

    screen: Any
    patterns: tuple[str, ...]
    owners: tuple[str, ...]
    needed: dict[str, frozenset[int]]
    unless: Any


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = False
    return options


@lru_cache(maxsize=1)
def _own_data() -> dict[str, Any]:
    return tomllib.loads(resources.files("streams.data").joinpath("gate_rules.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def own_rules() -> _OwnSet:
    """Return our own rules, compiled."""
    options = _options()
    screen = re2.Filter()
    rules = tuple(
        _OwnRule(
            rule_id=f"engram/{entry['id']}",
            outcome=entry["outcome"],
            patterns={screen.Add(pattern, options): re2.compile(pattern, options) for pattern in entry["patterns"]},
            need_all=entry.get("all", False),
            unless=re2.compile(entry["unless"], options) if "unless" in entry else None,
        )
        for entry in _own_data()["rule"]
    )
    screen.Compile()
    return _OwnSet(screen, rules)


def own_hit(text: str, skip_rules: frozenset[str]) -> Hit | None:
    """Return the first of our own rules that matches ``text``."""
    own = own_rules()
    found = frozenset(own.screen.Match(text) or ())
    if not found:
        return None
    for rule in own.rules:
        here = [number for number in rule.patterns if number in found]
        enough = len(here) == len(rule.patterns) if rule.need_all else bool(here)
        if not enough or rule.rule_id in skip_rules:
            continue
        match = rule.patterns[here[0]].search(text)
        if match is not None and not _excused(rule, text, match):
            return Hit(rule.rule_id, rule.outcome, match.start())
    return None


def _excused(rule: _OwnRule, text: str, match: Any) -> bool:
    if rule.unless is None:
        return False
    return rule.unless.search(_sentence_around(text, match.start(), match.end())) is not None


def _sentence_around(text: str, start: int, end: int) -> str:
    """An excuse counts only in the sentence of the match, so that a polite tail does not cover the rest."""
    begin = max(text.rfind(mark, 0, start) for mark in "。！？!?\n.") + 1
    ends = [position for position in (text.find(mark, end) for mark in "。！？!?\n") if position >= 0]
    return text[begin : min(ends) + 1 if ends else len(text)]


@lru_cache(maxsize=1)
def _threats() -> _ThreatSet:
    # Read from the installed package's data, not through its engine: that needs a second regex library and is not linear.
    raw = msgspec.json.decode(resources.files("pyatr").joinpath("_bundled_rules.json").read_bytes())
    options = _options()
    excluded = frozenset(_own_data()["threats"]["excluded"])
    screen = re2.Filter()
    patterns: list[str] = []
    owners: list[str] = []
    needed: dict[str, frozenset[int]] = {}
    for rule in raw:
        if rule["id"] in excluded:
            continue
        if rule.get("status") in {"draft", "deprecated"} or str(rule.get("severity")).lower() not in {
            "high",
            "critical",
        }:
            continue
        detection = rule.get("detection", {})
        conditions = detection.get("conditions", [])
        need_all = detection.get("condition") == "all"
        if need_all and not all(condition.get("field") in TEXT_FIELDS for condition in conditions):
            continue
        added = [
            index
            for condition in conditions
            if condition.get("field") in TEXT_FIELDS
            and (index := _add(screen, patterns, condition["value"], options)) is not None
        ]
        owners += [rule["id"]] * len(added)
        if need_all:
            # A condition that RE2 cannot express makes the rule unable to hold in full; it is then left out.
            needed[rule["id"]] = frozenset(added) if len(added) == len(conditions) else frozenset({-1})
    screen.Compile()
    return _ThreatSet(screen, tuple(patterns), tuple(owners), needed, re2.compile(_own_data()["threats"]["unless"]))


def _add(screen: Any, patterns: list[str], pattern: str, options: Any) -> int | None:
    clean = re.sub(r"^\(\?[imsx]+\)", "", re.sub(r"\\u([0-9a-fA-F]{4})", r"\\x{\1}", pattern))
    try:
        index = int(screen.Add(clean, options))
    except re2.error:
        return None
    patterns.append(clean)
    return index


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    return re2.compile(pattern, _options())


_ENDINGS = frozenset({"s", "es", "ed", "d", "ing", "ly", "al"})


def _whole_words(pattern: str, text: str) -> int | None:
    """Where a pattern matches whole words; many threat patterns have no word limits and find "table" in "suitable"."""
    for match in _compiled(pattern).finditer(text):
        start, end = match.start(), match.end()
        inside = start > 0 and _is_letter(text[start - 1]) and _is_letter(text[start : start + 1])
        tail = re.match("[A-Za-z]*", text[end:])
        cut = (
            tail is not None
            and tail.group()
            and _is_letter(text[end - 1 : end])
            and tail.group().lower() not in _ENDINGS
        )
        if not inside and not cut:
            return int(start)
    return None


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def threat_hit(text: str, skip_rules: frozenset[str]) -> Hit | None:
    """Return the first Agent Threat Rule that matches ``text``."""
    threats = _threats()
    matched = threats.screen.Match(text) or []
    found = frozenset(matched)
    for index in matched:
        rule_id = threats.owners[index]
        needed = threats.needed.get(rule_id)
        if f"atr/{rule_id}" in skip_rules or (needed is not None and not needed <= found):
            continue
        start = _whole_words(threats.patterns[index], text)
        if start is not None and not threats.unless.search(_sentence_around(text, start, start)):
            return Hit(f"atr/{rule_id}", "quarantine", start)
    return None
