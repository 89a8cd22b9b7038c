"""Orders and tickets in chat: which one, its stage, its problem, what is asked for, what was last done about it.

Owns the patterns of business talk in both languages. Called by ``rules`` once per turn, because the number, the problem
and the request usually stand in different clauses. The entity is the order, so that all its facts share one link group.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from streams.extraction.clauses import Clause
from streams.extraction.facts import EXPLICIT, PLAIN, Fact

_ORDER = re.compile(
    r"(?:订单|单号|快递|包裹|运单)(?:号|编号)?(?:是|为|：|:|#|\s)*(?P<zh>[A-Za-z]{0,6}-?\d[0-9A-Za-z-]{3,31})?"
    r"|\b(?:order|parcel|package|shipment)(?:s)?\b(?: (?:number|no\.?|id))?(?: is|:)? ?#? ?(?P<en>[A-Za-z]{0,6}-?\d[0-9A-Za-z-]{3,31})?",
    re.IGNORECASE,
)
_TICKET = re.compile(
    r"工单(?:号|编号)?(?:是|为|：|:|#|\s)*(?P<zh>[A-Za-z]{0,6}-?\d[0-9A-Za-z-]{2,31})|\bticket(?: (?:number|no\.?|id))?(?: is|:)? ?#? ?(?P<en>[A-Za-z]{0,6}-?\d[0-9A-Za-z-]{2,31})",
    re.IGNORECASE,
)
_STATUSES = (
    ("未发货", re.compile(r"(?:没有?|还没有?|尚未|未|不)发货|\b(?:not|hasn't|has not|never)(?: been)? (?:yet )?shipped", re.IGNORECASE), "not shipped"),
    ("未送达", re.compile(r"(?:没有?|还没有?|一直没|迟迟没|未)(?:收到|到|送到|送达)|\b(?:not|hasn't|has not|haven't|never)(?: yet)? (?:arrived|received|come|been delivered|delivered)|\b(?:is|still) (?:late|missing|delayed)|where is my", re.IGNORECASE), "not arrived"),
    ("已取消", re.compile(r"(?:已经?|被)取消|\b(?:was|been|is) cancel", re.IGNORECASE), "cancelled"),
    ("已收到", re.compile(r"(?:收到|送到|到货)了|已(?:收到|签收)|\b(?:arrived|delivered|received)\b", re.IGNORECASE), "arrived"),
    ("已发货", re.compile(r"已(?:经)?发货|发货了|\b(?:has |was |been )?shipped\b", re.IGNORECASE), "shipped"),
    ("配送中", re.compile(r"在路上|配送中|运输中|派送|\bon (?:its|the) way\b|\bin transit\b", re.IGNORECASE), "in transit"),
)  # fmt: skip
_PROBLEM = re.compile(
    r"(?P<zh>[^，。]{0,14}(?:破损|坏了|碎了|少了|漏发|发错|错发|质量问题|瑕疵|不能用|无法(?:登录|支付|打开|使用|下单)|打不开|付不了|报错|卡在.{1,16}|停在.{1,16}|丢件|丢了|不见了|不对|有问题|扣了两次|重复扣款|尺码不对|颜色不对)[^，。]{0,10})"
    r"|\b(?P<en>(?:arrived |is |was |came |got )?(?:damaged|broken|defective|faulty|wrong (?:item|size|colou?r|product|address)|missing (?:an? )?\w+|stuck (?:at|in|on) [\w ]{2,30}|charged twice|cracked|not working|lost|incomplete))\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"(?P<zh>退款|退货|换货|补发|赔偿|催一?下|催单|改地址|修改地址|换个地址|取消订单|开发票|发票)|\b(?P<en>refund|return|exchange|replacement|compensation|cancel (?:it|the order|my order)|change the address|invoice)\b",
    re.IGNORECASE,
)
_SOLUTION = re.compile(
    r"(?:已(?:经)?(?:为您|帮您|为你|帮你|给您)?)(?P<zh>(?:重启|重新|补发|退款|换货|登记|提交|升级|转交|催促|联系|申请|处理|创建)[^。！？!?\n]{0,40})|\bI(?:'ve| have) (?P<en>(?:created|submitted|issued|escalated|requested|refunded|opened|filed|contacted|reset|restarted|forwarded)[^.!?\n]{0,60})",
    re.IGNORECASE,
)


def order_of(text: str) -> tuple[str, str] | None:
    """Return (entity type, entity id) of the order or ticket a text names; ``latest`` when it has no number."""
    for kind, pattern in (("ticket", _TICKET), ("order", _ORDER)):
        numbered = next((match for match in pattern.finditer(text) if match["zh"] or match["en"]), None)
        if numbered:
            return kind, numbered["zh"] or numbered["en"]
    if re.search(r"(?:我的?|这个|那个|上个)?(?:订单|包裹|快递)|\bmy (?:order|parcel|package)\b", text, re.IGNORECASE):
        return "order", "latest"
    return None


def orders_of(message: str, clauses: tuple[Clause, ...], answer: str, previous: str, answer_id: str) -> Iterator[Fact]:
    """Yield the facts of the order a message is about; the number may stand in the previous message."""
    entity = order_of(message)
    if entity is None:
        return
    if entity[1] == "latest":
        earlier = order_of(previous)
        entity = earlier if earlier and earlier[1] != "latest" else entity
    language = clauses[0].language if clauses else "en"
    base = Fact(
        attribute="",
        value="",
        language=language,
        type="order_state",
        entity_type=entity[0],
        entity_id=entity[1],
        confidence=PLAIN,
    )
    if entity[1] != "latest":
        base = replace(base, confidence=EXPLICIT)
    stated = [clause for clause in clauses if not clause.supposed]
    told = " ， ".join(clause.text for clause in stated if not clause.question)
    yield from _status(told or message, base)
    if problem := _PROBLEM.search(told):
        value = (problem["zh"] or problem["en"]).strip()
        value = re.sub(r"^.*?(?:订单|单号)\s*[A-Za-z0-9-]*", "", value).strip() or value
        yield replace(base, attribute="order_problem", value=value)
    for request in {(m["zh"] or m["en"]).lower(): m for clause in stated for m in _REQUEST.finditer(clause.text)}:
        yield replace(base, attribute="order_request", value=request, intent="request", tentative=True)
    if solution := _SOLUTION.search(answer):
        value = (solution["zh"] or solution["en"]).strip()
        yield replace(
            base,
            attribute="order_solution",
            value=value,
            source="assistant",
            importance=0.5,
            message_id=answer_id,
            confidence=PLAIN,
        )


def _status(told: str, base: Fact) -> Iterator[Fact]:
    for chinese, pattern, english in _STATUSES:
        if pattern.search(told):
            yield replace(base, attribute="order_status", value=chinese if base.language == "zh" else english)
            return
