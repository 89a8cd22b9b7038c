"""Text folded for matching: one spelling for what looks or reads the same.

Owns: ``normalise`` (comparison of values and texts) and ``readings`` (everything a gate must look at: the normalised text,
the text with separators between Chinese characters removed, look-alike letters folded, and decoded base64, hex and URL
runs). Called by the gates, masking, the vocabulary and the noise filter. Never used for what is stored: stored text stays
as it was said.
"""

import base64
import binascii
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from opencc import OpenCC

DECODED_LIMIT_CHARACTERS = 1_000_000
DECODED_LIMIT_FACTOR = 4

CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_HAS_CJK = re.compile(f"[{CJK}]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
_TAG_CHARACTERS = re.compile("[\U000e0000-\U000e007f\U000e0100-\U000e01ef]")
_BETWEEN_CJK = re.compile(rf"(?<=[{CJK}])[\s·・_*|~^\-./\\+]{{1,3}}(?=[{CJK}])")
_SPACED_LETTERS = re.compile(r"(?<![A-Za-z])(?:[A-Za-z][ .\-_*]){4,}[A-Za-z](?![A-Za-z])")
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX_RUN = re.compile(r"(?:[0-9a-fA-F]{2}){8,}|(?:\\x[0-9a-fA-F]{2}){4,}")
_URL_RUN = re.compile(r"(?:%[0-9a-fA-F]{2}){3,}")

# Letters of other scripts that look Latin; a word that mixes them with Latin letters is a disguise, not a language.
_LOOK_ALIKES = str.maketrans(
    "аеорсухіјѕԁһԛԝАВЕКМНОРСТУХІЈЅΑΒΕΖΗΙΚΜΝΟΡΤΥΧαοινρυ",
    "aeopcyxijsdhqwABEKMHOPCTYXIJSABEZHIKMNOPTYXaoivpu",
)
_FOREIGN_LETTER = re.compile("[\u0370-\u03ff\u0400-\u052f]")
_MIXED_WORD = re.compile("[A-Za-z\u0370-\u03ff\u0400-\u052f]+")


class _SimplifiedTable(dict[int, str]):
    """Traditional to simplified, character by character, filled on demand so that start-up costs nothing."""

    def __missing__(self, code_point: int) -> str:
        character = chr(code_point)
        simplified = _converter().convert(character) if _HAS_CJK.match(character) else character
        # One character for one character, so that offsets stay true.
        simplified = simplified if len(simplified) == 1 else character
        self[code_point] = simplified
        return simplified


@lru_cache(maxsize=1)
def _converter() -> "OpenCC":
    # Imported here because only Chinese text needs its dictionaries.
    from opencc import OpenCC  # noqa: PLC0415

    return OpenCC("t2s")


_SIMPLIFIED = _SimplifiedTable()


def has_cjk(text: str) -> bool:
    """Return whether ``text`` contains a Chinese character."""
    return _HAS_CJK.search(text) is not None


def normalise(text: str) -> str:
    """Return ``text`` in one spelling: NFKC, without invisible characters, Chinese in simplified characters.

    For matching only; case and spacing are kept. Length may change, so offsets into the result are not offsets into ``text``.
    """
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFKC", text)
    folded = _TAG_CHARACTERS.sub("", _INVISIBLE.sub("", folded))
    return folded.translate(_SIMPLIFIED) if has_cjk(folded) else folded


def simplify(text: str) -> str:
    """Return ``text`` with traditional Chinese characters in simplified form; offsets stay as they are."""
    return text.translate(_SIMPLIFIED) if not text.isascii() and has_cjk(text) else text


def collapse_separators(text: str) -> str:
    """Join Chinese characters and single Latin letters that were pulled apart by spaces or punctuation."""
    joined = _BETWEEN_CJK.sub("", text)
    return _SPACED_LETTERS.sub(lambda match: re.sub(r"[ .\-_*]", "", match.group()), joined)


def fold_look_alikes(text: str) -> str:
    """Replace look-alike Greek and Cyrillic letters in words that also contain Latin letters."""
    if _FOREIGN_LETTER.search(text) is None:
        return text

    def fold(match: re.Match[str]) -> str:
        word = match.group()
        mixed = _FOREIGN_LETTER.search(word) and re.search("[A-Za-z]", word)
        return word.translate(_LOOK_ALIKES) if mixed else word

    return _MIXED_WORD.sub(fold, text)


def decoded_runs(text: str) -> tuple[str, ...]:
    """Return readable texts hidden in base64, hex or URL-encoded runs of ``text``.

    The total is bounded by four times the input and one million characters.
    """
    budget = min(DECODED_LIMIT_FACTOR * len(text), DECODED_LIMIT_CHARACTERS)
    found: list[str] = []
    for decoded in _decode_each(text):
        if not decoded or budget < len(decoded):
            continue
        budget -= len(decoded)
        found.append(decoded)
    return tuple(found)


def readings(text: str) -> tuple[str, ...]:
    """Return the distinct texts a gate must examine, the plain normalised one first."""
    plain = normalise(text)
    result = [plain]
    folded = collapse_separators(fold_look_alikes(plain))
    if folded != plain:
        result.append(folded)
    for hidden in decoded_runs(plain):
        clean = normalise(hidden)
        if clean not in result:
            result.append(clean)
    return tuple(result)


def _decode_each(text: str) -> list[str]:
    runs = [_from_base64(match.group()) for match in _BASE64_RUN.finditer(text)]
    runs += [_from_hex(match.group()) for match in _HEX_RUN.finditer(text)]
    if _URL_RUN.search(text):
        runs.append(unquote(text))
    return [run for run in runs if run]


def _from_base64(run: str) -> str:
    body = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _readable(base64.b64decode(body + "=" * (-len(body) % 4), validate=True))
    except (binascii.Error, ValueError):
        return ""


def _from_hex(run: str) -> str:
    digits = run.replace("\\x", "")
    return _readable(bytes.fromhex(digits)) if len(digits) % 2 == 0 else ""


def _readable(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    printable = sum(character.isprintable() or character.isspace() for character in text)
    return text if text and printable == len(text) else ""
