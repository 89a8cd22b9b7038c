"""Time expressions: whether what is read is what the labelled sets of Recognizers-Text say.

Owns the reading of these sets. Called by ``measure``. Only expressions with a place on the calendar count (dates, times of a
day, ranges); durations, repetitions and zones mean no moment. An expression is right when its beginning, and for ranges its
end, is that of one of the listed resolutions.
"""

import datetime as dt
import json
from pathlib import Path
from typing import Any

from infra.quality.figures import Tally
from streams.text.times import TimeSpan, resolve_times

_KINDS = ("date", "datetime", "daterange", "datetimerange")


def judge_times(path: Path, language: str, tally: Tally) -> None:
    """Count expressions that are found, read right of those found, and read right of all."""
    for number, case in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        reference = _reference(case)
        spans = resolve_times(case["Input"], language, int(reference.timestamp() * 1000), "+00:00")
        labelled = [result for result in case["Results"] if _kind(result) in _KINDS]
        if not case["Results"]:
            tally.add("time invented", (language,), right=bool(spans))
        for result in labelled:
            span = _span_of(result, spans)
            right = span is not None and any(_means(span, value) for value in _values(result))
            groups = (language, f"{language} {_kind(result)}")
            tally.add("time found", groups, right=span is not None)
            tally.add("time right of all", groups, right=right)
            if span is not None:
                tally.add("time right of found", groups, right=right)
            if not right:
                tally.wrong("time", f"{language}#{number}", _told(case, result, span))


def _reference(case: dict[str, Any]) -> dt.datetime:
    """The time of the utterance; cases without one mean the same at any time."""
    named = case.get("Context", {}).get("ReferenceDateTime", "2016-11-07T00:00:00")
    return dt.datetime.fromisoformat(named).replace(tzinfo=dt.UTC)


def _kind(result: dict[str, Any]) -> str:
    return str(result["TypeName"]).rpartition(".")[2]


def _values(result: dict[str, Any]) -> list[dict[str, str]]:
    return list((result.get("Resolution") or {}).get("values", []))


def _span_of(result: dict[str, Any], spans: tuple[TimeSpan, ...]) -> TimeSpan | None:
    """The span that covers most of the expression; ``Start`` and ``End`` are characters, the last one included."""
    start, end = result["Start"], result["End"] + 1

    def overlap(span: TimeSpan) -> int:
        return min(span.end, int(end)) - max(span.start, int(start))

    best = max(spans, key=overlap, default=None)
    return best if best is not None and overlap(best) > 0 else None


def _means(span: TimeSpan, value: dict[str, str]) -> bool:
    begins = value.get("value") or value.get("start")
    ends = value.get("end") if "value" not in value else None
    return (
        (begins is None or _same(span.from_ms, begins))
        and (ends is None or _same(span.to_ms, ends))
        and bool(begins or ends)
    )


def _same(at_ms: int, labelled: str) -> bool:
    try:
        moment = dt.datetime.fromisoformat(labelled)
    except ValueError:
        return False
    ours = dt.datetime.fromtimestamp(at_ms / 1000, tz=dt.UTC).replace(tzinfo=None)
    return ours.date() == moment.date() if len(labelled) == 10 else ours.replace(second=0) == moment.replace(second=0)


def _told(case: dict[str, Any], result: dict[str, Any], span: TimeSpan | None) -> str:
    wanted = [value.get("value") or f"{value.get('start')}..{value.get('end')}" for value in _values(result)]
    shown = (
        "nothing"
        if span is None
        else " .. ".join(
            dt.datetime.fromtimestamp(ms / 1000, tz=dt.UTC).isoformat(" ", "minutes")[:16]
            for ms in (span.from_ms, span.to_ms)
        )
    )
    text = span.text if span else ""
    return f"{case['Input']} [{result['Text']}] at {_reference(case):%Y-%m-%d %H:%M %a}: {text!r} {shown}, not {wanted}"
