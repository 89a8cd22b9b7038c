"""Chinese time expressions: the pattern that finds them and the reader that gives them a period.

Owns what Chinese chat means by ``下周二下午`` and the like. Called by ``streams.text.times`` alone. Common relative
expressions are read here; dates, clock times and feasts are read by ``jionlp``.
"""

import contextlib
import datetime as dt
import io
import re
from functools import lru_cache
from typing import Any

Period = tuple[dt.datetime, dt.datetime]

_NUMBER = r"(?:\d{1,4}|[一二两三四五六七八九十百半几]{1,4})"
_DAY_PART = r"(?:凌晨|清晨|早上|早晨|上午|中午|午后|下午|傍晚|晚上|夜里|深夜|半夜|早|晚)"
_CLOCK = rf"(?:{_NUMBER}点(?:钟|半|整|一刻|三刻|{_NUMBER}分?)?|\d{{1,2}}[:：]\d{{2}})"
_WEEKDAY = r"(?:(?:周|星期|礼拜)[一二三四五六日天末])"
_DAY = (
    rf"(?:大前天|前天|昨天|昨日|昨晚|今天|今日|今早|今晚|当天|明天|明日|明早|明晚|后天|大后天"
    rf"|(?:上上|下下|上|下|这|本)个?{_WEEKDAY}|{_WEEKDAY}|(?:上|下|这|本)?个?周末"
    rf"|(?:(?:\d{{4}}|今|明|去|前|后|[〇零一二三四五六七八九]{{4}})年)?(?:(?:上|下|这|本)个?月|(?:\d{{1,2}}|[一二三四五六七八九十]{{1,2}})月(?:份)?)(?:{_NUMBER}[号日]|初|底|中旬|上旬|下旬)?"
    rf"|(?:\d{{1,2}}|[一二三四五六七八九十]{{1,3}})[号日](?![线楼院码店])|\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}/\d{{1,2}}"
    rf"|(?:\d{{4}}|今|明|去|前|后)年(?:[春夏秋冬]天|年?[初底])?"
    rf"|(?:上上|下下|上|下|这|本)个?(?:周|星期|礼拜|季度)(?![一二三四五六日天末边围])|年底|年初|月底|月初"
    rf"|(?:今年|明年|去年)?(?:元旦|春节|除夕|清明节?|五一|劳动节|端午节?|中秋节?|国庆节?|圣诞节?|情人节))"
)
_RELATIVE = rf"(?:{_NUMBER}个?(?:多)?(?:分钟|小时|钟头|天|周|星期|礼拜|月|年)(?:半)?(?:之?[前后]|以[前后]))"
CHINESE_TIME = re.compile(
    rf"{_RELATIVE}|{_DAY}的?(?:{_DAY_PART})?(?:{_CLOCK})?|{_DAY_PART}(?:{_CLOCK})|(?<![\d点]){_CLOCK}"
)

_DIGITS = {"一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_WEEKDAYS = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_DAYS = {
    "大前天": -3, "前天": -2, "昨天": -1, "昨日": -1, "昨晚": -1, "今天": 0, "今日": 0, "今早": 0, "今晚": 0, "当天": 0,
    "明天": 1, "明日": 1, "明早": 1, "明晚": 1, "后天": 2, "大后天": 3,
}  # fmt: skip
_PART_HOURS = {
    "凌晨": (0, 6), "清晨": (5, 8), "早上": (6, 9), "早晨": (6, 9), "早": (6, 9), "上午": (8, 12), "中午": (11, 13),
    "午后": (12, 18), "下午": (12, 18), "傍晚": (17, 19), "晚上": (18, 24), "晚": (18, 24), "夜里": (20, 24),
    "深夜": (22, 24), "半夜": (0, 4),
}  # fmt: skip
_DAY_WORD = re.compile(r"大前天|前天|昨天|昨日|昨晚|今天|今日|今早|今晚|当天|明天|明日|明早|明晚|大后天|后天")
_WEEK = re.compile(r"(上上|下下|上|下|这|本)?个?(?:周|星期|礼拜)([一二三四五六日天末])|(上|下|这|本)?个?周末")
_WHOLE_WEEK = re.compile(r"(上上|下下|上|下|这|本)个?(?:周|星期|礼拜)")
_WHOLE_MONTH = re.compile(r"(上|下|这|本)个?月(底|初|中旬|上旬|下旬)?")
_MONTH_EDGE = re.compile(r"月(底|初)")
_AGO = re.compile(r"(.{1,4}?)个?多?(分钟|小时|钟头|天|周|星期|礼拜|月|年)(半)?(?:之|以)?(前|后)")
_CLOCK_PARTS = re.compile(
    r"(\d{1,2}|[一二两三四五六七八九十]{1,3})(?:点|[:：])(半|一刻|三刻|整|钟|\d{1,2}|[一二三四五六七八九十]{1,3})?"
)
_SHIFT = {"上上": -2, "上": -1, "这": 0, "本": 0, None: 0, "下": 1, "下下": 2}


def read_chinese(phrase: str, reference: dt.datetime) -> Period | None:
    """Return the period ``phrase`` means at local time ``reference``, or ``None`` when it cannot be read."""
    day = _day_of(phrase, reference)
    if day is not None:
        return _within(phrase, day)
    if re.fullmatch(rf"(?:{_DAY_PART})?(?:{_CLOCK})?", phrase):
        return _within(phrase, _midnight(reference))
    return _relative(phrase, reference) or _longer(phrase, reference) or _by_library(phrase, reference)


def _midnight(moment: dt.datetime) -> dt.datetime:
    return moment.replace(hour=0, minute=0)


def _day_of(phrase: str, reference: dt.datetime) -> dt.datetime | None:
    if word := _DAY_WORD.match(phrase):
        return _midnight(reference) + dt.timedelta(days=_DAYS[word.group()])
    if (week := _WEEK.match(phrase)) is None:
        return None
    shift = _SHIFT[week[1] or week[3]]
    weekday = 5 if week[2] in (None, "末") else _WEEKDAYS[week[2]]
    day = _midnight(reference) + dt.timedelta(days=weekday - reference.weekday() + 7 * shift)
    named = week[1] or week[3]
    # Without 上 or 下 a weekday that is over means the coming one: plans are told more often than the past.
    return day + dt.timedelta(days=7) if not named and day < _midnight(reference) else day


def _within(phrase: str, day: dt.datetime) -> Period:
    part = next((name for name in sorted(_PART_HOURS, key=len, reverse=True) if name in phrase), None)
    if clock := _CLOCK_PARTS.search(phrase):
        hour, minute = _clock(phrase, clock[1], clock[2], part)
        start = day + dt.timedelta(hours=hour, minutes=minute)
        return start, start + dt.timedelta(minutes=1)
    if part is not None:
        begin, end = _PART_HOURS[part]
        return day + dt.timedelta(hours=begin), day + dt.timedelta(hours=end)
    days = 2 if phrase.endswith("末") else 1
    return day, day + dt.timedelta(days=days)


def _clock(phrase: str, hour_text: str, minute_text: str | None, part: str | None) -> tuple[int, int]:
    hour = _number(hour_text) or 0
    minute = {"半": 30, "一刻": 15, "三刻": 45, "整": 0, "钟": 0, None: 0}.get(minute_text)
    if minute is None:
        minute = _number(minute_text or "") or 0
    afternoon = part in {"下午", "午后", "傍晚", "晚上", "晚", "夜里", "深夜"} or (part == "中午" and hour < 11)
    if (afternoon and hour < 12) or (part is None and 1 <= hour <= 6 and "点" in phrase):  # "明天3点" is not the night
        hour += 12
    return min(hour, 24), min(minute, 59)


def _relative(phrase: str, reference: dt.datetime) -> Period | None:
    match = _AGO.fullmatch(phrase)
    if match is None:
        return None
    amount = 0.5 if match[1] == "半" else _number(match[1])
    if amount is None:
        return None
    amount += 0.5 if match[3] else 0
    sign = -1 if match[4] == "前" else 1
    unit = match[2]
    if unit in {"分钟", "小时", "钟头"}:
        start = reference + sign * amount * (dt.timedelta(minutes=1) if unit == "分钟" else dt.timedelta(hours=1))
        return start, start + dt.timedelta(minutes=1)
    if unit in {"天", "周", "星期", "礼拜"}:
        day = _midnight(reference) + sign * dt.timedelta(days=round(amount * (1 if unit == "天" else 7)))
        return day, day + dt.timedelta(days=1)
    months = round(amount * (1 if unit == "月" else 12))
    if months > 12 * 150:
        return None
    start = _first_of_month(reference, sign * months)
    return start, _first_of_month(start, 1) if unit == "月" else _first_of_month(start, 12)


def _longer(phrase: str, reference: dt.datetime) -> Period | None:
    if week := _WHOLE_WEEK.fullmatch(phrase):
        monday = _midnight(reference) - dt.timedelta(days=reference.weekday())
        start = monday + dt.timedelta(weeks=_SHIFT[week[1]])
        return start, start + dt.timedelta(weeks=1)
    if month := _WHOLE_MONTH.fullmatch(phrase):
        return _part_of_month(_first_of_month(reference, _SHIFT[month[1]]), month[2])
    if edge := _MONTH_EDGE.fullmatch(phrase):
        return _part_of_month(_first_of_month(reference, 0), edge[1])
    if phrase in {"年底", "年初"}:
        start = reference.replace(month=12 if phrase == "年底" else 1, day=1, hour=0, minute=0)
        return start, _first_of_month(start, 1)
    return None


def _part_of_month(start: dt.datetime, part: str | None) -> Period:
    end = _first_of_month(start, 1)
    match part:
        case "初" | "上旬":
            return start, start + dt.timedelta(days=10)
        case "中旬":
            return start + dt.timedelta(days=10), start + dt.timedelta(days=20)
        case "底" | "下旬":
            return start + dt.timedelta(days=20), end
    return start, end


def _first_of_month(moment: dt.datetime, shift: int) -> dt.datetime:
    month = moment.year * 12 + moment.month - 1 + shift
    return dt.datetime(month // 12, month % 12 + 1, 1)  # noqa: DTZ001  local time, its zone is added by the caller


def _number(text: str) -> int | None:
    if text.isdigit():
        return int(text)
    if not text or any(character not in _DIGITS and character != "十" for character in text):
        return None
    if "十" not in text:
        return _DIGITS[text] if len(text) == 1 else None
    tens, _, ones = text.partition("十")
    return (_DIGITS.get(tens, 1) if tens else 1) * 10 + (_DIGITS.get(ones, 0) if ones else 0)


@lru_cache(maxsize=1)
def _library() -> Any:
    # Imported here and once: it takes most of a second to load, and only dates and feasts need it. It prints a greeting.
    with contextlib.redirect_stdout(io.StringIO()):
        import jionlp  # noqa: PLC0415
    return jionlp


def _by_library(phrase: str, reference: dt.datetime) -> Period | None:
    base = {
        "year": reference.year, "month": reference.month, "day": reference.day,
        "hour": reference.hour, "minute": reference.minute, "second": 0,
    }  # fmt: skip
    try:
        result = _library().parse_time(phrase, time_base=base)
        begin, end = (dt.datetime.fromisoformat(moment) for moment in result["time"])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError):
        # The library raises whatever its parts raise on a phrase it cannot read; no time is then the right answer.
        return None
    if re.search(_CLOCK, phrase):
        return begin, begin + dt.timedelta(minutes=1)
    return begin, end + dt.timedelta(seconds=1)
