"""The project's own labelled sets: what an extraction of each turn should say, and which texts gates should refuse.

Owns how ``extraction_set.jsonl`` and ``poison_set.jsonl`` are read and judged; README.md describes their formats. Called by
``measure``. Judges what would become a memory: extracted, admitted and classified as in production, without any server.
"""

import datetime as dt
import functools
from collections.abc import Iterator
from pathlib import Path

import msgspec

from infra.quality.figures import Tally
from schemas.candidates import Candidate
from schemas.settings import Settings
from streams.extraction.facts import people
from streams.extraction.inputs import TurnInput
from streams.extraction.noise import is_noise
from streams.extraction.pipeline import extract
from streams.gates.admission import admit_extraction
from streams.gates.gate import gate0
from streams.gates.outcome import ADMIT, PENDING
from streams.text.times import zone_of

NOISE = "noise"


class Expectation(msgspec.Struct, frozen=True):
    """A memory that a careful reader would write down; ``about`` and ``category`` may name alternatives with ``/``."""

    about: str
    values: tuple[str, ...]
    category: str = ""
    source: str = ""
    time: bool = False


class LabelledTurn(msgspec.Struct, frozen=True):
    """One line of ``extraction_set.jsonl``; ``device_time`` is local, without offset."""

    id: str
    lang: str
    user_message: str
    device_time: str
    timezone: str
    phenomenon: str
    assistant_message: str | None = None
    expect: tuple[Expectation, ...] = ()
    pending: tuple[Expectation, ...] = ()
    forbid: tuple[str, ...] = ()

    def as_input(self) -> TurnInput:
        """Return the turn as the extractor is given it."""
        local = dt.datetime.fromisoformat(self.device_time).replace(tzinfo=zone_of(self.timezone))
        return TurnInput(
            event_id=self.id,
            user_message=self.user_message,
            assistant_message=self.assistant_message,
            stated_at_ms=int(local.timestamp() * 1000),
            timezone_offset=self.timezone,
        )


class LabelledText(msgspec.Struct, frozen=True):
    """One line of ``poison_set.jsonl``; ``label`` is ``poison`` or ``benign``."""

    id: str
    lang: str
    role: str
    text: str
    label: str
    kind: str


def turns_of(path: Path) -> tuple[LabelledTurn, ...]:
    """Return the turns of an extraction set; raises ``msgspec.ValidationError`` where a line is not one."""
    return tuple(msgspec.json.decode(line, type=LabelledTurn) for line in _lines(path))


def texts_of(path: Path) -> tuple[LabelledText, ...]:
    """Return the texts of a poison set; raises ``msgspec.ValidationError`` where a line is not one."""
    return tuple(msgspec.json.decode(line, type=LabelledText) for line in _lines(path))


def judge_turns(turns: tuple[LabelledTurn, ...], tally: Tally) -> None:
    """Count precision, recall, pending, category agreement and noise of the turns, by language and phenomenon."""
    for turn in turns:
        groups = ("all", turn.lang, f"{turn.lang} {turn.phenomenon}")
        live, waiting = memories_of(turn)
        for memory in live:
            right = _is_right(turn, memory)
            tally.add("extraction precision", groups, right=right)
            if not right:
                tally.wrong("precision", turn.id, f"{turn.user_message} ⇒ {memory.attribute}: {memory.content}")
        for expectation in turn.expect:
            found = next((memory for memory in live if meets(memory, expectation)), None)
            tally.add("extraction recall", groups, right=found is not None)
            if found is None:
                tally.wrong("recall", turn.id, f"{turn.user_message} ⇏ {expectation.about}: {expectation.values}")
            elif expectation.category:
                best = any(_agrees(memory, expectation) for memory in live if meets(memory, expectation))
                tally.add("category agreement", (groups[0], groups[1]), right=best)
                if not best:
                    tally.wrong("category", turn.id, f"{found.content}: {found.category}, not {expectation.category}")
        for expectation in turn.pending:
            found = next((memory for memory in waiting if meets(memory, expectation)), None)
            tally.add("pending recall", (groups[0], groups[1]), right=found is not None)
            if found is None:
                tally.wrong("pending", turn.id, f"{turn.user_message} ⇏ pending {expectation.values}")
        _judge_noise(turn, tally)


def _judge_noise(turn: LabelledTurn, tally: Tally) -> None:
    noisy = turn.phenomenon == NOISE
    if noisy or turn.expect or turn.pending:
        right = is_noise(turn.user_message) == noisy
        tally.add("noise accuracy", ("all", turn.lang), right=right)
        tally.add("noise recognised" if noisy else "noise: statements kept", ("all", turn.lang), right=right)
        if not right:
            tally.wrong("noise", turn.id, turn.user_message)


def memories_of(turn: LabelledTurn) -> tuple[list[Candidate], list[Candidate]]:
    """Return what the turn would leave as memories (active or tentative), and what would wait in ``pending``."""
    extraction = admit_extraction(extract(turn.as_input()), pending_below=_pending_below())
    # A negation ends a memory and makes none.
    stated = [candidate for candidate in extraction.candidates if not candidate.negated]
    return (
        [candidate for candidate in stated if candidate.outcome == ADMIT],
        [candidate for candidate in stated if candidate.outcome == PENDING],
    )


def meets(memory: Candidate, expectation: Expectation) -> bool:
    """Return whether a memory is filed under the right person and holds one of the expected values."""
    text = f"{memory.value}\n{memory.content}".lower()
    return any(_is_about(memory, name) for name in expectation.about.split("/")) and any(
        value.lower() in text for value in expectation.values
    )


def _is_right(turn: LabelledTurn, memory: Candidate) -> bool:
    text = f"{memory.value}\n{memory.content}".lower()
    if any(forbidden.lower() in text for forbidden in turn.forbid):
        return False
    return any(meets(memory, expectation) for expectation in turn.expect)


def _is_about(memory: Candidate, name: str) -> bool:
    kind, _, key = memory.subject.partition(":")
    if kind == "user":
        return name in {"user", "self"}
    known = people().get(key)
    words = {key, *(known.chinese + known.english if known else ())}
    return name.lower() in {word.lower() for word in words}


def _agrees(memory: Candidate, expectation: Expectation) -> bool:
    return memory.category in expectation.category.split("/")


def judge_texts(texts: tuple[LabelledText, ...], tally: Tally) -> None:
    """Count refused poison by language and kind, and false alarms on benign texts."""
    for text in texts:
        refused = _refused(text)
        poison = text.label == "poison"
        groups = ("all", text.lang, f"{text.lang} {text.kind}")
        tally.add("poison refused" if poison else "benign false alarms", groups, right=refused)
        if refused != poison:
            tally.wrong("poison", text.id, f"{text.kind}: {text.text}")


def _refused(text: LabelledText) -> bool:
    """Whether gate 0 refuses the text, or everything that would be learned from it is refused by gates 1 and 2."""
    if gate0(text.text, text.role).outcome != ADMIT:
        return True
    turn = TurnInput(event_id=text.id, user_message=text.text)
    if text.role == "assistant":
        turn = TurnInput(event_id=text.id, user_message="", assistant_message=text.text)
    admitted = admit_extraction(extract(turn), pending_below=_pending_below())
    return bool(admitted.refusals) and not admitted.candidates


@functools.lru_cache(maxsize=1)
def _pending_below() -> float:
    return Settings().pending_confidence


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as lines:
        yield from (line for line in lines if line.strip())
