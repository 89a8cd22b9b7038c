"""What the assistant's answer is worth: facts that answer the question, and what the agent promised or still needs.

Owns query anchoring: a clause of the answer is kept only if it shares a topic word with the question, has the kind of
value that was asked for, or defines the entity in it. Called by ``rules`` once per turn. Never makes identity or policy,
and never keeps anything about passwords or other people.
"""

import re
from collections.abc import Iterator

from streams.extraction.clauses import Clause, language_of
from streams.extraction.facts import PLAIN, Fact
from streams.text.masking import find_identifiers

_NO_ANSWER = re.compile(
    r"抱歉|对不起|不好意思|我不(?:知道|清楚|确定|能)|作为.{0,6}(?:AI|人工智能|助手|伴侣)|无法(?:提供|回答|确定)|我(?:是|没有)|没有找到"
    r"|\b(?:sorry|I (?:do not|don't|can ?not|can't)|as an AI|unable to|not sure|no idea|I'm an|I am an)\b",
    re.IGNORECASE,
)
_SECRET = re.compile(r"密码|验证码|令牌|密钥|password|token|secret|api key|其他用户|other users?", re.IGNORECASE)
_RULES_CHANGE = re.compile(r"以后(?:都|你)|从现在起|你必须|忽略|from now on|you must|always obey|ignore", re.IGNORECASE)
_DEFINITION_QUESTION = re.compile(
    r"(?:什么是|何谓|啥是)(?P<zh>[^？?，,。]{1,20})|(?P<zh2>[\u4e00-\u9fffA-Za-z0-9 ]{2,20}?)(?:是什么(?:意思|东西)?|是啥|指的是什么)(?:[？?]|$)"
    r"|\bwhat(?:'s| is| are| does)(?: the meaning of| an?| the)? (?P<en>[\w' -]{2,40}?)(?: mean)?(?: in [\w ]{2,20})?[?？]",
    re.IGNORECASE,
)
_ASKED_KINDS = (
    (re.compile(r"电话|号码|phone|number", re.IGNORECASE), re.compile(r"\d{3}[\d -]{4,}"), "phone"),
    (re.compile(r"地址|在哪|哪里|位置|怎么走|\bwhere\b|\baddress\b|\blocated\b", re.IGNORECASE), re.compile(r"[路街道巷]\S{0,6}号|位于|地址|\b(?:located (?:at|in|on)|\d+ [A-Z]\w+ (?:Street|Road|Avenue|Lane))\b"), "address"),
    (re.compile(r"多少钱|价格|费用|门票|票价|人均|房价|\b(?:price|cost|how much|fee)\b", re.IGNORECASE), re.compile(r"\d+\s*(?:元|块|美元|¥|\$|USD|dollars|euros)|[¥$€£]\s?\d|免费|free", re.IGNORECASE), "price"),
    (re.compile(r"评分|几分|得分|\brat(?:ing|ed)\b", re.IGNORECASE), re.compile(r"\d(?:\.\d)?\s*分|\d\.\d|stars?", re.IGNORECASE), "rating"),
    (re.compile(r"几点|营业|开放|什么时候|时间|多久|\b(?:when|what time|open|hours|how long)\b", re.IGNORECASE), re.compile(r"\d{1,2}[:：点]|小时|全天|\d+ ?(?:am|pm|hours?|minutes?|days?)|[今明后]天|周[一二三四五六日]", re.IGNORECASE), "time"),
    (re.compile(r"推荐|介绍|哪家|有什么好|\b(?:recommend|suggest|which)\b", re.IGNORECASE), re.compile(r"《[^》]+》|[“\"][^”\"]{2,40}[”\"]|(?:recommend|suggest|try|called|visit) (?:the |\")?[A-Z]\w+"), "recommendation"),
)  # fmt: skip
_TOPICS = re.compile(
    r"评分|电话|地址|人均(?:消费)?|价格|门票|推荐菜|营业时间|游玩时间|酒店类型|酒店设施|周边(?:景点|餐馆|酒店)|名称|健身房?|宽带|wifi|WIFI|停车场?|早餐|无烟房|游泳池|洗衣|接机|叫醒|会议室|暖气|接待外宾|商务中心|24小时热水|吹风机|国际长途|看护小孩|酒吧|温泉|SPA|桑拿|棋牌室|残疾人|行李寄存|租车|出发地|到达地|车牌|车型|地铁"
)
_ANSWER_END = re.compile(r"[。！？!?；;\n]+|(?<=[a-z0-9)\"'%])\.(?=\s|$)")
_PROMISE = re.compile(
    r"我(?:们)?(?:会|将|马上|稍后|这就|立即|明天|尽快|将会)+(?:就|再|尽快|马上|立刻|帮您|为您|给您|帮你|给你|向您|在.{1,10}?)*(?:联系|回复|跟进|处理|通知|反馈|提醒|发送|发给|安排|打电话|核实|查询|查一?下|转交|补发|退款|申请|寄出|更新|确认)[^。！？!?\n]{0,30}"
    r"|\b(?:I|we)(?: will|'ll| am going to) (?:\w+ )?(?:call|follow up|send|get back|check|notify|e-?mail|contact|arrange|process|look into|forward|escalate|update|refund|ship|confirm|investigate|remind)\b[^.!?\n]{0,80}",
    re.IGNORECASE,
)
_NEED = re.compile(
    r"(?:请您?你?|麻烦您?你?|还?需要您?你?)(?:先|再)?(?:提供|发送|发一?下|上传|补充|告知|告诉我|确认|拍照|填写|发给我)[^。！？!?\n]{1,30}"
    r"|\b(?:please|could you|can you|I need you to|I'll need you to)(?: also)? (?:send|provide|upload|share|tell me|confirm|attach|give me)\b[^.!?\n]{2,80}",
    re.IGNORECASE,
)
_NEEDED_THING = re.compile(
    r"订单|截图|照片|图片|单号|号码|地址|电话|姓名|身份|凭证|发票|信息|账号|邮箱|材料|文件|时间|日期|型号|证明"
    r"|\b(?:order|screenshot|photo|picture|number|address|receipt|document|file|id|e-?mail|account|proof|invoice|details|date|model)\b",
    re.IGNORECASE,
)
_PLEASANTRY = re.compile(
    r"任何(?:问题|需要|时候)|有(?:其他|什么)|随时|more about|anything else|any other|questions|if you", re.IGNORECASE
)
_STOP = frozenset(
    "the a an is are was what which who where when how do does did you your i me my can could would please of in on at to for and or it this that there any some about tell know have has with".split()
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
                attribute=attribute, value=value, language=language, type="event_commitment", entity_type="agent", entity_id="agent",
                intent="commit" if attribute == "agent_promise" else "request", source="assistant", importance=0.5,
                confidence=PLAIN, message_id=message_id,
            )  # fmt: skip


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
        attribute=topic, value=value, language=language, type="fact", entity_type="topic", entity_id=topic.lower().replace(" ", "_"),
        sentence=f"{context}{value}", source="assistant", importance=0.5, confidence=0.3 if personal else PLAIN, message_id=message_id,
    )  # fmt: skip
