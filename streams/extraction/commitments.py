"""Appointments, reminders, plans and events: what happens at a time.

Owns the patterns of commitments and happenings in both languages, and whether one is confirmed. Called by ``rules`` for
each clause. An appointment that was only asked for stays tentative until the answer or a later turn confirms it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from streams.extraction.clauses import Clause
from streams.extraction.facts import PLAIN, USER, Fact, local_stamp
from streams.extraction.patterns import patterns
from streams.text.times import TimeSpan, resolve_times

_PATTERNS = patterns("commitments")
_APPOINTMENT = _PATTERNS["appointment"]
_REQUEST = _PATTERNS["request"]
_REMINDER = re.compile(
    r"提醒我|记得叫我|叫我起床|别忘了提醒|\bremind me\b|\bset (?:a|an) (?:reminder|alarm)\b", re.IGNORECASE
)
_CANCEL = re.compile(r"取消|不去了|退掉|不用.{0,4}预约|\bcancel(?:led|ed)?\b|\bcall off\b", re.IGNORECASE)
_CONFIRMED = _PATTERNS["confirmed"]
_UNCONFIRMED = _PATTERNS["unconfirmed"]
_INTENT = _PATTERNS["intent"]
_UNTIMED_PLAN = _PATTERNS["untimed_plan"]
_SMALL_TALK = _PATTERNS["small_talk"]
_MOVED = _PATTERNS["moved"]
_SEARCH = _PATTERNS["search"]
_RECENT = re.compile(r"最近|刚刚?|前不久|\b(?:recently|just|lately)\b", re.IGNORECASE)
_LEADING_TIME_EN = _PATTERNS["leading_time_en"]
_WISH = re.compile(
    r"想(?:去|学|买|换|要)|希望|\b(?:want to|would like to|hope to|wish to|might|thinking of)\b", re.IGNORECASE
)
_HAPPENED = _PATTERNS["happened"]
_HEAD_NOUN_ZH = re.compile(
    r"看牙|牙科|牙医|医生|体检|复诊|面试|会议|开会|聚餐|航班|高铁|考试|手术|餐厅|酒店|理发|挂号|报告|出差|答辩|婚礼|约会|机票|健身课|课"
)
_HEAD_NOUN_EN = _PATTERNS["head_noun_en"]


@dataclass(frozen=True, slots=True)
class Moment:
    """What a commitment needs to know of its turn."""

    reference_ms: int
    timezone_offset: str | None
    answer: str


def times_in(clause: Clause, moment: Moment) -> tuple[TimeSpan, ...]:
    """Return the time expressions of a clause."""
    return resolve_times(clause.text, clause.language, moment.reference_ms, moment.timezone_offset)


def commitments_of(clause: Clause, subject: str, times: tuple[TimeSpan, ...], moment: Moment) -> Iterator[Fact]:
    """Yield appointments, reminders, cancellations and timed plans of a clause."""
    text = clause.text
    rescheduled = _MOVED.search(text) is not None
    period = times[-1 if rescheduled else 0] if times else None
    if rescheduled and period is not None and not clause.question:
        fact = _appointment(clause, subject, period, moment, intent="correct")
        yield replace(fact, tentative=not _is_confirmed(moment.answer))
        return
    if _CANCEL.search(text) and _APPOINTMENT.search(text) and not clause.supposed:
        yield _appointment(clause, subject, period, moment, intent="cancel")
        return
    if _REMINDER.search(text):
        # A reminder is asked for by saying it; only the agent's own doubt leaves it open.
        fact = _appointment(clause, subject, period, moment, intent="request", attribute="reminder")
        yield replace(fact, tentative=not _is_confirmed(moment.answer, default=True))
        return
    asked = _REQUEST.search(text) is not None
    if _APPOINTMENT.search(text) and (period is not None or asked) and (asked or not clause.question):
        fact = _appointment(clause, subject, period, moment, intent="request" if asked else "commit")
        yield replace(fact, tentative=(asked and not _is_confirmed(moment.answer)) or clause.hedged)
        return
    if clause.question or clause.supposed or subject != USER:
        return
    if (
        period is not None
        and period.to_ms > moment.reference_ms
        and not _SMALL_TALK.search(text)
        and not _SEARCH.search(text)
        and (_INTENT.search(text) or _WISH.search(text))
    ):
        yield _plan(clause, period, moment)


def plans_without_time(rest: str, clause: Clause) -> Iterator[Fact]:
    """Yield a plan told without a time."""
    match = _UNTIMED_PLAN.match(rest)
    if match is None or clause.question:
        return
    value = next(group for group in match.groups() if group).strip(" ，。,.")
    if (
        re.search(r"这|那|你|什么|[了]$|\b(?:it|that|this|you|whether)\b", value)
        or _SMALL_TALK.search(value)
        or _SEARCH.search(value)
    ):
        return
    told = third_person(clause.text, clause.language)
    sentence = f"用户{told}" if clause.language == "zh" else f"The user {told}"
    yield Fact(
        attribute="plan",
        value=value,
        language=clause.language,
        type="fact",
        intent="commit",
        importance=0.5,
        sentence=sentence,
    )


def events_of(clause: Clause, subject: str, times: tuple[TimeSpan, ...], moment: Moment) -> Iterator[Fact]:
    """Yield what happened, when the clause tells an action at a past time."""
    if clause.question or clause.supposed or subject != USER:
        return
    period = next((time for time in times if time.from_ms <= moment.reference_ms), None)
    happened = _HAPPENED.search(clause.text)
    told = third_person(clause.text, clause.language)
    recent = period is None and _RECENT.search(clause.text) is not None
    if happened is None or (period is None and not recent) or not 5 < len(told) <= 160:
        return
    if re.search(r"它|那里|这个?$|\bhad it\b", told) or _SMALL_TALK.search(told):
        return
    stamp = local_stamp(period, moment.timezone_offset) if period else ""
    shown = (f"（{stamp}）" if clause.language == "zh" else f" ({stamp})") if stamp else ""
    sentence = f"用户{told}{shown}" if clause.language == "zh" else f"The user {told}{shown}"
    yield Fact(
        attribute="event",
        value=told,
        language=clause.language,
        type="event",
        sentence=sentence,
        period=period,
        importance=0.5,
        structured={"what": told, "when": stamp},
    )


def moved(fact: Fact, new: str, moment: Moment) -> Iterator[Fact]:
    """Yield an appointment at the new time a correction names."""
    times = resolve_times(new, fact.language, moment.reference_ms, moment.timezone_offset)
    if not times or not isinstance(fact.structured, dict):
        return
    what, stamp = str(fact.structured["what"]), local_stamp(times[0], moment.timezone_offset)
    value = f"{what}（{stamp}）" if fact.language == "zh" else f"{what} ({stamp})"
    structured = {**fact.structured, "when": stamp}
    yield replace(fact, value=value, structured=structured, period=times[0], intent="correct", sentence="")


def _is_confirmed(answer: str, *, default: bool = False) -> bool:
    if not answer:
        return default
    if _CONFIRMED.search(answer):
        return True
    return default and _UNCONFIRMED.search(answer) is None


def _appointment(
    clause: Clause,
    subject: str,
    period: TimeSpan | None,
    moment: Moment,
    *,
    intent: str,
    attribute: str = "appointment",
) -> Fact:
    what = _subject_matter(clause, period)
    stamp = local_stamp(period, moment.timezone_offset) if period else ""
    value = f"{what}（{stamp}）" if stamp and clause.language == "zh" else f"{what} ({stamp})" if stamp else what
    cancelled = intent == "cancel"
    fact = Fact(
        attribute=attribute,
        value=value,
        language=clause.language,
        subject=subject,
        type="event_commitment",
        entity_type="appointment",
        entity_id=_entity_of(clause, what),
        structured={
            "what": what,
            "when": stamp,
            "status": "cancelled" if cancelled else "asked" if intent == "request" else "set",
        },
        intent=intent,
        period=period,
        expires=True,
        confidence=PLAIN,
    )
    if cancelled:
        told = f"用户取消了：{what}" if clause.language == "zh" else f"The user cancelled: {what}"
        return replace(fact, negated=True, sentence=told + (f"（{stamp}）" if stamp else ""))
    return fact


def _entity_of(clause: Clause, what: str) -> str:
    """The logical appointment: its kind of business, so that moving or cancelling it meets the same entity."""
    pattern = _HEAD_NOUN_ZH if clause.language == "zh" else _HEAD_NOUN_EN
    if match := pattern.search(clause.text):
        noun = match.group().lower()
        return {"牙科": "看牙", "牙医": "看牙", "会议": "开会", "挂号": "医生", "复诊": "医生"}.get(noun, noun)
    return re.sub(r"\s+", "_", what.lower())[:40] or "appointment"


def _plan(clause: Clause, period: TimeSpan, moment: Moment) -> Fact:
    told = third_person(clause.text, clause.language)
    stamp = local_stamp(period, moment.timezone_offset)
    sentence = f"用户{told}（{stamp}）" if clause.language == "zh" else f"The user plans: {told} ({stamp})"
    wish = _WISH.search(clause.text) is not None or clause.hedged
    return Fact(
        attribute="plan",
        value=told,
        language=clause.language,
        type="event_commitment",
        sentence=sentence,
        period=period,
        expires=True,
        intent="commit",
        tentative=wish,
        confidence=0.5 if clause.hedged else PLAIN,
        structured={"what": told, "when": stamp},
    )


_OPENING_EN = re.compile(
    r"(?:please|can|could|would|may|I|you|we|want|need|like|help|me|to|have|got|am|book(?:ed)?|reserve(?:d)?|schedule(?:d)?"
    r"|cancel(?:led)?|remind|make|arrange|set up|an?|my|the|for|['’](?:d|ve|ll|m))\b[ ]*",
    re.IGNORECASE,
)


def _subject_matter(clause: Clause, period: TimeSpan | None) -> str:
    text = clause.text.replace(period.text, " ", 1) if period else clause.text
    if _MOVED.search(clause.text):
        noun = (_HEAD_NOUN_ZH if clause.language == "zh" else _HEAD_NOUN_EN).search(clause.text)
        return noun.group() if noun else ("预约" if clause.language == "zh" else "appointment")
    if clause.language == "zh":
        text = re.sub(
            r"^(?:请|麻烦|能不能|可以|能|帮我|帮忙|给我|我想要?|我要|想要?|需要|希望|对了|那|顺便|我|你)+",
            "",
            text.strip(),
        )
        text = re.sub(r"^(?:预约|预定|预订|约了?|取消|提醒我|订个?|订了)+(?:一下|一个|个|的|了)*", "", text.strip())
        return re.sub(r"\s+", "", text).strip("的了吧吗，。 ") or clause.text
    text = text.strip()
    while (opening := _OPENING_EN.match(text)) is not None and opening.end() > 0:
        text = text[opening.end() :]
    text = re.sub(r"\s+(?:on|at|for|in|by|this|next)?\s*$", "", re.sub(r"\s{2,}", " ", text)).strip(" ,.?!")
    return text or clause.text


def third_person(text: str, language: str) -> str:
    """Return a clause of the user as told about him: 我 and I removed or replaced."""
    if language == "zh":
        body = re.sub(
            r"^(?:嗯|哦|对了|那个|另外|还有|而且|但是?|不过|其实|因为|所以|然后|是的|哈哈|你好啊?|顺便说一下)+",
            "",
            text,
        )
        body = re.sub(r"^我(?!们)|(?<=[天日晚早上午周月年末近后点分号时半一二三四五六])我(?!们)", "", body, count=1)
        body = body.replace("我们", "用户和同伴")
        return body.replace("我", "用户").replace("我的", "用户的")
    body = re.sub(
        r"^(?:well|oh|so|and|but|also|actually|by the way|yes|yeah|hi|hello|hey)[, ]+", "", text, flags=re.IGNORECASE
    )
    body = _LEADING_TIME_EN.sub("", body)
    body = re.sub(
        r"^I(?:'m| am)\b", "is", re.sub(r"^I(?:'ve| have)\b", "has", re.sub(r"^I(?:'ll| will)\b", "will", body))
    )
    body = re.sub(r"^I\s+", "", body)
    body = re.sub(r"\bmy\b", "their", re.sub(r"\bMy\b", "Their", body))
    return re.sub(r"\bI\b", "they", re.sub(r"\bme\b", "them", body))
