"""What an input means to a session: a telling event type, the fields it carries, and how the answer leaves things.

Small rules in both languages (``data/working_rules.toml``); the table of transitions is in ``streams.working_machine``. Pure: the
same input always gives the same signal, so a replay makes the same events. Texts come in masked; nothing here remembers.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any

import re2

from schemas.inputs import AttachmentDescribed, InputBody, RecordReceived, StepRecorded, TurnRecorded
from streams.text.normalise import has_cjk

FIELD_LIMIT_CHARACTERS = 80
FIELDS_LIMIT = 12
NO_PARTS: Mapping[str, str] = MappingProxyType({})
_STEP_EVENTS = {
    ("tool_call", "ok"): "ToolCallSucceeded",
    ("tool_call", "failed"): "ToolCallFailed",
    ("tool_call", "empty"): "ToolCallFoundNothing",
    ("tool_call", ""): "ToolCallStarted",
    ("state_change", ""): "SessionStateChanged",
    ("plan", ""): "PlanUpdated",
    ("observation", ""): "ObservationRecorded",
    ("task_ended", ""): "TaskEnded",
    ("page_opened", ""): "PageOpened",
}


@dataclass(frozen=True, slots=True)
class Signal:
    """What one input means: its event type, the posture of the answer, the fields found, and a state a step asked for."""

    event_type: str
    posture: str = "none"
    fields: dict[str, str] = field(default_factory=dict)
    asked_state: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    english: Any
    chinese: Any

    def match(self, text: str) -> Any:
        """Return the match in the text's own language first: mixed sentences are common."""
        first, second = (self.chinese, self.english) if has_cjk(text) else (self.english, self.chinese)
        return first.search(text) or second.search(text)


@lru_cache(maxsize=1)
def _rules() -> tuple[tuple[_Rule, ...], tuple[_Rule, ...]]:
    raw = tomllib.loads(resources.files("streams.data").joinpath("working_rules.toml").read_text("utf-8"))

    def compiled(entries: list[dict[str, Any]], name: str) -> tuple[_Rule, ...]:
        return tuple(_Rule(e[name], re2.compile(e["english"]), re2.compile(e["chinese"])) for e in entries)

    return compiled(raw["rule"], "event"), compiled(raw["posture"], "name")


def signal_of(
    body: InputBody, *, user_text: str, answer_text: str, refused: bool, parts: Mapping[str, str] = NO_PARTS
) -> Signal:
    """Return the signal of ``body``, whose own texts are never read: they are not masked.

    ``user_text`` and ``answer_text`` are the masked sides of a turn, ``parts`` the masked texts of any other body by name;
    ``refused`` says that gate 0 refused the user's side or a part of a step.
    """
    match body:
        case TurnRecorded():
            return _of_turn(user_text, answer_text, refused=refused)
        case StepRecorded():
            return _of_step(parts, refused=refused)
        case RecordReceived():
            return Signal("BusinessRecordReceived", fields=_bounded(parts, ("source", "entity_type", "status")))
        case AttachmentDescribed():
            return Signal("AttachmentReceived", fields=_bounded(parts, ("media_type",)))


def _of_turn(user_text: str, answer_text: str, *, refused: bool) -> Signal:
    rules, postures = _rules()
    posture = next((rule.name for rule in postures if rule.match(answer_text)), "answers" if answer_text else "none")
    if refused:
        return Signal("InputRefused", posture)
    for rule in rules:
        found = rule.match(user_text)
        if found is not None:
            fields = found.groupdict()
            return Signal(rule.name, posture, _bounded(fields, fields))
    return Signal("UserSpoke" if user_text.strip() else "AssistantSpoke", posture)


def _of_step(parts: Mapping[str, str], *, refused: bool) -> Signal:
    if refused:
        return Signal("InputRefused")
    step, outcome = parts.get("step", ""), parts.get("outcome", "")
    event = _STEP_EVENTS.get((step, outcome)) or _STEP_EVENTS.get((step, ""), "StepRecorded")
    asked = _asked_state(parts) if step == "state_change" else ""
    return Signal(event, fields=_bounded(parts, ("name", "error")), asked_state=asked)


def _asked_state(parts: Mapping[str, str]) -> str:
    name = parts.get("name", "")
    try:
        detail = json.loads(parts.get("detail", ""))
    except ValueError:
        return name
    state = detail.get("state") if isinstance(detail, dict) else None
    return state if isinstance(state, str) else name


def _bounded(fields: Mapping[str, str | None], names: Iterable[str]) -> dict[str, str]:
    found = {
        name: value.strip()[:FIELD_LIMIT_CHARACTERS] for name in names if (value := fields.get(name)) and value.strip()
    }
    return dict(list(found.items())[:FIELDS_LIMIT])
