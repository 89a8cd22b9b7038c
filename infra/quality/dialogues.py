"""Query-anchored extraction on CrossWOZ: values that were asked for stay, values that nobody asked for drop.

Owns the reading of CrossWOZ dialogue acts. Called by ``measure``. A value counts only where it stands literally in the
system's answer; one that is both asked for and volunteered in the same answer counts as asked for.
"""

import gzip
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.quality.figures import Tally
from streams.extraction.inputs import TurnInput
from streams.extraction.pipeline import extract


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A user message with requests, the system's answer, and the informed values by what was asked."""

    id: str
    question: str
    answer: str
    asked: tuple[tuple[str, str], ...]
    extra: tuple[tuple[str, str], ...]


def answered_questions(path: Path) -> Iterator[AnsweredQuestion]:
    """Yield every answered request of a CrossWOZ file (``.json.gz``); slots and values in order of the acts."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        dialogues: dict[str, Any] = json.load(file)
    for number, dialogue in dialogues.items():
        messages = dialogue["messages"]
        for index, (user, system) in enumerate(itertools.pairwise(messages)):
            if user["role"] != "usr" or system["role"] != "sys":
                continue
            requests = {(act[1], act[2]) for act in user["dialog_act"] if act[0] == "Request"}
            if requests:
                asked, extra = _informed(system, requests)
                yield AnsweredQuestion(f"{number}#{index}", user["content"], system["content"], asked, extra)


def _informed(
    system: dict[str, Any], requests: set[tuple[str, str]]
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    told = [(act[1], act[2], act[3]) for act in system["dialog_act"] if act[0] == "Inform" and act[3] != "none"]
    told = [(domain, slot, value) for domain, slot, value in told if value and value in system["content"]]
    asked = tuple((slot, value) for domain, slot, value in told if (domain, slot) in requests)
    wanted = {value for _, value in asked}
    extra = tuple(
        (slot, value)
        for domain, slot, value in told
        if (domain, slot) not in requests and not any(value in one for one in wanted)
    )
    return asked, extra


def judge_dialogues(path: Path, tally: Tally) -> None:
    """Count kept requested values and dropped extras, in all and by slot."""
    for turn in answered_questions(path):
        found = extract(TurnInput(event_id=turn.id, user_message=turn.question, assistant_message=turn.answer))
        learned = "\n".join(candidate.value for candidate in found.candidates if candidate.source == "assistant")
        for measure, values, want in (("asked values kept", turn.asked, True), ("extras dropped", turn.extra, False)):
            for slot, value in values:
                right = (_told(value) in learned) == want
                tally.add(measure, ("CrossWOZ", f"CrossWOZ {slot.partition('-')[0]}"), right=right)
                if not right:
                    tally.wrong(measure, turn.id, f"{slot}={value}: {turn.question} | {turn.answer} ⇒ {learned}")


def _told(value: str) -> str:
    """The value as it stands inside the JSON text of a candidate."""
    return json.dumps(value, ensure_ascii=False)[1:-1]
