"""The noise filter: messages with nothing to remember in them.

Owns the rule for greetings, fillers, acknowledgements and repeats. Called by ``pipeline`` before extraction. A message is
noise only if nothing remains once such words are taken away; when in doubt it is not noise.
"""

import re

from streams.extraction.patterns import patterns
from streams.text.normalise import normalise

_ONLY_PHRASES = re.compile(
    rf"(?:(?:{patterns('noise')['phrase'].pattern})[\s,，.。!！?？~～、…;；:：()（）\"']*)+", re.IGNORECASE
)
_NO_LETTERS = re.compile(r"[^A-Za-z0-9\u00c0-\u024f\u3400-\u9fff]*")


def is_noise(message: str, previous: str | None = None) -> bool:
    """Return whether a user message carries nothing to remember; ``previous`` is the message before, for repeats."""
    text = normalise(message).strip()
    if not text or _NO_LETTERS.fullmatch(text):
        return True
    if previous is not None and text == normalise(previous).strip():
        return True
    return len(text) <= 120 and _ONLY_PHRASES.fullmatch(text) is not None
