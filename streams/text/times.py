"""Time expressions of chat turned into absolute times, in Chinese and English.

Owns the span patterns (``TIME_HINT_*``) and the meaning of weekdays, parts of the day and relative periods. ``jionlp``
reads Chinese spans and ``dateparser`` English ones that the small readers here do not cover; both see only spans found by
our own patterns, because their search modes invent times. Called by the extractor. Uses no clock: the reference time is
the time of the turn, and the zone is the user's.
"""

import datetime as dt
import re
from dataclasses import dataclass
from functools import lru_cache

from streams.text.normalise import simplify
from streams.text.times_chinese import CHINESE_TIME, read_chinese
from streams.text.times_english import ENGLISH_TIME, read_english

_HINT = re.compile(
    r"[今明后前昨][天日早晚年]|大[后前]天|[上下本这]个?(?:周|月|星期|礼拜|季)|周[一二三四五六日天末]|星期|礼拜|[0-9一二三四五六七八九十两几半][天周月年号日点时分小个]"
    r"|去年|月[底初]|年[底初]|凌晨|早上|上午|中午|下午|傍晚|晚上|今晚|节|[0-9]{1,2}[:：/.\-][0-9]{1,2}"
)

_HINT_ENGLISH = re.compile(
    r"\d|day|week|month|year|hour|minute|morning|noon|evening|night|tomorrow|ago\b|later\b"
    r"|january|february|march|april|\bmay\b|june|july|august|september|october|november|december",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A time expression: where it stands and the period it means, in UTC milliseconds, ``from_ms`` included, ``to_ms`` excluded."""

    start: int
    end: int
    text: str
    from_ms: int
    to_ms: int


def zone_of(timezone_offset: str | None) -> dt.timezone:
    """Return the zone of an offset such as ``+08:00``; UTC when it is missing or unreadable."""
    match = re.fullmatch(r"([+-])(\d{2}):?(\d{2})", timezone_offset or "")
    if match is None:
        return dt.UTC
    minutes = min(int(match[2]) * 60 + int(match[3]), 14 * 60)
    return dt.timezone(dt.timedelta(minutes=-minutes if match[1] == "-" else minutes))


def local_time(at_ms: int, timezone_offset: str | None) -> dt.datetime:
    """Return the user's local time at ``at_ms``."""
    return dt.datetime.fromtimestamp(at_ms / 1000, tz=zone_of(timezone_offset))


def end_of_day_ms(at_ms: int, timezone_offset: str | None) -> int:
    """Return the first millisecond after the local day that contains ``at_ms``."""
    day = local_time(at_ms, timezone_offset).replace(hour=0, minute=0, second=0, microsecond=0)
    return _ms(day + dt.timedelta(days=1))


def resolve_times(text: str, language: str, reference_ms: int, timezone_offset: str | None) -> tuple[TimeSpan, ...]:
    """Return the time expressions of ``text`` with the periods they mean, in order of their place.

    ``language`` is ``zh`` or ``en``; a Chinese text is also searched for English expressions only if it has none of its
    own. What cannot be read is left out, never guessed.
    """
    reference = local_time(reference_ms, timezone_offset).replace(second=0, microsecond=0, tzinfo=None)
    zone = zone_of(timezone_offset)
    if language == "zh":
        text = simplify(text)
        spans = _spans(text, CHINESE_TIME, "zh", reference, zone) if _HINT.search(text) else ()
        if spans:
            return spans
    return _spans(text, ENGLISH_TIME, "en", reference, zone) if _HINT_ENGLISH.search(text) else ()


def _spans(
    text: str, pattern: re.Pattern[str], language: str, reference: dt.datetime, zone: dt.timezone
) -> tuple[TimeSpan, ...]:
    found = []
    for match in pattern.finditer(text):
        phrase = match.group().strip()
        if not phrase:
            continue
        period = _read(phrase, language, reference)
        if period is not None:
            start = match.start() + match.group().index(phrase)
            begin, end = (moment.replace(tzinfo=zone) for moment in period)
            found.append(TimeSpan(start, start + len(phrase), phrase, _ms(begin), _ms(end)))
    return tuple(found)


@lru_cache(maxsize=4096)
def _read(phrase: str, language: str, reference: dt.datetime) -> tuple[dt.datetime, dt.datetime] | None:
    return read_chinese(phrase, reference) if language == "zh" else read_english(phrase, reference)


def _ms(moment: dt.datetime) -> int:
    return int(moment.timestamp() * 1000)
