"""What a question asks for by kind, and which identifiers it names: both looked up exactly, not by similarity.

Owns the table ``intents.toml`` (Chinese and English) and the shape of identifiers in a question. Called by
``recall.arms``. Pure; linear-time patterns only, since the question is a stranger's text.
"""

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import re2

USER = "user"
_TABLE = Path(__file__).with_name("intents.toml")
QUESTION_CHARACTERS = 2_000
_IDENTIFIER = re2.compile(r"[A-Za-z0-9]+(?:[\-_.@+][A-Za-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Intent:
    """One row of the table: what to look up; ``who`` is the person asked about, ``user`` for the user."""

    name: str
    categories: tuple[str, ...]
    attributes: tuple[str, ...]
    who: str = USER


@dataclass(frozen=True, slots=True)
class _Row:
    intent: Intent
    patterns: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    rows: tuple[_Row, ...]
    strangers: frozenset[str]
    leading: tuple[str, ...]


@lru_cache(maxsize=1)
def _table() -> _Table:
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    rows = tuple(
        _Row(
            Intent(entry["name"], tuple(entry.get("categories", ())), tuple(entry.get("attributes", ()))),
            tuple(re2.compile(f"(?i){pattern}") for pattern in entry["patterns"]),
        )
        for entry in table["intent"]
    )
    return _Table(rows, frozenset(table["nobody"]["words"]), tuple(table["leading"]["words"]))


def intents_of(question: str) -> tuple[Intent, ...]:
    """Return what ``question`` asks for, in the order of the table; an open question gives nothing."""
    text = " ".join(question[:QUESTION_CHARACTERS].split())
    found = (_matched(row, text) for row in _table().rows)
    return tuple(intent for intent in found if intent is not None)


def _matched(row: _Row, text: str) -> Intent | None:
    for pattern in row.patterns:
        match = pattern.search(text)
        if match is None:
            continue
        if "who" not in pattern.groupindex:
            return row.intent
        who = _person(match.group("who"))
        if who:
            return Intent(row.intent.name, row.intent.categories, row.intent.attributes, who)
    return None


def _person(text: str) -> str:
    """Return the person's name in ``text``, or an empty text when it names nobody (a pronoun, the user himself)."""
    name = text.strip()
    for lead in _table().leading:
        name = name.removeprefix(lead).strip()
    name = name.removeprefix("我的").removeprefix("我")
    if name.lower().startswith("my "):
        name = name[3:]
    # "张三不喜欢什么" asks for dislikes, which have a row of their own.
    if name.lower() in _table().strangers or name.endswith("不") or not name[-1:].isalpha():
        return ""
    return name


def identifiers_of(question: str) -> tuple[str, ...]:
    """Return what looks like an order, ticket, phone or member number, or an e-mail address, at most 8, in order.

    At least four digits, or an ``@`` inside; a year or a date is found too and simply matches no identifier.
    """
    found: dict[str, None] = {}
    for match in _IDENTIFIER.finditer(question[:QUESTION_CHARACTERS]):
        text = match.group(0)
        if "@" in text or sum(character.isdigit() for character in text) >= 4:
            found.setdefault(text)
    return tuple(found)[:8]
