"""Grounding: a value must stand in the message it cites, or follow from it.

Owns the check and what happens to what fails it: confidence at most 0.3. Also drops what only repeats a recalled memory.
Called by ``pipeline`` after any extractor, so that a model's claims meet the same rule as our own.
"""

import re
from collections.abc import Iterable

import msgspec

from schemas.candidates import Candidate
from streams.extraction.facts import INFERRED
from streams.text.normalise import normalise

_IGNORED = re.compile(r"[\s\W_]+")
# The value is a label for what was said (没有发货 is 未发货), not a quotation; the entity must stand in the text instead.
_LABELS = frozenset({"order_status"})
_DERIVED_KEYS = frozenset({"when", "status", "class", "tool", "step"})


def grounded(candidate: Candidate, messages: dict[str, str]) -> Candidate:
    """Return the candidate unchanged if its value stands in a message it cites, else with confidence at most 0.3.

    ``messages`` are the texts by message id. Business records and tool steps cite themselves and pass.
    """
    if candidate.source in {"official_id", "business_record", "tool"}:
        return candidate
    cited = [messages[message_id] for message_id in candidate.source_message_ids if message_id in messages]
    if candidate.attribute in _LABELS and any(_names(candidate.entity_id, text) for text in cited):
        return candidate
    if cited and any(_follows(candidate.value, text) for text in cited):
        return candidate
    return msgspec.structs.replace(candidate, confidence=min(candidate.confidence, INFERRED), locked=True)


def repeats_recalled(candidate: Candidate, recalled: Iterable[str]) -> bool:
    """Return whether an answer's candidate only repeats a memory that had been put into the prompt."""
    if candidate.source != "assistant":
        return False
    content = _fold(candidate.content)
    value = _fold(_text_of(candidate.value))
    return any(content == known or (len(value) >= 4 and value in known) for known in map(_fold, recalled) if known)


def _names(entity_id: str, text: str) -> bool:
    return entity_id == "latest" or _fold(entity_id) in _fold(text)


def _follows(value_json: str, text: str) -> bool:
    value = _text_of(value_json)
    folded, said = _fold(value), _fold(text)
    if not folded or folded in said:
        return True
    parts = [part for part in re.split(r"[\s\W_]+", normalise(value).lower()) if part]
    found = sum(part in said for part in parts)
    if parts and found / len(parts) >= 0.6:
        return True
    pairs = {folded[index : index + 2] for index in range(len(folded) - 1)}
    if pairs and sum(pair in said for pair in pairs) / len(pairs) >= 0.6:
        return True
    digits = re.findall(r"\d+", folded)
    return bool(digits) and all(_digits_follow(number, said) for number in digits)


def _digits_follow(number: str, said: str) -> bool:
    return number.lstrip("0") in said


def _text_of(value_json: str) -> str:
    try:
        value = msgspec.json.decode(value_json)
    except msgspec.DecodeError:
        return value_json
    if isinstance(value, dict):
        return " ".join(str(item) for key, item in value.items() if key not in _DERIVED_KEYS and item)
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _fold(text: str) -> str:
    return _IGNORED.sub("", normalise(text).lower())
