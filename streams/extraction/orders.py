"""Orders and tickets in chat: which one, its stage, its problem, what is asked for, what was last done about it.

Owns the patterns of business talk in both languages. Called by ``rules`` once per turn, because the number, the problem
and the request usually stand in different clauses. The entity is the order, so that all its facts share one link group.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from streams.extraction.clauses import Clause
from streams.extraction.facts import EXPLICIT, PLAIN, Fact
from streams.extraction.patterns import patterns

_PATTERNS = patterns("orders")
_ORDER = _PATTERNS["order"]
_TICKET = _PATTERNS["ticket"]
_STATUSES = (
    ("not_shipped", "未发货", "not shipped"),
    ("not_arrived", "未送达", "not arrived"),
    ("cancelled", "已取消", "cancelled"),
    ("arrived", "已收到", "arrived"),
    ("shipped", "已发货", "shipped"),
    ("in_transit", "配送中", "in transit"),
)
_PROBLEM = _PATTERNS["problem"]
_REQUEST = _PATTERNS["request"]
_SOLUTION = _PATTERNS["solution"]


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
        value = re.sub(r"^(?:但是?|不过|可是|而且|还有|然后|就是)", "", value)
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
    for key, chinese, english in _STATUSES:
        if _PATTERNS[key].search(told):
            yield replace(base, attribute="order_status", value=chinese if base.language == "zh" else english)
            return
