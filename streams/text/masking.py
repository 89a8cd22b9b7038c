"""Identifiers and secrets in a text: where they are, of which kind, and the text without them.

Owns the shapes (``streams/data/identifiers.toml``) and their checks (check digit, Luhn, phone plan). Called by gate 0 and 1,
by the embedder's text preparation and wherever an excerpt is shown. Never decides what is allowed: that is the PII policy
of the gates. Neighbouring ASCII letters and digits are checked in code, because a word boundary does not exist beside
Chinese characters.
"""

import datetime
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Protocol

import re2


class _Match(Protocol):
    def start(self, group: int = 0) -> int: ...
    def end(self, group: int = 0) -> int: ...
    def group(self, group: int = 0) -> str: ...


@dataclass(frozen=True, slots=True)
class Span:
    """An identifier: its kind, start and end as character offsets, and the text between them."""

    kind: str
    start: int
    end: int
    value: str
    rule_id: str = ""


@dataclass(frozen=True, slots=True)
class _Shape:
    kind: str
    rule_id: str
    pattern: Any
    group: int
    needs: Any


# Kinds earlier in this list win where two spans overlap.
_PRECEDENCE = (
    "secret", "email", "resident_id", "ssn", "iban", "bank_card", "passport", "phone", "plate", "ip", "address", "reference",
)  # fmt: skip
_QUICK = re2.compile(
    r"[0-9]{3}|@|sk-|xox|eyJ|PRIVATE KEY|(?i:pass|pwd|token|secret|key|bearer|basic|\botp|pin)|密码|密碼|口令|验证码|令牌|密钥"
    r"|[路街道巷弄][0-9]+[号弄]|[A-Z][·\- ]?[A-Z0-9]{5}|[0-9] [A-Z]|gl[a-z]{2,3}-|LTAI|AKID|AIza|npm_|hf_|://|[0-9]\.[0-9]"
)


@lru_cache(maxsize=1)
def _tables() -> tuple[tuple[_Shape, ...], dict[str, str], frozenset[str]]:
    raw = tomllib.loads(resources.files("streams.data").joinpath("identifiers.toml").read_text(encoding="utf-8"))
    shapes = [
        _Shape("secret", entry["id"], re2.compile(entry["pattern"]), entry.get("group", 0), None)
        for entry in raw["secret"]
    ]
    shapes += [
        _Shape(
            entry["kind"],
            entry["kind"],
            re2.compile(entry["pattern"]),
            entry.get("group", 0),
            re2.compile(entry["needs"]) if "needs" in entry else None,
        )
        for entry in raw["shape"]
    ]
    return tuple(shapes), dict(raw["tokens"]), frozenset(raw["secret_stop"]["words"])


def find_identifiers(text: str) -> tuple[Span, ...]:
    """Return the identifiers and secrets of ``text`` in order, without overlaps.

    Kinds: resident_id, ssn, passport, bank_card, iban, phone, email, plate, address, ip, reference (order, ticket, member
    and visit numbers) and secret.
    """
    if not re2.search(_QUICK, text):
        return ()
    found = [span for shape in _tables()[0] for span in _spans_of(shape, text)]
    found += _foreign_phones(text, found)
    found.sort(key=lambda span: (_PRECEDENCE.index(span.kind), span.start, -span.end))
    kept: list[Span] = []
    for span in found:
        if all(span.end <= other.start or span.start >= other.end for other in kept):
            kept.append(span)
    return tuple(sorted(kept, key=lambda span: span.start))


def mask(text: str) -> str:
    """Return ``text`` with every identifier and secret replaced by a token such as ``[PHONE_MASKED]``."""
    spans = find_identifiers(text)
    if not spans:
        return text
    tokens = _tables()[1]
    parts: list[str] = []
    position = 0
    for span in spans:
        parts += [text[position : span.start], tokens[span.kind]]
        position = span.end
    return "".join([*parts, text[position:]])


def masked_excerpt(text: str, start: int = 0, limit: int = 200) -> str:
    """Return at most ``limit`` characters of the masked text, from shortly before ``start``."""
    masked = mask(text)
    begin = max(0, min(start - limit // 4, len(masked) - limit))
    return masked[begin : begin + limit]


def _spans_of(shape: _Shape, text: str) -> Iterator[Span]:
    if shape.needs is not None and not shape.needs.search(text):
        return
    for match in shape.pattern.finditer(text):
        start, end = match.start(shape.group), match.end(shape.group)
        value = text[start:end]
        if shape.kind == "secret" and shape.group:
            value = value.rstrip("\"',.;:!?)”’")
            end = start + len(value)
        elif shape.kind == "address":
            lead = max(value.rfind(word, 0, -3) for word in "在是到至于")
            value, start = value[lead + 1 :], start + lead + 1
        if _is_bounded(text, start, end) and _is_plausible(shape, value, text, start):
            yield Span(shape.kind, start, end, value, shape.rule_id)


def _is_bounded(text: str, start: int, end: int) -> bool:
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    return not (before.isascii() and before.isalnum()) and not (after.isascii() and after.isalnum())


def _is_plausible(shape: _Shape, value: str, text: str, start: int) -> bool:
    if shape.kind == "secret":
        return _is_told_secret(shape.rule_id, value)
    if shape.kind == "ip":
        # "v1.2.3.4" is a version.
        return not text[max(0, start - 2) : start].lower().endswith("v")
    check = _CHECKS.get(shape.kind)
    return check is None or check(value)


def _digits(value: str) -> str:
    return "".join(character for character in value if character.isdigit())


def _is_told_secret(rule_id: str, value: str) -> bool:
    if rule_id == "password-en":
        word = value.lower()
        return word not in _tables()[2] and (len(word) >= 6 or not word.isalpha())
    if rule_id == "password-zh":
        return value.lower() not in _tables()[2]
    return True


def _is_date(value: str) -> bool:
    return re2.fullmatch(r"(?:19|20)[0-9]{2}-[01]?[0-9](?:-[0-3]?[0-9])?", value) is not None


def _is_resident_id(number: str) -> bool:
    # Date and check digit only: county codes come and go, a wrong county is still a person's number.
    if len(number) != 18 or not number[:17].isdigit():
        return False
    try:
        datetime.date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    total = sum(int(digit) * pow(2, 17 - place, 11) for place, digit in enumerate(number[:17]))
    return "10X98765432"[total % 11] == number[17]


def _passes_luhn(digits: str) -> bool:
    if not digits.isdigit():
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _is_iban(value: str) -> bool:
    # Imported here: only texts that look like an account number pay for it.
    from stdnum import iban  # noqa: PLC0415

    return bool(iban.is_valid(value, check_country=False))


def _is_bank_card(value: str) -> bool:
    digits = _digits(value)
    return 13 <= len(digits) <= 19 and _passes_luhn(digits) and len(set(digits)) > 1


_CHECKS: dict[str, Callable[[str], bool]] = {
    "resident_id": lambda value: _is_resident_id(re.sub(r"[^0-9Xx]", "", value).upper()),
    "bank_card": _is_bank_card,
    "iban": _is_iban,
    "phone": lambda value: len(_digits(value)) >= 7,
    "reference": lambda value: len(_digits(value)) >= 4 and not _is_date(value),
}


def _foreign_phones(text: str, found: list[Span]) -> list[Span]:
    """Numbers of other countries, by the phone plans of ``phonenumbers``; at least 7 digits must be there at all."""
    if sum(character.isdigit() for character in text) < 7 or not re2.search(r"[0-9(+][0-9 ().\-/]{6,}[0-9]", text):
        return []
    # Imported here: most texts have no digits, and the plans take 0.1 s to load.
    import phonenumbers  # noqa: PLC0415

    return [
        Span("phone", match.start, match.end, match.raw_string, "phone")
        for match in phonenumbers.PhoneNumberMatcher(text[:20_000], "US", max_tries=50)
        if all(match.end <= span.start or match.start >= span.end for span in found)
    ]
