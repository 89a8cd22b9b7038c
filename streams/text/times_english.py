"""English time expressions: the pattern that finds them and the reader that gives them a period.

Owns what English chat means by ``next Tuesday afternoon`` and the like. Called by ``streams.text.times`` alone. Common
relative expressions are read here; calendar dates are read by ``dateparser``, on exactly the span found.
"""

import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Period = tuple[dt.datetime, dt.datetime]

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBER_WORDS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "half an": 0.5, "half a": 0.5, "a couple of": 2,
}  # fmt: skip
_COUNT = r"(?:\d{1,3}|half an?|a couple of|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_UNIT = r"(?:minute|hour|day|week|month|year)s?"
_MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?"
)
_FULL_MONTH = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)(?! (?:\d|i\b|be\b|not\b))"
_ORDINAL = r"\d{1,2}(?:st|nd|rd|th)?"
_PART = r"(?:morning|noon|afternoon|evening|night)"
_CLOCK = r"(?:\d{1,2}(?:[:.]\d{2})? ?(?:a\.?m\.?|p\.?m\.?)|\d{1,2}:\d{2}|noon|midnight|\d{1,2} o'clock)"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_DATE = (
    rf"(?:{_MONTH} {_ORDINAL}(?:,? \d{{4}})?|(?:the )?{_ORDINAL}(?: of)? {_MONTH}(?:,? \d{{4}})?|{_MONTH},? \d{{4}}"
    rf"|\d{{4}}-\d{{2}}-\d{{2}}|\d{{1,2}}/\d{{1,2}}/\d{{2,4}})"
)
_DAY = (
    rf"(?:the day before yesterday|the day after tomorrow|yesterday|today|tonight|tomorrow"
    rf"|(?:(?:this|next|last|this coming|this past) )?{_WEEKDAY}|(?:this|next|last) weekend|{_DATE})"
)
ENGLISH_TIME = re.compile(
    rf"\b(?:(?:with)?in {_COUNT} {_UNIT}"
    rf"|(?:in |over |for )?the (?:next|coming|last|past) (?:few|{_COUNT}) {_UNIT}"
    rf"|(?:next|last|past) {_COUNT} {_UNIT}|{_COUNT} {_UNIT} (?:ago|from now|later)"
    rf"|(?:(?:at )?{_CLOCK} (?:on )?)?{_DAY}(?:'s)?(?: {_PART})?"
    rf"(?:(?:,? at| around| by| from| between)? {_CLOCK}|,? (?:at|from|between) \d{{1,2}}(?:[:.]\d{{2}})?(?! ?(?:%|[a-su-z]))"
    rf"(?: ?(?:-|to|and|until|till) ?(?:{_CLOCK}|\d{{1,2}}(?::\d{{2}})?))?)?"
    rf"|(?:this|last|next) week (?:on )?{_WEEKDAY}(?:,? at {_CLOCK})?|{_WEEKDAY} (?:this|last|next) week(?:,? at {_CLOCK})?"
    rf"|(?:in|since|until|by|from|of|this|next|last) (?:early |late |mid-?)?{_FULL_MONTH}"
    rf"|(?:in|since|from|until|by) (?:19|20)\d{{2}}"
    rf"|(?:this|last|next) (?:week|month|year)|last night|this {_PART}"
    rf"|at {_CLOCK}|on the {_ORDINAL})(?![a-z0-9])",
    re.IGNORECASE,
)
_SEVERAL = re.compile(rf"(?:in |over |for )?(?:the )?(next|coming|last|past) (few|{_COUNT}) ({_UNIT})", re.IGNORECASE)
_MONTH_ALONE = re.compile(
    rf"(in|since|until|by|from|of|this|next|last) (?:early |late |mid-?)?({_FULL_MONTH})", re.IGNORECASE
)
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_RELATIVE = re.compile(rf"(?:(?:with)?in )?({_COUNT}) ({_UNIT})(?: (ago|from now|later))?", re.IGNORECASE)
_WEEKDAY_OF_WEEK = re.compile(rf"(this|last|next) week (?:on )?({_WEEKDAY})|({_WEEKDAY}) (this|last|next) week")
_WEEKDAY_PARTS = re.compile(rf"(?:\b(this|next|last|this coming|this past) )?\b({_WEEKDAY}|weekend)", re.IGNORECASE)
_CLOCK_PARTS = re.compile(
    r"\b(\d{1,2})(?:[:.](\d{2}))? ?(a\.?m|p\.?m|o'clock)?(?: ?(?:-|to|and|until|till) ?\d{1,2}(?:[:.]\d{2})? ?(a\.?m|p\.?m)?)?",
    re.IGNORECASE,
)
_PART_HOURS = {"morning": (6, 12), "noon": (12, 13), "afternoon": (12, 18), "evening": (18, 22), "night": (19, 24)}
_DAY_SHIFTS = {
    "the day before yesterday": -2, "the day after tomorrow": 2, "yesterday": -1, "last night": -1,
    "today": 0, "tonight": 0, "tomorrow": 1,
}  # fmt: skip


def read_english(phrase: str, reference: dt.datetime) -> Period | None:
    """Return the period ``phrase`` means at local time ``reference``, or ``None`` when it cannot be read."""
    text = phrase.lower().strip()
    for pattern, reader in _READERS:
        if match := pattern.fullmatch(text):
            return reader(match, reference)
    day, rest = _day_of(text, reference)
    return None if day is None else _within(text, rest, day)


def _midnight(moment: dt.datetime) -> dt.datetime:
    return moment.replace(hour=0, minute=0)


def _day_of(text: str, reference: dt.datetime) -> tuple[dt.datetime | None, str]:
    """The day meant, and what is left of the text for the clock."""
    today = _midnight(reference)
    for words, shift in _DAY_SHIFTS.items():
        if words in text:
            return today + dt.timedelta(days=shift), text.replace(words, "")
    if of_week := _WEEKDAY_OF_WEEK.search(text):
        shift = {"last": -1, "this": 0, "next": 1}[of_week[1] or of_week[4]]
        monday = today - dt.timedelta(days=reference.weekday())
        index = _WEEKDAYS.index(of_week[2] or of_week[3])
        return monday + dt.timedelta(weeks=shift, days=index), text.replace(of_week.group(), "")
    if week := _WEEKDAY_PARTS.search(text):
        return _weekday(week, reference), text.replace(week.group(), "")
    if date := re.search(rf"{_DATE}(?![a-z0-9])", text):
        return _by_library(date.group(), reference), text.replace(date.group(), "")
    if ordinal := re.fullmatch(rf"on the ({_ORDINAL})", text):
        return _by_library(ordinal[1], reference), ""
    return today, text


def _weekday(match: re.Match[str], reference: dt.datetime) -> dt.datetime:
    prefix, name = match[1], match[2]
    index = 5 if name == "weekend" else _WEEKDAYS.index(name)
    monday = _midnight(reference) - dt.timedelta(days=reference.weekday())
    day = monday + dt.timedelta(days=index)
    match prefix:
        case "next":
            return day + dt.timedelta(weeks=1)
        case "last" | "this past":
            return day - dt.timedelta(weeks=1) if day >= _midnight(reference) or name == "weekend" else day
        case "this" | "this coming":
            return day
    # A bare weekday that is over means the coming one: plans are told more often than the past.
    return day + dt.timedelta(weeks=1) if day < _midnight(reference) else day


def _within(text: str, rest: str, day: dt.datetime) -> Period:
    part = next((name for name in _PART_HOURS if re.search(rf"\b{name}|to{name}", text)), None)
    clock = _CLOCK_PARTS.search(rest) if not re.search(r"\bnoon|midnight", rest) else None
    if clock is not None:
        hour, minute = int(clock[1]), int(clock[2] or 0)
        # "from 2 to 3 pm" says the half of the day once, for both.
        marker = (clock[3] or clock[4] or "").lower()
        if marker.startswith("p") or (not marker.startswith("a") and part in {"afternoon", "evening", "night"}):
            hour += 12 if hour < 12 else 0
        elif marker.startswith("a") and hour == 12:
            hour = 0
        elif not marker and part is None and 1 <= hour <= 6:
            hour += 12  # nobody says "tomorrow at 3" for the middle of the night
        start = day + dt.timedelta(hours=min(hour, 23), minutes=min(minute, 59))
        return start, start + dt.timedelta(minutes=1)
    if part is not None:
        begin, end = _PART_HOURS[part]
        return day + dt.timedelta(hours=begin), day + dt.timedelta(hours=end)
    if re.fullmatch(rf"{_MONTH},? \d{{4}}", text):
        return day.replace(day=1), (day.replace(day=1) + dt.timedelta(days=32)).replace(day=1)
    return day, day + dt.timedelta(days=2 if "weekend" in text else 1)


def _relative(match: re.Match[str], reference: dt.datetime) -> Period | None:
    count, unit, direction = match[1], match[2].rstrip("s"), match[3]
    amount = float(count) if count.isdigit() else _NUMBER_WORDS.get(count, 1)
    sign = -1 if direction == "ago" else 1
    if unit in {"minute", "hour"}:
        start = reference + sign * amount * dt.timedelta(minutes=1 if unit == "minute" else 60)
        return start, start + dt.timedelta(minutes=1)
    if unit in {"day", "week"}:
        day = _midnight(reference) + sign * dt.timedelta(days=round(amount * (1 if unit == "day" else 7)))
        return day, day + dt.timedelta(days=1)
    months = round(amount * (1 if unit == "month" else 12))
    start = _first_of_month(reference, sign * min(months, 1800))
    return start, _first_of_month(start, 1 if unit == "month" else 12)


def _several(match: re.Match[str], reference: dt.datetime) -> Period:
    """``the next two weeks``: a period from now, or up to now."""
    count = 3.0 if match[2] == "few" else float(match[2]) if match[2].isdigit() else _NUMBER_WORDS.get(match[2], 1)
    days = (
        count
        * {"minute": 1 / 1440, "hour": 1 / 24, "day": 1, "week": 7, "month": 30, "year": 365}[match[3].rstrip("s")]
    )
    span = dt.timedelta(days=min(days, 36_500))
    return (reference, reference + span) if match[1] in {"next", "coming"} else (reference - span, reference)


def _month_alone(match: re.Match[str], reference: dt.datetime) -> Period:
    """``in April``: of this year; ``last`` and ``next`` mean the nearest one before and after."""
    month = _MONTHS.index(match[2]) + 1
    year = reference.year
    if match[1] == "next" and month <= reference.month:
        year += 1
    if match[1] == "last" and month >= reference.month:
        year -= 1
    start = _midnight(reference).replace(year=year, month=month, day=1)
    return start, _first_of_month(start, 1)


def _year_alone(match: re.Match[str], reference: dt.datetime) -> Period:
    start = _midnight(reference).replace(year=int(match[1]), month=1, day=1)
    return start, start.replace(year=start.year + 1)


def _longer(match: re.Match[str], reference: dt.datetime) -> Period:
    prefix, unit = match[1], match[2]
    shift = {"last": -1, "this": 0, "next": 1}[prefix]
    if unit == "week":
        start = _midnight(reference) - dt.timedelta(days=reference.weekday()) + dt.timedelta(weeks=shift)
        return start, start + dt.timedelta(weeks=1)
    if unit == "month":
        return _first_of_month(reference, shift), _first_of_month(reference, shift + 1)
    start = _midnight(reference).replace(year=reference.year + shift, month=1, day=1)
    return start, start.replace(year=start.year + 1)


def _first_of_month(moment: dt.datetime, shift: int) -> dt.datetime:
    month = moment.year * 12 + moment.month - 1 + shift
    return dt.datetime(month // 12, month % 12 + 1, 1)  # noqa: DTZ001  local time, its zone is added by the caller


_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], dt.datetime], Period | None]], ...] = (
    (_RELATIVE, _relative),
    (_SEVERAL, _several),
    (re.compile(r"(?:in|since|from|until|by) (\d{4})"), _year_alone),
    (_MONTH_ALONE, _month_alone),
    (re.compile(r"(this|last|next) (week|month|year)"), _longer),
)


@lru_cache(maxsize=1)
def _library() -> Any:
    # Imported here and once: it takes 0.2 s to load, and only calendar dates need it.
    import dateparser  # noqa: PLC0415

    return dateparser


def _by_library(date: str, reference: dt.datetime) -> dt.datetime | None:
    clean = re.sub(r"^the |\bof\b ", "", date)
    settings = {"RELATIVE_BASE": reference, "PREFER_DATES_FROM": "current_period", "PREFER_DAY_OF_MONTH": "first"}
    moment = _library().parse(clean, languages=["en"], settings=settings)
    return _midnight(moment.replace(second=0, microsecond=0, tzinfo=None)) if isinstance(moment, dt.datetime) else None
