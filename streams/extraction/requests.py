"""What the user wants from the agent: answer style, contact preference, standing instructions, contact data given.

Owns the patterns of wishes and of contact data in both languages. Called by ``rules`` for each clause. A one-off task
("write a short text") is not a wish about answers.
"""

import re
from collections.abc import Iterator

from streams.extraction.facts import EXPLICIT, USER, Fact
from streams.extraction.patterns import patterns
from streams.text.masking import Span

_PATTERNS = patterns("requests")
_TASK = re.compile(
    r"帮我(?:写|做|查|找|翻译|总结)|写一[篇段封个份]|介绍一?下|总结一下|翻译|解释一?下(?!时)|^(?:请)?(?:详细|简单|简要)(?:地)?(?:说|介绍|讲|解释|描述)"
    r"|\b(?:write|draft|translate|summari[sz]e|explain|describe) (?:me )?(?:a|an|the|this|how|what|why)\b",
    re.IGNORECASE,
)
_STYLE = _PATTERNS["style"]
_LANGUAGE = _PATTERNS["language"]
_ONE_LANGUAGE_TASK = re.compile(
    r"用(?:中文|英文|英语|日语)(?:怎么|如何)|翻译|怎么说|写一|how do you say", re.IGNORECASE
)
_CONTACT = _PATTERNS["contact"]
_INSTRUCTION = _PATTERNS["instruction"]
_OTHERS_CONTACT = re.compile(
    r"他的|她的|同事的|朋友的|客服|餐厅|酒店|公司的|\b(?:his|her|their|its)\b|hotel|restaurant|customer service",
    re.IGNORECASE,
)
_OWN_CONTACT = _PATTERNS["own_contact"]
_REFERENCE_KIND = re.compile(r"会员|就诊|病历|客户|卡号|member|patient|customer|visit|account", re.IGNORECASE)


def wishes_of(text: str, opened: str, language: str) -> Iterator[Fact]:
    """Yield style, language, contact and standing wishes of a clause; ``opened`` is the clause without fillers."""
    if _TASK.search(text):
        return
    spoken = _LANGUAGE.search(text)
    if spoken and not _ONE_LANGUAGE_TASK.search(text):
        value = next(group for group in spoken.groups() if group)
        yield _wish("answer_language", value, language, confidence=EXPLICIT)
        return
    for attribute, pattern in (
        ("contact_preference", _CONTACT),
        ("answer_style", _STYLE),
        ("instruction", _INSTRUCTION),
    ):
        match = pattern.search(opened)
        if match is None:
            continue
        value = next(group for group in match.groups() if group).strip(" ，,。.!！")
        yield _wish(attribute, value, language)
        return


def _wish(attribute: str, value: str, language: str, confidence: float = 0.85) -> Fact:
    return Fact(
        attribute=attribute,
        value=value,
        language=language,
        type="interaction_preference",
        intent="request",
        confidence=confidence,
    )


def contacts_of(text: str, language: str, subject: str, spans: tuple[Span, ...]) -> Iterator[Fact]:
    """Yield the contact data a clause gives about its subject; business numbers and other people's data give none."""
    for span in spans:
        if span.kind not in {"phone", "email", "plate", "reference"} or span.value not in text:
            continue
        if subject == USER and (_OTHERS_CONTACT.search(text) or not _OWN_CONTACT.search(text)):
            continue
        if span.kind == "reference" and not _REFERENCE_KIND.search(text):
            continue
        attribute = "member_number" if span.kind == "reference" else span.kind
        yield Fact(attribute=attribute, value=span.value, language=language, subject=subject, confidence=EXPLICIT)
