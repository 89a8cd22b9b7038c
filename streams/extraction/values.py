"""Values cut out of clauses: cleaned, split where they are lists, refused where they say nothing.

Owns what a value may look like in both languages. Called by the rule tables.
"""

import re

from streams.extraction.patterns import patterns

_PATTERNS = patterns("values")
_TRAILING_ZH = re.compile(
    r"(?:的(?:人|东西|时候)?|了|啊|呀|哦|呢|吧|嘛|哈|啦|哟|～|~|而已|之类的?|等等?|什么的|这些|这类|来着|一些|这件事|这种事)+$"
)
_LEADING_ZH = re.compile(r"^(?:去|的|了|着|过|一些|各种|那种|这种|所有|任何)(?=.{2,})")
_REFUSED_ZH = _PATTERNS["refused_zh"]
_DEICTIC_ZH = re.compile(r"^(?:这|那|的|是(?!《)|你|他|她|它|里面|其中)|[他她它]的|这[种个样些]|那[种个样些]")
_SPLIT_ZH = re.compile(r"[、,，/]|(?<=[\u4e00-\u9fffA-Za-z])(?:以及|还有|和|跟|与|及)(?=[\u4e00-\u9fffA-Za-z])")
_NO_SPLIT_ZH = re.compile(r"^(?:在|跟|和|与|从|用|当|对|给|把|一个人)|和平|和牛|附近|之间|一起")
_CUT_EN = _PATTERNS["cut_en"]
_REFUSED_EN = _PATTERNS["refused_en"]
_SPLIT_EN = re.compile(r"\s*,\s*(?:and|or)\s+|\s*,\s*|\s+(?:and|or|as well as)\s+")
_SHARED_HEAD = _PATTERNS["shared_head"]
_DEFINITE_EN = _PATTERNS["definite_en"]
_KEEP_THE = re.compile(
    r"^(?:the (?:color|colour|beach|sea|ocean|piano|guitar|violin|outdoors|mountains|Beatles|[A-Z])|these|such)\b"
)


def clean_chinese(value: str) -> str:
    """Return the value without particles at its ends."""
    text = value.strip(" ，,。.！!？?：:、~～\"“”'；;")
    text = _TRAILING_ZH.sub("", text)
    return _LEADING_ZH.sub("", text).strip()


def usable_chinese(value: str, limit: int = 20) -> bool:
    """Return whether a Chinese value names something by itself (no pronoun, no question word, not too long)."""
    return (
        0 < len(value) <= limit
        and _REFUSED_ZH.search(value) is None
        and not (len(value) == 1 and value in "一二两三好大小多少")
    )


def list_chinese(value: str) -> tuple[str, ...]:
    """Return the items of a Chinese enumeration; a phrase that only looks like one stays whole."""
    text = value.strip()
    # 我喜欢免费的: of what, the clause does not say; 吃辣的 names it by its verb.
    if _DEICTIC_ZH.search(text) or re.fullmatch(r"[^吃喝看听玩穿]{1,6}的", text):
        return ()
    parts = [text] if _NO_SPLIT_ZH.search(text) else _SPLIT_ZH.split(text)
    if len(parts) > 1 and "的" in parts[-1] and all(len(part) <= 2 for part in parts[:-1]):
        parts = [text]  # 晴朗、温暖的天气 is one thing with two adjectives
    items = [clean_chinese(part) for part in parts]
    return tuple(item for item in items if usable_chinese(item))


def clean_english(value: str) -> str:
    """Return the value cut before what only comments on it, without articles and punctuation at its ends."""
    text = _CUT_EN.sub("", value.strip())
    text = text.strip(" ,.;:!?\"“”'()-")
    if not _KEEP_THE.match(text):
        text = re.sub(r"^(?:the|a|an|some|any|my|to|all kinds of|all)\s+", "", text, flags=re.IGNORECASE)
    return re.sub(r"\s+", " ", text).strip()


def usable_english(value: str, limit: int = 60) -> bool:
    """Return whether an English value names something by itself."""
    return 1 < len(value) <= limit and len(value.split()) <= 9 and _REFUSED_EN.match(value) is None


def list_english(value: str) -> tuple[str, ...]:
    """Return the items of an English enumeration, cut where the sentence goes on."""
    text = _CUT_EN.sub("", value.strip())
    parts = _shared_head([part for part in _SPLIT_EN.split(text) if part])
    items = [clean_english(part) for part in parts if not _DEFINITE_EN.match(part)]
    return tuple(item for item in items if usable_english(item))


def _shared_head(parts: list[str]) -> list[str]:
    """``Sichuan and Cantonese cuisine`` is Sichuan cuisine and Cantonese cuisine."""
    head = _SHARED_HEAD.search(parts[-1]) if len(parts) > 1 else None
    if head is None:
        return parts
    return [
        *(f"{part} {head[1]}" if " " not in part and not part.endswith("ing") else part for part in parts[:-1]),
        parts[-1],
    ]
