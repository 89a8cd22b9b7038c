"""The noise filter: messages with nothing to remember in them.

Owns the rule for greetings, fillers, acknowledgements and repeats. Called by ``pipeline`` before extraction. A message is
noise only if nothing remains once such words are taken away; when in doubt it is not noise.
"""

import re

from streams.text.normalise import normalise

_PHRASES = (
    r"你好[啊呀吗]?|您好|哈[喽啰罗]|嗨|早上好|早安|中午好|下午好|晚上好|晚安|再见|拜拜|回头见|明天见|好的[呀啊呢]?|好[吧啊呀]?|嗯+|哦+|噢|额|呃|啊|是的?|对[的啊呀]?|行[吧啊]?|可以|没问题|知道了|明白了?|了解了?|收到|懂了|谢谢你?您?|多谢|感谢你?您?|辛苦了?|不客气|没事|没关系|哈+|呵+|嘿+|厉害|不错|太好了|真的吗|真棒|在吗|在不在|ok|okay"
    r"|hi|hello|hey|yo|good (?:morning|afternoon|evening|night)|bye|goodbye|see you(?: later| tomorrow)?|later|yes|yeah|yep|yup|no|nope|sure|ok|okay|k|alright|fine|cool|nice|great|awesome|perfect|got it|i see|understood|makes sense"
    r"|thanks(?: a lot| so much)?|thank you(?: very much| so much)?|thx|ty|you're welcome|no problem|np|haha+|hehe+|lol|lmao|wow|hmm+|um+|uh+|oh|really|there|friend|朋友|how are you(?: doing)?(?: today)?|what's up|sup|nice to meet you|很高兴认识你|很高兴见到你|sounds good|good to know|will do|no worries|let me think(?: about it)?"
)
_ONLY_PHRASES = re.compile(rf"(?:(?:{_PHRASES})[\s,，.。!！?？~～、…;；:：()（）\"']*)+", re.IGNORECASE)
_NO_LETTERS = re.compile(r"[^A-Za-z0-9\u00c0-\u024f\u3400-\u9fff]*")


def is_noise(message: str, previous: str | None = None) -> bool:
    """Return whether a user message carries nothing to remember; ``previous`` is the message before, for repeats."""
    text = normalise(message).strip()
    if not text or _NO_LETTERS.fullmatch(text):
        return True
    if previous is not None and text == normalise(previous).strip():
        return True
    return len(text) <= 120 and _ONLY_PHRASES.fullmatch(text) is not None
