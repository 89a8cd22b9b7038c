"""Classes of candidates: category, tags, slot hint, scope, expiry and link group, by rules in a fixed order.

Owns the order of ``write-path`` section 4. Called by admission for every candidate that is kept. Pure; without a rule that
fits, a candidate is ``general``.
"""

import re

import msgspec

from schemas.candidates import Candidate
from streams.vocabulary import attribute_of

CLASSIFIER_VERSION = "classes-1"
SLOT_OF_CATEGORY = {
    "tool_failure": "tool_state",
    "policy": "constraints",
    "identity": "profile",
    "preference": "profile",
    "episodic": "recall",
    "fact": "recall",
    "general": "recall",
}
_DAY_MS = 86_400_000
_ORDER = re.compile(
    r"(?:以后|今后|从现在起|每次|永远|务必|必须|一律|总是)[^。]{0,12}(?:回答|回复|说|用|叫|别|不要|给我)"
    r"|(?:别|不要|请勿|不准)(?:再)?(?:给我)?(?:打电话|编造|瞎编|发短信|联系我|用英文|用中文|胡说)"
    r"|\b(?:always|never|from now on)\b.{0,40}\b(?:answer|reply|respond|use|call|say|speak|write|address)"
    r"|\b(?:do not|don't|never) (?:call|text|e-?mail|contact|make things up|invent|guess)\b",
    re.IGNORECASE,
)
_TAGS = (
    ("health", re.compile(r"allergic_to|health_condition|diet")),
    ("contact", re.compile(r"phone|email|wechat|address|contact_preference")),
    ("family", re.compile(r"family_member|marital_status")),
    ("work", re.compile(r"^(?:job|employer|job_before|school|major)$")),
    ("place", re.compile(r"city|hometown|address")),
    ("food", re.compile(r"avoids|diet")),
    ("style", re.compile(r"answer_style|answer_language|nickname")),
    ("schedule", re.compile(r"appointment|reminder|plan|followup")),
)
_SCOPE_OF_TAG = {"health": "health", "contact": "contact", "family": "family", "work": "work", "schedule": "schedule"}


def classify(candidate: Candidate) -> Candidate:
    """Return the candidate with category, tags, slot hint, scope label, expiry and link group."""
    category = category_of(candidate)
    tags = tuple(name for name, pattern in _TAGS if pattern.search(candidate.attribute))
    if candidate.type == "order_state" or candidate.entity_type in {"order", "ticket"}:
        tags = (*tags, candidate.entity_type)
    if candidate.subject.startswith("person:"):
        tags = (*tags, "other_person")
    return msgspec.structs.replace(
        candidate,
        category=category,
        tags=candidate.tags or tags,
        slot_hint=SLOT_OF_CATEGORY[category],
        scope=candidate.scope or _scope(candidate, tags),
        expires_at_ms=_expiry(candidate),
        link_group=candidate.link_group or _link_group(candidate),
    )


def category_of(candidate: Candidate) -> str:
    """Return the category by the first rule that fits; facts of the assistant or a tool are never identity or policy."""
    if candidate.type == "tool_failure":
        return "tool_failure"
    known = attribute_of(candidate.attribute).category
    if candidate.source not in {"assistant", "tool", "inferred"}:
        if _is_policy(candidate, known):
            return "policy"
        if known in {"identity", "preference", "policy"}:
            # A wish told as a preference ("I prefer e-mail") is one; only an order to the agent is a policy.
            return "preference" if known == "policy" else known
    if candidate.type in {"event_commitment", "event"} or known == "episodic":
        return "episodic"
    factual = candidate.type == "fact" or candidate.type.endswith("_state")
    return "fact" if factual or known in {"fact", "identity", "preference"} else "general"


def _is_policy(candidate: Candidate, known: str) -> bool:
    ordered = _ORDER.search(candidate.content) is not None
    if candidate.type == "interaction_preference":
        return ordered or known == "policy"
    return known == "policy" and (ordered or candidate.intent == "request")


def _scope(candidate: Candidate, tags: tuple[str, ...]) -> str:
    if candidate.entity_type in {"order", "ticket"}:
        return "orders"
    return next((_SCOPE_OF_TAG[tag] for tag in tags if tag in _SCOPE_OF_TAG), "general")


def _expiry(candidate: Candidate) -> int | None:
    if candidate.expires_at_ms is not None or candidate.type != "event_commitment" or candidate.event_time_ms is None:
        return candidate.expires_at_ms
    # Another extractor may know only the moment; a day later the commitment is over in every zone.
    return (candidate.valid_to_ms or candidate.event_time_ms) + _DAY_MS


def _link_group(candidate: Candidate) -> str:
    if candidate.entity_type in {"order", "ticket", "appointment"}:
        return f"{candidate.entity_type}:{candidate.entity_id}"
    group = attribute_of(candidate.attribute).link_group
    return f"{group}:{candidate.subject}" if group else ""
