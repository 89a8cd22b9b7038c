"""The PII policy: which kinds of identifiers may be kept, by class, from whom.

Owns the classes and the profiles, of which the setting ``pii_profile`` names one. Called by gates 0 and 1. Finding
identifiers is the work of ``streams.text.masking``; here is only decided what may happen with them.
"""

import re
from dataclasses import dataclass

from streams.text.masking import Span

CLASS_OF_KIND = {
    "secret": "secret",
    "resident_id": "document",
    "ssn": "document",
    "passport": "document",
    "bank_card": "account",
    "iban": "account",
    "phone": "contact",
    "email": "contact",
    "address": "contact",
    "plate": "contact",
    "ip": "technical",
    "reference": "technical",
}


@dataclass(frozen=True, slots=True)
class PiiPolicy:
    """Classes that are rejected whole, and classes rejected when they are another person's."""

    name: str
    rejected: frozenset[str]
    rejected_of_others: frozenset[str]


DEFAULT_POLICY = PiiPolicy("default", frozenset({"secret", "document", "account"}), frozenset({"contact"}))
STRICT_POLICY = PiiPolicy("strict", frozenset({"secret", "document", "account", "contact"}), frozenset({"contact"}))
PROFILES = {policy.name: policy for policy in (DEFAULT_POLICY, STRICT_POLICY)}
_PUBLIC = re.compile(
    r"客服|热线|前台|餐厅|酒店|公司|商家|门店|店铺|医院|学校|support|hotline|front desk|hotel|restaurant|office|customer service",
    re.IGNORECASE,
)


def rejected_span(spans: tuple[Span, ...], policy: PiiPolicy, side: str) -> Span | None:
    """Return the first identifier of a rejected class; contact data in the assistant's answers is business data."""
    for span in spans:
        kind = CLASS_OF_KIND[span.kind]
        if kind not in policy.rejected or (side == "assistant" and kind == "contact"):
            continue
        return span
    return None


def rejected_of_other(spans: tuple[Span, ...], policy: PiiPolicy, subject: str, content: str) -> Span | None:
    """Return the first identifier that belongs to another person and is not public business data."""
    if not subject.startswith("person:") or _PUBLIC.search(content):
        return None
    return next((span for span in spans if CLASS_OF_KIND[span.kind] in policy.rejected_of_others), None)


def rule_of(span: Span) -> str:
    """Return the rule id of a rejected identifier."""
    return f"pii/{span.kind}"
