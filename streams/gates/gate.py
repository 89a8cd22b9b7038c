"""The three gates: whole message, single candidate, all candidates together.

Owns what each gate looks at. Called by the extraction pipeline (gate 0) and by admission (gates 1 and 2). A gate answers
admit, quarantine or reject, never changes a text, and always gives its rule and a masked excerpt.
"""

from collections.abc import Sequence

from schemas.candidates import Candidate
from streams.gates.outcome import ADMIT, GATE_VERSION, REJECT, GateOutcome
from streams.gates.pii import DEFAULT_POLICY, PiiPolicy, rejected_of_other, rejected_span, rule_of
from streams.gates.rule_sets import own_hit, threat_hit
from streams.text.masking import find_identifiers, masked_excerpt
from streams.text.normalise import normalise, readings

__all__ = ["GATE_VERSION", "gate0", "gate1", "gate2"]

TEXT_LIMIT_CHARACTERS = 100_000
_NONE: frozenset[str] = frozenset()


def gate0(text: str, side: str, skip_rules: frozenset[str] = _NONE, policy: PiiPolicy = DEFAULT_POLICY) -> GateOutcome:
    """Judge a whole message; ``side`` is ``user`` or ``assistant``. A hit refuses this side whole."""
    return _judge(text, side, "gate0", skip_rules, policy)


def gate1(candidate: Candidate, skip_rules: frozenset[str] = _NONE, policy: PiiPolicy = DEFAULT_POLICY) -> GateOutcome:
    """Judge one candidate by its own key, value and sentence."""
    words = _words(candidate)
    text = candidate.content if words in candidate.content else f"{candidate.content}\n{candidate.value}"
    side = "assistant" if candidate.source == "assistant" else "user"
    outcome = _judge(text, side, "gate1", skip_rules, policy)
    if outcome.outcome != ADMIT:
        return outcome
    spans = find_identifiers(normalise(text))
    other = rejected_of_other(spans, policy, candidate.subject, candidate.content)
    if other is not None and f"{rule_of(other)}-of-others" not in skip_rules:
        return GateOutcome(REJECT, f"{rule_of(other)}-of-others", "gate1", masked_excerpt(candidate.content))
    return GateOutcome(gate="gate1")


def gate2(candidates: Sequence[Candidate], skip_rules: frozenset[str] = _NONE) -> GateOutcome:
    """Judge all admitted candidates of a turn as one text: an injection that was split is whole again here."""
    if len(candidates) < 2:
        return GateOutcome(gate="gate2")
    for separator in ("\n", ""):
        joined = separator.join(_words(candidate) for candidate in candidates)
        outcome = _injection(joined, "gate2", skip_rules)
        if outcome.outcome != ADMIT:
            return outcome
    return GateOutcome(gate="gate2")


def _words(candidate: Candidate) -> str:
    value = candidate.value
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else candidate.content


def _judge(text: str, side: str, gate: str, skip_rules: frozenset[str], policy: PiiPolicy) -> GateOutcome:
    if not text:
        return GateOutcome(gate=gate)
    text = text[:TEXT_LIMIT_CHARACTERS]
    span = rejected_span(find_identifiers(normalise(text)), policy, side)
    if span is not None and rule_of(span) not in skip_rules:
        return GateOutcome(REJECT, rule_of(span), gate, masked_excerpt(normalise(text), span.start))
    return _injection(text, gate, skip_rules)


def _injection(text: str, gate: str, skip_rules: frozenset[str]) -> GateOutcome:
    for reading in readings(text):
        hit = own_hit(reading, skip_rules) or threat_hit(reading, skip_rules)
        if hit is not None:
            return GateOutcome(hit.outcome, hit.rule_id, gate, masked_excerpt(reading, hit.start))
    return GateOutcome(gate=gate)
