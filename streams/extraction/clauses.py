"""A message cut into clauses, each marked with what it is not: a question, a quotation, a guess, an assumption.

Owns segmentation and these marks for both languages. Called by ``rules``. Never decides what a clause says.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from streams.extraction.patterns import patterns
from streams.text.normalise import has_cjk, simplify

_PATTERNS = patterns("clauses")
MESSAGE_LIMIT_CHARACTERS = 8_000
CLAUSE_LIMIT_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause without its punctuation; ``sentence`` numbers the sentence it belongs to, ``language`` is zh or en."""

    text: str
    language: str
    sentence: int
    question: bool = False
    hedged: bool = False
    correction: bool = False
    supposed: bool = False
    past: bool = False


_FENCE = re.compile(r"```.*?(?:```|$)", re.DOTALL)
_QUOTE_LINE = re.compile(r"^[ \t]*[>|].*$", re.MULTILINE)
_QUOTED = re.compile(r"[“\"「『‘]([^”\"」』’\n]{1,400})[”\"」』’]")
_SPEECH_BEFORE = _PATTERNS["speech_before"]
_PASTED = _PATTERNS["pasted"]
_SENTENCE_END = re.compile(r"[。！？!?；;\n]+|(?<=[A-Za-z0-9)\"'%\u4e00-\u9fff])\.+(?=\s|$)")
_ZH_COMMA = re.compile(r"[，,：:（）()]|——|…+|\s{2,}|(?<=[\u4e00-\u9fff])\s+(?=[\u4e00-\u9fff])")
_EN_SPLIT = _PATTERNS["en_split"]
_ZH_QUESTION = re.compile(
    r"什么|怎么|怎样|如何|为啥|为何|哪[里个些儿位家种]|谁|几[点个]|多少|多长|多久|多大|多远|吗$|呢$|是不是|有没有|能不能|可不可以|要不要|会不会|好不好|对不对|是否|能否|啥"
)
_ZH_STATEMENT = re.compile(r"不知道|不清楚|忘了|知道[^吗]*$|没什么|什么都|怎么都|无论|不管|不确定")
_EN_QUESTION = _PATTERNS["en_question"]
_EN_UNMARKED_QUESTION = _PATTERNS["en_unmarked_question"]
_HEDGE = _PATTERNS["hedge"]
_CORRECTION = re.compile(
    r"^(?:其实|不对|不是|错了|说错了|我说错了|记错了|我记错了|更正|纠正|改一下|应该是|准确(?:地)?说|抱歉)"
    r"|^(?:actually|no\b|wait|sorry|correction|i meant|i was wrong|i misspoke|scratch that|my mistake|rather)",
    re.IGNORECASE,
)
_SUPPOSED = _PATTERNS["supposed"]
_PAST = re.compile(r"以前|曾经|之前|过去|小时候|原来|\b(?:used to|formerly|previously|back then|once)\b", re.IGNORECASE)


def language_of(text: str) -> str:
    """Return ``zh`` when the text begins in Chinese or is mostly Chinese, else ``en``."""
    if not has_cjk(text):
        return "en"
    if re.match(r"[^A-Za-z\u4e00-\u9fff]*[\u4e00-\u9fff]", text):
        return "zh"
    chinese = len(re.findall("[\u4e00-\u9fff]", text))
    words = len(re.findall("[A-Za-z]+", text))
    return "zh" if chinese >= 2 * words or chinese > 8 else "en"


def own_words(message: str) -> str:
    """Return the message without what the user quotes or pastes; what remains is the user's own statement."""
    # Traditional characters are read as simplified ones: one rule table serves both.
    text = simplify(message[:MESSAGE_LIMIT_CHARACTERS])
    if pasted := _PASTED.search(text):
        text = text[: pasted.start()]
    text = _QUOTE_LINE.sub("", _FENCE.sub("", text))

    def keep_titles(match: re.Match[str]) -> str:
        speech = _SPEECH_BEFORE.search(text[max(0, match.start() - 40) : match.start()])
        first_person = re.search(r"我|\b(?:I|I'm|my|you|your)\b", match[1]) and len(match[1]) > 6
        return " " if speech or first_person else match.group()

    return _QUOTED.sub(keep_titles, text)


@lru_cache(maxsize=16)  # the question of a turn is read twice: for its facts and for its answer
def clauses_of(message: str) -> tuple[Clause, ...]:
    """Return the clauses of the user's own words, in order."""
    return tuple(_marked(own_words(message)))


def _marked(text: str) -> Iterator[Clause]:
    position = 0
    sentence = 0
    while position < len(text):
        end = _SENTENCE_END.search(text, position)
        stop, after = (end.start(), end.end()) if end else (len(text), len(text))
        body = text[position:stop].strip()
        if body:
            asked = end is not None and re.search(r"[?？]", end.group()) is not None
            yield from _sentence(body[:2000], sentence, asked=asked)
            sentence += 1
        position = after


def _sentence(body: str, number: int, *, asked: bool) -> Iterator[Clause]:
    language = language_of(body)
    mixed = has_cjk(body) and language == "en"
    pieces = (_ZH_COMMA if language == "zh" or mixed else _EN_SPLIT).split(body)
    if mixed:
        pieces = [part for piece in pieces for part in _EN_SPLIT.split(piece)]
    parts = [part.strip(' 、,\t"“”') for part in pieces]
    parts = [part[:CLAUSE_LIMIT_CHARACTERS] for part in parts if part]
    questions = _questions(parts, language, asked=asked)
    corrected = supposed = False
    for part, question in zip(parts, questions, strict=True):
        corrected = corrected or _CORRECTION.search(part) is not None
        supposed = supposed or _SUPPOSED.search(part) is not None
        yield Clause(
            text=part,
            language=language_of(part),
            sentence=number,
            question=question,
            hedged=_HEDGE.search(part) is not None,
            correction=corrected,
            supposed=supposed,
            past=_PAST.search(part) is not None,
        )


def _questions(parts: list[str], language: str, *, asked: bool) -> list[bool]:
    if language == "zh":
        marks = [bool(_ZH_QUESTION.search(part)) and not _ZH_STATEMENT.search(part) for part in parts]
        if asked and parts and not any(marks):
            marks[-1] = True
        return marks
    first = next((index for index, part in enumerate(parts) if _EN_QUESTION.search(part)), None)
    if first is None:
        first = len(parts) - 1 if asked else len(parts)
    elif not asked and not _EN_UNMARKED_QUESTION.match(parts[first]):
        first = len(parts)
    return [index >= first for index in range(len(parts))]
