"""Appointments, reminders, plans and events: what happens at a time.

Owns the patterns of commitments and happenings in both languages, and whether one is confirmed. Called by ``rules`` for
each clause. An appointment that was only asked for stays tentative until the answer or a later turn confirms it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from streams.extraction.clauses import Clause
from streams.extraction.facts import PLAIN, USER, Fact, local_stamp
from streams.text.times import TimeSpan, resolve_times

_APPOINTMENT = re.compile(
    r"预约|预定|预订|约了|约好|订了|订个?位|挂号|挂了.{0,6}号|复诊|面试|开会|有个?会|看牙|体检|见客户|约会|聚餐|航班|飞机|高铁|考试|答辩|婚礼|会议|手术|交报告|截止"
    r"|\b(?:appointment|booked|book (?:a|an|the|me|my|us|it)|reserv(?:e|ed|ation)|interview|meeting|dentist|doctor|flight|exam|check-?up|surgery|deadline|wedding|conference|schedule[d]?)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"^(?:请|麻烦|能不能|可以|能|可不可以|帮我|帮忙|给我|我想|我要|想|要|需要|希望|能否|我需要|我想要).{0,8}?(?:预约|预定|预订|订|约|挂号|安排|报名)"
    r"|\b(?:can|could|would|may) (?:I|you|we)\b.{0,30}\b(?:book|reserve|schedule|make|set up|arrange|get)\b|\b(?:please|want to|would like to|need to|like to|help me)\b.{0,12}\b(?:book|reserve|schedule|make an? (?:appointment|reservation)|set up|arrange)\b"
    r"|^(?:book|reserve|schedule|arrange)\b",
    re.IGNORECASE,
)
_REMINDER = re.compile(
    r"提醒我|记得叫我|叫我起床|别忘了提醒|\bremind me\b|\bset (?:a|an) (?:reminder|alarm)\b", re.IGNORECASE
)
_CANCEL = re.compile(r"取消|不去了|退掉|不用.{0,4}预约|\bcancel(?:led|ed)?\b|\bcall off\b", re.IGNORECASE)
_CONFIRMED = re.compile(
    r"已(?:经|为您|帮您|帮你|为你)?.{0,6}(?:预约|预订|预定|订好|安排|设置|设好|记下|记录|确认|取消)|预约成功|预订成功|(?:好的|没问题).{0,6}(?:我会|会)(?:提醒|按时)"
    r"|\b(?:is|has been|have been|are) (?:booked|confirmed|scheduled|reserved|set|cancel)|\b(?:I have|I've) (?:booked|scheduled|reserved|set|confirmed|cancel)|\bI(?: wi|')ll remind\b|\byou(?:'re| are) (?:all set|booked|confirmed)\b",
    re.IGNORECASE,
)
_UNCONFIRMED = re.compile(
    r"还需要?您?你?确认|需要您?你?确认|可以吗|是否|要(?:我)?.{0,6}吗|[?？]\s*$|\b(?:shall|should|would you|do you want|can you confirm|please confirm|let me know)\b",
    re.IGNORECASE,
)
_INTENT = re.compile(
    r"^(?:我|我们)?(?:会|要|得|必须|打算|计划|准备|决定|将|约了?.{1,8}|得去|需要|有)|(?:打算|计划|准备|要|会|得)(?:去|在|和|跟|参加|交|做|开|回|出|搬|考|见|买|看|学|飞|带|陪|办)"
    r"|\b(?:I|we) (?:will|am going to|plan to|am planning|need to|have to|must|intend to|decided to|have (?:a|an|my)|am (?:flying|meeting|moving|visiting|traveling|travelling|starting|leaving|having|seeing|getting|taking|driving|going))\b|\bI'll\b|\bgoing to\b",
    re.IGNORECASE,
)
_UNTIMED_PLAN = re.compile(
    r"^(?:我|我们)?(?:最近|已经|也|还|正|一直|在)*(?:打算|计划|准备)(?:着|要)?(?P<zh>.{2,40})$"
    r"|^(?:am|have been|are) (?:planning (?:to|on|for)|preparing (?:for|to)|thinking (?:of|about)(?= \w+ing)|considering(?= \w+ing)|planning(?= an? )) ?(?P<en>.{3,80})$|^plan(?:s)? (?:to|on) (?P<en2>.{3,80})$",
    re.IGNORECASE,
)
_SMALL_TALK = re.compile(
    r"请教|聊|问题|问你|分享|谈|告诉你|跟你说|吃.{0,2}饭|睡觉|休息|洗澡|再见|下线|每[天周月年晚]"
    r"|\b(?:talk|chat|share|question|ask|tell you|discuss|have (?:dinner|lunch|breakfast)|go to (?:bed|sleep)|see you|every)\b",
    re.IGNORECASE,
)
_RECENT = re.compile(r"最近|刚刚?|前不久|\b(?:recently|just|lately)\b", re.IGNORECASE)
_LEADING_TIME_EN = re.compile(
    r"^(?:hi|hello|hey)?(?: there)?,? ?(?:ai companion|friend|my friend)?,? ?(?:today|yesterday|last (?:week|weekend|night|month|year)|this (?:morning|afternoon|week)|recently|lately),? (?=I\b|we\b|my\b)",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"想(?:去|学|买|换|要)|希望|\b(?:want to|would like to|hope to|wish to|might|thinking of)\b", re.IGNORECASE
)
_HAPPENED = re.compile(
    r"(?:去|看|做|吃|买|参加|学|读|见|遇到|发现|完成|搬|跑|逛|爬|打|写|听|玩|收到|开始|生病|错过|丢|换|修|拍|养|考|面试|出差|结婚|毕业|辞职|入职|喝|练|聊|带|陪)(?:到|完|上|过|会)?了"
    r"|\b(?:I|we|my \w+|he|she) (?:just |also |recently |finally |once |have |has |had )*(?:went|saw|made|ate|bought|attended|learned|read|met|found|finished|moved|ran|visited|climbed|played|wrote|listened|received|started|missed|lost|changed|fixed|took|passed|failed|joined|married|graduated|quit|tried|cooked|watched|got|had|came|traveled|travelled|discovered|celebrated|won|broke|adopted|encountered|completed|spent|drove|flew|hiked|swam|signed)\b",
    re.IGNORECASE,
)
_HEAD_NOUN_ZH = re.compile(
    r"看牙|牙科|牙医|医生|体检|复诊|面试|会议|开会|聚餐|航班|高铁|考试|手术|餐厅|酒店|理发|挂号|报告|出差|答辩|婚礼|约会|机票|健身课|课"
)
_HEAD_NOUN_EN = re.compile(
    r"\b(dentist|doctor|dr\.? [A-Z]\w+|interview|meeting|flight|exam|check-?up|surgery|wedding|conference|haircut|restaurant|table|hotel|call|report|deadline|lesson|class|dinner|lunch|trip|visit)\b",
    re.IGNORECASE,
)


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
    period = times[0] if times else None
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
        and (_INTENT.search(text) or _WISH.search(text))
    ):
        yield _plan(clause, period, moment)


def plans_without_time(rest: str, clause: Clause) -> Iterator[Fact]:
    """Yield a plan told without a time."""
    match = _UNTIMED_PLAN.match(rest)
    if match is None or clause.question:
        return
    value = next(group for group in match.groups() if group).strip(" ，。,.")
    if re.search(r"这|那|你|什么|[了]$|\b(?:it|that|this|you|whether)\b", value) or _SMALL_TALK.search(value):
        return
    told = _third_person(clause.text, clause.language)
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
    told = _third_person(clause.text, clause.language)
    recent = period is None and _RECENT.search(clause.text) is not None
    if happened is None or (period is None and not recent) or not 5 < len(told) <= 160:
        return
    if re.search(r"它|那里|这个?$|\bhad it\b", told) or _SMALL_TALK.search(told):
        return
    stamp = local_stamp(period, moment.timezone_offset) if period else ""
    shown = (f"（{stamp}）" if clause.language == "zh" else f" ({stamp})") if stamp else ""
    sentence = f"用户{told}{shown}" if clause.language == "zh" else f"The user {told}{shown}"
    yield Fact(
        attribute="event", value=told, language=clause.language, type="event", sentence=sentence, period=period, importance=0.5,
        structured={"what": told, "when": stamp},
    )  # fmt: skip


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
        attribute=attribute, value=value, language=clause.language, subject=subject, type="event_commitment",
        entity_type="appointment", entity_id=_entity_of(clause, what),
        structured={"what": what, "when": stamp, "status": "cancelled" if cancelled else "asked" if intent == "request" else "set"},
        intent=intent, period=period, expires=True, confidence=PLAIN,
    )  # fmt: skip
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
    told = _third_person(clause.text, clause.language)
    stamp = local_stamp(period, moment.timezone_offset)
    sentence = f"用户{told}（{stamp}）" if clause.language == "zh" else f"The user plans: {told} ({stamp})"
    wish = _WISH.search(clause.text) is not None or clause.hedged
    return Fact(
        attribute="plan", value=told, language=clause.language, type="event_commitment", sentence=sentence, period=period, expires=True,
        intent="commit", tentative=wish, confidence=0.5 if clause.hedged else PLAIN, structured={"what": told, "when": stamp},
    )  # fmt: skip


def _subject_matter(clause: Clause, period: TimeSpan | None) -> str:
    text = clause.text.replace(period.text, " ", 1) if period else clause.text
    if clause.language == "zh":
        text = re.sub(
            r"^(?:请|麻烦|能不能|可以|能|帮我|帮忙|给我|我想要?|我要|想要?|需要|希望|对了|那|顺便|我|你)+",
            "",
            text.strip(),
        )
        text = re.sub(r"^(?:预约|预定|预订|约了?|取消|提醒我|订个?|订了)+(?:一下|一个|个|的|了)*", "", text.strip())
        return re.sub(r"\s+", "", text).strip("的了吧吗，。 ") or clause.text
    text = re.sub(
        r"^(?:please|can|could|would|may|I|you|we|want|would like|'d like|need|like|help|me|to|have|got|am|'ve|have got|book(?:ed)?|reserve(?:d)?|schedule(?:d)?|cancel(?:led)?|remind me(?: to)?|make|arrange|set up|an?|my|the|for)\b[ ']*",
        "", text.strip(), flags=re.IGNORECASE,
    )  # fmt: skip
    for _ in range(8):
        shorter = re.sub(
            r"^(?:please|can|could|you|me|to|have|book(?:ed)?|reserve|schedule|cancel|remind|make|arrange|set up|an?|my|the|for|would|like|want|need|d|ve)\b[ ']*",
            "",
            text,
            flags=re.IGNORECASE,
        )
        if shorter == text:
            break
        text = shorter
    text = re.sub(r"\s+(?:on|at|for|in|by|this|next)?\s*$", "", re.sub(r"\s{2,}", " ", text)).strip(" ,.?!")
    return text or clause.text


def _third_person(text: str, language: str) -> str:
    if language == "zh":
        body = re.sub(
            r"^(?:嗯|哦|对了|那个|另外|还有|而且|但是?|不过|其实|因为|所以|然后|是的|哈哈|你好啊?|顺便说一下)+",
            "",
            text,
        )
        body = re.sub(r"^我(?!们)|(?<=[天日晚早上午周月年末近后])我(?!们)", "", body, count=1)
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
