"""Sample inputs that make a process load its rules before it says that it is ready.

Rule sets and dictionaries are built at first use, which takes seconds; the first turn of a day must not wait for them.
"""

from schemas.candidates import Candidate, Extraction

TEXTS = (
    "My name is Ann, I live in Leeds, was born on May 3, 1990 and am allergic to peanuts; call tomorrow 5 pm on +44 20 7946 0958.",
    "我叫小明，住在深圳，生日是1990年5月3日，对花生过敏，明天下午五点给我打电话，手机13800138000。",
)
STATED_AT_MS = 1_700_000_000_000
ANSWER = "Noted. 好的，已经记下了。"


def sample_extraction() -> Extraction:
    """Return an extraction with one candidate for each language."""
    candidates = tuple(
        Candidate(
            ordinal=number,
            type="user_profile",
            subject="user",
            entity_type="user",
            entity_id="",
            attribute="name",
            value='"x"',
            content=text,
            language=language,
            confidence=0.9,
            importance=0.7,
            source="user_statement",
        )
        for number, (text, language) in enumerate(zip(TEXTS, ("en", "zh"), strict=True))
    )
    return Extraction(status="extracted", candidates=candidates)
