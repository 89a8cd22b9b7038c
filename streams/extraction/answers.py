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
_TOPICS = tuple(name.removeprefix("asked_") for name in _PATTERNS if name.startswith("asked_"))
_ASKING = _PATTERNS["asking"]
_LABEL = _PATTERNS["label"]
_ANSWER_END = re.compile(r"[。！？!?；;\n]+|(?<=[a-z0-9)\"'%])\.(?=\s|$)")
_PROMISE = _PATTERNS["promise"]
_NEED = _PATTERNS["need"]
_NEEDED_THING = _PATTERNS["needed_thing"]
_PLEASANTRY = re.compile(
    r"任何(?:问题|需要|时候)|有(?:其他|什么)|随时|more about|anything else|any other|questions|if you", re.IGNORECASE
)
_STOP = frozenset(
    "what which where when does your could would please this that there some about tell know have with like want more".split()  # noqa: SIM905  a word list reads better
)
_TO_THE_ASSISTANT = re.compile(
    r"\b(?:do|are|have|can) you (?:like|think|feel|have|enjoy|any)\b|\byour\b|你(?:喜欢|觉得|认为|平时|会|是|叫|最)",
    re.IGNORECASE,
)
_MAXIMUM_FACTS = 4
# Without a word of the topic, an answer to "where" or "which" may be advice about anything.
_NEVER_DIRECT = frozenset({"recommendation", "address", "dishes", "opening_hours"})
_CONTINUES = re.compile(r"[^你您我]{2,15}")


def answer_facts(question: str, clauses: tuple[Clause, ...], answer: str, message_id: str) -> Iterator[Fact]:
    """Yield the facts of an answer that answer the question of the user."""
    asked = " ".join(clause.text for clause in clauses if clause.question or _ASKING.search(clause.text))
    asked = _PATTERNS["constraint"].sub(" ", asked)
    if not asked or _SECRET.search(asked):
        return
    language = language_of(answer)
    sentences = [part.strip() for part in _ANSWER_END.split(answer[:4000]) if part and part.strip()]
    if definition := _definition(question, sentences):
        term, sentence = definition
        yield _fact(term, sentence, language, message_id)
        return
    if _TO_THE_ASSISTANT.search(asked):
        return
    topics = [topic for topic in _TOPICS if _PATTERNS[f"asked_{topic}"].search(asked)]
    pieces = [piece for sentence in sentences for piece in _pieces(sentence, language)]
    for topic, value in list(_anchored(topics, asked, pieces))[:_MAXIMUM_FACTS]:
        yield _fact(topic, value, language, message_id, question=asked)


def _anchored(topics: list[str], asked: str, pieces: list[str]) -> Iterator[tuple[str, str]]:
    """The pieces that answer, joined as long as they speak of one topic: ``(topic, text)``."""
    current, held = "", [""]
    for index, piece in enumerate(pieces):
        topic = _topic_of(topics, asked, piece)
        if _refused(piece):
            topic, continues = "", False
        else:
            continues = bool(current) and _CONTINUES.fullmatch(piece) is not None and _LABEL.search(piece) is None
            direct = [name for name in topics if name not in _NEVER_DIRECT]
            if not topic and index == 0 and direct and _LABEL.search(piece) is None:
                topic = direct[0]  # 是高档型: the answer need not repeat the word of the question
        if topic and topic != current:
            if current:
                yield current, "，".join(held)
            current, held = topic, [piece]
        elif topic or continues:
            held.append(piece)
        elif current:
            yield current, "，".join(held)
            current = ""
    if current:
        yield current, "，".join(held)


def _refused(piece: str) -> bool:
    return bool(
        _NO_ANSWER.search(piece) or _SECRET.search(piece) or _RULES_CHANGE.search(piece) or re.search(r"[吗呢]$", piece)
    )


def _topic_of(topics: list[str], asked: str, piece: str) -> str:
    for topic in topics:
        if _PATTERNS[f"told_{topic}"].search(piece):
            return topic
    words = {word.lower() for word in re.findall(r"[A-Za-z]{4,}", asked)} - _STOP
    shared = [word.lower() for word in re.findall(r"[A-Za-z]{4,}", piece) if word.lower() in words]
    return shared[0] if len(set(shared)) >= 2 and re.search(r"\b(?:is|are|was|were|has|have)\b", piece) else ""


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
        # A comma followed by a space stands inside lists of names.
        return [piece.strip() for piece in re.split(r"，|,(?! )", sentence) if len(piece.strip()) >= 2]
    return [sentence.strip()] if len(sentence) <= 240 else []


def _fact(topic: str, value: str, language: str, message_id: str, question: str = "") -> Fact:
    personal = any(span.kind in {"secret", "resident_id", "bank_card"} for span in find_identifiers(value))
    context = f"{question.strip()} → " if question and language == "zh" else f"{question.strip()}? " if question else ""
    return Fact(
        attribute=topic if not question else f"answer_{topic}",
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
