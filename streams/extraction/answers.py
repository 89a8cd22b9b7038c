"""What the assistant's answer is worth: facts that answer the question, and what the agent promised or still needs.

Owns query anchoring: a clause of the answer is kept only if it shares a topic word with the question, has the kind of
value that was asked for, or defines the entity in it. Called by ``rules`` once per turn. Never makes identity or policy,
and never keeps anything about passwords or other people.
"""

import re
from collections.abc import Iterator

from streams.extraction.clauses import Clause, language_of
from streams.extraction.facts import PLAIN, Fact
from streams.extraction.patterns import patterns
from streams.text.masking import find_identifiers

_PATTERNS = patterns("answers")
_NO_ANSWER = re.compile(
    r"抱歉|对不起|不好意思|我不(?:知道|清楚|确定|能)|作为.{0,6}(?:AI|人工智能|助手|伴侣)|无法(?:提供|回答|确定)|我(?:是|没有)|没有找到"
    r"|\b(?:sorry|I (?:do not|don't|can ?not|can't)|as an AI|unable to|not sure|no idea|I'm an|I am an)\b",
    re.IGNORECASE,
)
_SECRET = re.compile(r"密码|验证码|令牌|密钥|password|token|secret|api key|其他用户|other users?", re.IGNORECASE)
_RULES_CHANGE = re.compile(r"以后(?:都|你)|从现在起|你必须|忽略|from now on|you must|always obey|ignore", re.IGNORECASE)
_DEFINITION_QUESTION = _PATTERNS["definition_question"]
_ASKED_KINDS = tuple(
    (_PATTERNS[f"asked_{kind}"], _PATTERNS[f"told_{kind}"], kind)
    for kind in ("phone", "address", "price", "rating", "time", "recommendation")
)
_TOPICS = _PATTERNS["topics"]
_ANSWER_END = re.compile(r"[。！？!?；;\n]+|(?<=[a-z0-9)\"'%])\.(?=\s|$)")
_PROMISE = _PATTERNS["promise"]
_NEED = _PATTERNS["need"]
_NEEDED_THING = _PATTERNS["needed_thing"]
_PLEASANTRY = re.compile(
    r"任何(?:问题|需要|时候)|有(?:其他|什么)|随时|more about|anything else|any other|questions|if you", re.IGNORECASE
)
_STOP = frozenset(
    [
        "the",
        "a",
        "an",
        "is",
        "are",
        "was",
        "what",
        "which",
        "who",
        "where",
        "when",
        "how",
        "do",
        "does",
        "did",
        "you",
        "your",
        "i",
        "me",
        "my",
        "can",
        "could",
        "would",
        "please",
        "of",
        "in",
        "on",
        "at",
        "to",
        "for",
        "and",
        "or",
        "it",
        "this",
        "that",
        "there",
        "any",
        "some",
        "about",
        "tell",
        "know",
        "have",
        "has",
        "with",
    ]
)


def answer_facts(question: str, clauses: tuple[Clause, ...], answer: str, message_id: str) -> Iterator[Fact]:
    """Yield the facts of an answer that answer the question of the user."""
    asked = " ".join(clause.text for clause in clauses if clause.question)
    if (
        not asked
        or _SECRET.search(asked)
        or re.search(r"\b(?:you|your)\b (?:like|think|feel|have)|你(?:喜欢|觉得|认为|有|会|是|叫)", asked)
    ):
        return
    language = language_of(answer)
    sentences = [part.strip() for part in _ANSWER_END.split(answer[:4000]) if part and part.strip()]
    if definition := _definition(question, sentences):
        term, sentence = definition
        yield _fact(term, sentence, language, message_id)
        return
    kept = 0
    for sentence in sentences:
        for piece in _pieces(sentence, language):
            topic = _anchor(asked, piece)
            if topic and kept < 3:
                kept += 1
                yield _fact(topic, piece, language, message_id, question=asked)


def promises_of(answer: str, message_id: str) -> Iterator[Fact]:
    """Yield what the agent promised and what it still needs from the user."""
    language = language_of(answer)
    for attribute, pattern in (("agent_promise", _PROMISE), ("agent_needs", _NEED)):
        match = pattern.search(answer)
        if match and attribute == "agent_needs" and not _NEEDED_THING.search(match.group()):
            continue
        if match and not _PLEASANTRY.search(match.group()):
            value = match.group().strip(" ,，。.")
            yield Fact(
                attribute=attribute,
                value=value,
                language=language,
                type="event_commitment",
                entity_type="agent",
                entity_id="agent",
                intent="commit" if attribute == "agent_promise" else "request",
                source="assistant",
                importance=0.5,
                confidence=PLAIN,
                message_id=message_id,
            )


def _definition(question: str, sentences: list[str]) -> tuple[str, str] | None:
    match = _DEFINITION_QUESTION.search(question)
    if match is None:
        return None
    term = next(group for group in match.groups() if group).strip(" 的呢啊")
    if re.fullmatch(
        r"你|这|那|它|your .*|it|this|that|the .*(?:time|weather)|time|weather|.*天气.*", term, re.IGNORECASE
    ):
        return None
    head = term.lower()
    for sentence in sentences[:2]:
        defines = re.search(r"是|指|属于|\b(?:is|are|means|refers)\b", sentence)
        if head in sentence.lower() and defines and not _NO_ANSWER.search(sentence) and len(sentence) <= 240:
            return term, sentence
    return None


def _pieces(sentence: str, language: str) -> list[str]:
    if language == "zh":
        return [piece.strip() for piece in re.split(r"[，,]", sentence) if len(piece.strip()) >= 2]
    return [sentence.strip()] if len(sentence) <= 240 else []


def _anchor(asked: str, piece: str) -> str:
    """The topic by which a piece of the answer belongs to the question, or nothing."""
    if _NO_ANSWER.search(piece) or _SECRET.search(piece) or _RULES_CHANGE.search(piece) or re.search(r"[吗呢]$", piece):
        return ""
    for topic in _TOPICS.findall(asked):
        if topic in piece:
            return str(topic)
    for question_kind, value_kind, topic in _ASKED_KINDS:
        if question_kind.search(asked) and value_kind.search(piece):
            return topic
    words = {word.lower() for word in re.findall(r"[A-Za-z]{4,}", asked)} - _STOP
    shared = [word for word in re.findall(r"[A-Za-z]{4,}", piece) if word.lower() in words]
    return shared[0].lower() if len(set(shared)) >= 2 and re.search(r"\b(?:is|are|was|were|has|have)\b", piece) else ""


def _fact(topic: str, value: str, language: str, message_id: str, question: str = "") -> Fact:
    personal = any(span.kind in {"secret", "resident_id", "bank_card"} for span in find_identifiers(value))
    context = f"{question.strip()} → " if question and language == "zh" else f"{question.strip()}? " if question else ""
    return Fact(
        attribute=topic,
        value=value,
        language=language,
        type="fact",
        entity_type="topic",
        entity_id=topic.lower().replace(" ", "_"),
        sentence=f"{context}{value}",
        source="assistant",
        importance=0.5,
        confidence=0.3 if personal else PLAIN,
        message_id=message_id,
    )
