"""The Chinese rule table: what a clause says about somebody.

Owns the patterns of statements (names, places, jobs, family, tastes, health). Called by ``rules`` for each clause that is
not a question, quotation or supposition. Returns facts without times; commitments and orders have files of their own.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from streams.extraction.facts import EXPLICIT, HEDGED, USER, Fact, person_by_word, subject_label
from streams.extraction.patterns import Rule, first_facts, patterns, rule_table
from streams.extraction.places import is_place
from streams.extraction.values import clean_chinese, list_chinese, usable_chinese
from streams.text.normalise import has_cjk
from streams.text.times_chinese import CHINESE_TIME
from streams.vocabulary import normalised_value

_PATTERNS = patterns("chinese")
_FILLER = _PATTERNS["filler"]
_HAS_ADVERB = _PATTERNS["adverbs"]
# Chinese sentences with one English verb: 我 love 火锅.
_MIXED_LIKE = re.compile(r"(?<=[\u4e00-\u9fff]) ?\b(?:love|like|enjoy)\b ?(?=[\u4e00-\u9fff])")
_MIXED_HATE = re.compile(r"(?:(?<=[\u4e00-\u9fff]) ?|^)\bhate\b ?(?=[\u4e00-\u9fff])")
_LEADING_ADVERB = _PATTERNS["leading_adverb"]
_OTHERS = re.compile(r"^(?:你|您|他们|她们|它们|我们公司|大家|人们|有人|别人|很多人|谁|咱)")
_REPORTED = re.compile(
    r"(?:知道|听说|觉得|认为|以为|说|记得)(?:他|她|它|别人|人家)|(?:说|问|觉得|以为|认为|猜|记得)我|[说问]过我"
)
_SURNAME = _PATTERNS["surname"].pattern
_NAME = r"(?:[\u4e00-\u9fff·]{2,4}|[A-Z][A-Za-z'-]{1,20}(?: [A-Z][A-Za-z'-]{1,20}){0,2}|[a-z]{2,15})"
_JOB = _PATTERNS["job"]
_NOT_JOB = _PATTERNS["not_job"]
_ORGANISATION = re.compile(
    r"(?:公司|集团|银行|医院|学校|大学|学院|中学|小学|研究所|研究院|事务所|工厂|厂|酒店|餐厅|店|局|部门|机构|出版社|报社|电视台|工作室|政府|法院|协会|实验室|幼儿园)$"
)
_SCHOOL = re.compile(
    r"(?:大学|学院|中学|小学|高中|初中|一中|附中)$|^(?:清华|北大|复旦|浙大|交大|上交|南大|武大|中科大)$"
)


_RULES = rule_table("chinese")
_TOPIC_LIKE = re.compile(
    r"^(?P<v>[^我你他她]{2,20}?)我(?:也|都|还|一直|真的|是|就)*(?P<no>不(?:太|怎么|是很)?|讨厌)?(?:很|非常|特别|超|最|挺|比较)*(?:喜欢|爱|感兴趣)?(?:的|了)?$"
)
_NICKNAME = re.compile(
    r"^(?:你|您)?(?:可以|就|以后|也可以|请|都)*(?:叫|喊|称呼)我(?:为|作|做)?(?P<v>[^，。你他她它的了一起]{1,8}?)(?:就行|就好|即可|吧|好了|就可以)*了?$"
)
_SELF_NAME = re.compile(rf"^是(?P<v>{_SURNAME}[\u4e00-\u9fff]{{1,2}}|[小老阿][\u4e00-\u9fff])$")
_STOP_RULES = frozenset({"city", "hometown", "age", "birthday", "job", "name"})


@lru_cache(maxsize=1)
def _subject_pattern() -> re.Pattern[str]:
    words = "|".join(sorted(map(re.escape, person_by_word("zh")), key=len, reverse=True))
    return re.compile(
        rf"^(?:(?P<owner>我们家|我家|我|俺|咱|他|她|你|您)的?)?(?:(?P<kin>{words})(?P<named>(?<=[朋友同事同学室友闺蜜邻居])(?:[小老阿][\u4e00-\u9fff]|[A-Z][a-z]+))?)"
        rf"(?=[^们家店厂]|$)"
        rf"|^(?P<me>我(?:自己|本人|个人|这个?人)?)(?!们)(?:是|的)?(?=.)"
        rf"|^(?P<pronoun>他|她|它)(?![们的])|^(?P<name>[小老阿][\u4e00-\u9fff](?=[^是的时子师板][^师板]|是[一个]|的)|[A-Z][a-z]+(?=[\u4e00-\u9fff]))"
    )


@lru_cache(maxsize=256)
def opened(text: str) -> str:
    """Return the clause without fillers, times and adverbs that stand before its subject."""
    body = text
    while True:
        # "是我老婆…" answers a question about who: the person is the subject.
        shorter = re.sub(r"^是(?=我)", "", _FILLER.sub("", body))
        shorter = _MIXED_LIKE.sub("喜欢", _MIXED_HATE.sub("讨厌", shorter))
        if time := CHINESE_TIME.match(shorter):
            shorter = shorter[time.end() :].lstrip("的，, ") or shorter
        if adverbs := _LEADING_ADVERB.match(shorter):
            shorter = shorter[adverbs.end() :]
        if shorter == body:
            return body
        body = shorter


def subject_of(text: str, carried: str | None, person: str | None) -> tuple[str | None, str]:
    """Return who a clause speaks about and the rest of it; ``None`` when it is somebody we cannot name.

    ``carried`` is the subject an omitted one continues, ``person`` whom 他 or 她 means.
    """
    body = opened(text)
    if _REPORTED.search(body):
        return None, body
    match = _subject_pattern().match(body)
    if match is None:
        return (None, body) if _OTHERS.match(body) else (carried, body)
    rest = body[match.end() :]
    if match["me"]:
        cut = len(match["me"])
        return USER, body[cut:]
    return _somebody(match, person), rest


def _somebody(match: re.Match[str], person: str | None) -> str | None:
    if match["pronoun"]:
        return person
    if match["owner"] in {"他", "她", "你", "您"}:
        return None
    name = match["name"] or match["named"] or person_by_word("zh")[match["kin"]]
    return f"person:{name}"


def facts_of(text: str, subject: str, rest: str, *, hedged: bool, past: bool) -> Iterator[Fact]:
    """Yield what a Chinese clause states about ``subject``; ``rest`` is the clause after its subject."""
    base = Fact(attribute="", value="", language="zh", subject=subject)
    if subject == USER and (nickname := _NICKNAME.match(opened(text))):
        yield replace(base, attribute="nickname", value=nickname["v"], confidence=EXPLICIT)
        return
    if (topic := _TOPIC_LIKE.match(opened(text))) and re.search(r"喜欢|爱|感兴趣|讨厌", text):
        attribute = "dislikes" if topic["no"] else "likes"
        for value in list_chinese(topic["v"]):
            yield replace(base, subject=USER, attribute=attribute, value=value)
        return
    stated = re.sub(r"[啊呀哦呢吧嘛哈啦哟～~!！。.]+$", "", rest)
    bare = _without_adverbs(stated)
    ended = re.match(r"(?:已经)?不再(?=住|在|是|做|当|喜)", bare)
    if ended:
        yield from (
            replace(fact, negated=True, intent="correct")
            for fact in _apply(bare[ended.end() :], base)
            if not fact.negated
        )
        return
    found: list[Fact] = []
    name = _SELF_NAME.match(bare)
    if name is not None and not _JOB.search(name["v"]) and not is_place(name["v"]):
        found.append(replace(base, attribute="name", value=name["v"], confidence=EXPLICIT))
    if not found:
        for candidate in dict.fromkeys((stated, bare)):
            found = _apply(candidate, base)
            if found:
                break
    for fact in found:
        yield _qualified(fact, stated, hedged=hedged, past=past)


def _without_adverbs(stated: str) -> str:
    bare = stated
    for _ in range(3):
        adverbs = _HAS_ADVERB.match(bare)
        shorter = bare[adverbs.end() :] if adverbs else bare
        if time := CHINESE_TIME.match(shorter):
            shorter = shorter[time.end() :]
        if shorter == bare:
            break
        bare = shorter
    return bare


def _apply(rest: str, base: Fact) -> list[Fact]:
    return first_facts(_RULES, rest, base, _facts_of_match)


def _facts_of_match(rule: Rule, match: re.Match[str], base: Fact) -> Iterator[Fact]:
    if rule.attribute == "work_at":
        yield from _work(match, base)
        return
    values = list_chinese(match["v"]) if rule.many else (clean_chinese(match["v"]),)
    if rule.attribute == "job":
        values = tuple(re.sub(r"^(?:做|从事|搞)(?=.{2,})", "", value) for value in values)
    for value in values:
        if rule.attribute == "avoids":
            if _passes("avoids", value):
                yield from _avoided(value, base)
            continue
        if value and (rule.many or _passes(rule.check, value)):
            yield replace(
                base, attribute=rule.attribute, value=value, negated=rule.negated, confidence=rule.confidence,
                intent="correct" if rule.negated else "inform",
            )  # fmt: skip


def _avoided(value: str, base: Fact) -> Iterator[Fact]:
    """``不吃香菜``: the thing is 香菜, the sentence keeps the verb."""
    verb = value[0] if value[0] in "吃喝抽碰沾" else ""
    for thing in list_chinese(value[len(verb) :]):
        told = (
            f"{subject_label(base.subject, 'zh')}不{verb}{thing}"
            if verb
            else f"{subject_label(base.subject, 'zh')}戒了{thing}"
        )
        yield replace(base, attribute="avoids", value=thing, sentence=told)


def _work(match: re.Match[str], base: Fact) -> Iterator[Fact]:
    place, job = clean_chinese(match["p"]), clean_chinese(match["v"])
    if job and (_NOT_JOB.search(job) or not _JOB.search(job)):
        return
    # 在Google做: a Latin name is an employer unless it is a city both languages know.
    latin = place.isascii() and not has_cjk(normalised_value("city", place))
    if is_place(place) and not latin and not _ORGANISATION.search(place):
        yield replace(base, attribute="city", value=place)
    elif usable_chinese(place) and not re.search(
        r"家里?$|^(?:一家|这|那|当前|目前|外面|外地|国外|办公室|公园|图书馆|教室)|考虑|找|想|换|努力|认真|忙|做|学",
        place,
    ):
        yield replace(base, attribute="employer", value=place)
    if job:
        yield replace(base, attribute="job", value=job)


_HABIT = re.compile(r"跑|练|读|看|喝|吃|走|睡|起床|运动|健身|游泳|瑜伽|冥想|写|学|骑|爬|打")
_NO_THING = re.compile(r"了解|起|惯|完|到|下|饱|亏|力|醋|惊|苦头")
_NO_NAME = re.compile(r"什么|怎么|[的了吗呢]$|^(?:not|a|an|the|app|ai)$")
_CHECKS: dict[str, Callable[[str], bool]] = {
    "name": lambda value: _NO_NAME.search(value) is None,
    "place": is_place,
    "city": lambda value: is_place(value) and re.search(r"(?:国|省|东北|江南)$", value) is None,
    "school": lambda value: _SCHOOL.search(value) is not None,
    "job": lambda value: _JOB.search(value) is not None and _NOT_JOB.search(value) is None and usable_chinese(value),
    "avoids": lambda value: _NO_THING.search(value) is None,
    "habit": lambda value: _HABIT.search(value) is not None and usable_chinese(value, 24),
    "title": bool,
}


def _passes(check: str, value: str) -> bool:
    return _CHECKS[check](value) if check else usable_chinese(value, 60)


def _qualified(fact: Fact, clause: str, *, hedged: bool, past: bool) -> Fact:
    if hedged:
        fact = replace(fact, confidence=min(fact.confidence, HEDGED))
    if past and fact.attribute in {"city", "job", "employer"}:
        former = {"city": "city_before", "job": "job_before", "employer": "job_before"}[fact.attribute]
        return replace(fact, attribute=former)
    if past and fact.attribute in {"likes", "prefers", "habit"} and re.search(r"以前|曾经|过去|小时候|原来", clause):
        return replace(fact, negated=True, intent="correct")
    return fact
