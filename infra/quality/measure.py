"""The whole measurement: every set that is there, in the order of the report.

Owns which file feeds which figures, by the file names of the public sets. Called by ``engram bench quality`` and by the
tests that keep the figures from falling.
"""

import itertools
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from infra.quality import dialogues, gates, labelled, times
from infra.quality.figures import Quality, Tally
from infra.quality.speed import measure_speed

EXTRACTION_SET = "extraction_set.jsonl"
POISON_SET = "poison_set.jsonl"
SPEED_TURNS = 600
_HALVES = ("", "_tune", "_judge", "_test")


def measure(
    data: Path | None, extraction: Path | None, poison: Path | None, *, pending_below: float = 0.6, speed: bool = True
) -> Quality:
    """Return the report. ``data`` is a folder of public sets, or ``None``; the own sets are the shipped ones unless given."""
    tally = Tally()
    missing: list[str] = []
    labelled.judge_turns(labelled.turns_of(extraction or own_set(EXTRACTION_SET)), tally)
    labelled.judge_texts(labelled.texts_of(poison or own_set(POISON_SET)), tally)
    for name, judge in _public_sets():
        path = None if data is None else _existing(data, name)
        if path is None:
            missing.append(name)
        else:
            judge(path, tally)
    speeds = measure_speed(_speed_turns(data, extraction), pending_below) if speed else ()
    return Quality(tally.figures(), speeds, tuple(missing), tuple(tally.mistakes))


def own_set(name: str) -> Path:
    """Return the path of a shipped set."""
    return Path(str(resources.files("infra.quality.data").joinpath(name)))


def _public_sets() -> tuple[tuple[str, Callable[[Path, Tally], None]], ...]:
    return (
        ("crosswoz_val.json.gz", dialogues.judge_dialogues),
        ("datetime_zh.json", lambda path, tally: times.judge_times(path, "zh", tally)),
        ("datetime_en.json", lambda path, tally: times.judge_times(path, "en", tally)),
        ("jailbench.csv.gz", gates.judge_jailbreaks),
        ("presidio_synth.json.gz", gates.judge_identifiers),
        ("notinject_one.json", lambda path, tally: gates.judge_benign(path, "NotInject one", tally)),
        ("notinject_two.json", lambda path, tally: gates.judge_benign(path, "NotInject two", tally)),
        ("notinject_three.json", lambda path, tally: gates.judge_benign(path, "NotInject three", tally)),
        ("memorybank_cn.json", lambda path, tally: gates.judge_chat(path, "MemoryBank zh", tally)),
        ("memorybank_en.json", lambda path, tally: gates.judge_chat(path, "MemoryBank en", tally)),
        ("crosswoz_val.json.gz", gates.judge_task_chat),
    )


def _existing(data: Path, name: str) -> Path | None:
    """The file by its name, or either half of it (``datetime_zh_tune.json``, ``…_judge.json``)."""
    stem, dot, ending = name.partition(".")
    named = [data / f"{stem}{half}{dot}{ending}" for half in _HALVES]
    others = sorted(data.glob(f"{stem}_*{dot}{ending}"))
    return next((path for path in (*named, *others) if path.is_file()), None)


def _speed_turns(data: Path | None, extraction: Path | None) -> list[tuple[str, str]]:
    """Half Chinese and half English chat of MemoryBank, or the own set where that is not there."""
    files = [data / f"memorybank_{language}.json" for language in ("cn", "en")] if data is not None else []
    turns: list[tuple[str, str]] = []
    for path in filter(Path.is_file, files):
        texts = [text for _, text in gates.memorybank_messages(path)]
        turns += itertools.islice(zip(texts[::2], texts[1::2], strict=True), SPEED_TURNS // 2)
    if turns:
        return turns
    own = labelled.turns_of(extraction or own_set(EXTRACTION_SET))
    return [(turn.user_message, turn.assistant_message or "") for turn in own[:SPEED_TURNS]]
