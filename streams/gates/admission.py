"""From extracted to admitted: gates 1 and 2, PII policy, confidence, source rules, then classes.

Owns what happens to each candidate. Called by the ``admit`` agent. A candidate that is refused leaves the list and becomes
a refusal with a masked excerpt; one of low confidence stays, marked ``pending``.
"""

from collections.abc import Iterable

import msgspec

from schemas.candidates import Candidate, Extraction, Refusal
from streams.classification import CLASSIFIER_VERSION, classify
from streams.gates.gate import gate1, gate2
from streams.gates.outcome import ADMIT, GATE_VERSION, PENDING, QUARANTINE, GateOutcome
from streams.gates.pii import DEFAULT_POLICY, PiiPolicy

_TRUSTED_SOURCES = frozenset({"official_id", "business_record"})


def admit_extraction(
    extraction: Extraction,
    skip_rules: frozenset[str] = frozenset(),
    policy: PiiPolicy = DEFAULT_POLICY,
    *,
    pending_below: float,
) -> Extraction:
    """Return the extraction with gated and classified candidates and the refusals of gates 1 and 2.

    Every remaining candidate has ``outcome`` admit, or pending where its confidence (0 to 1) is under ``pending_below``.
    ``skip_rules`` are the rules an operator overrode.
    """
    kept: list[Candidate] = []
    refusals: list[Refusal] = []
    for candidate in extraction.candidates:
        outcome = _judged(candidate, skip_rules, policy)
        if outcome.outcome == ADMIT:
            kept.append(candidate)
        else:
            refusals.append(outcome.refusal("candidate", candidate.ordinal))
    joined = gate2([candidate for candidate in kept if candidate.source not in _TRUSTED_SOURCES], skip_rules)
    if joined.outcome != ADMIT:
        refusals += [joined.refusal("candidate", candidate.ordinal) for candidate in kept]
        kept = []
    admitted = tuple(_without_lost_causes(_finished(candidate, pending_below) for candidate in kept))
    status = extraction.status
    if status == "extracted" and not admitted:
        status = "refused" if refusals else "nothing"
    return msgspec.structs.replace(
        extraction,
        status=status,
        candidates=admitted,
        refusals=extraction.refusals + tuple(refusals),
        gate_version=GATE_VERSION,
        classifier_version=CLASSIFIER_VERSION,
    )


def _judged(candidate: Candidate, skip_rules: frozenset[str], policy: PiiPolicy) -> GateOutcome:
    if candidate.outcome in {QUARANTINE, "reject"}:
        return GateOutcome(candidate.outcome, candidate.rule_id or "extractor", "gate1")
    return gate1(candidate, skip_rules, policy)


def _finished(candidate: Candidate, pending_below: float) -> Candidate:
    classified = classify(candidate)
    if candidate.confidence < pending_below:
        return msgspec.structs.replace(classified, outcome=PENDING, rule_id=candidate.rule_id or "confidence")
    return msgspec.structs.replace(classified, outcome=ADMIT)


def _without_lost_causes(candidates: Iterable[Candidate]) -> Iterable[Candidate]:
    """A cause that was refused is no cause any more."""
    listed = list(candidates)
    present = {candidate.ordinal for candidate in listed}
    for candidate in listed:
        causes = tuple(ordinal for ordinal in candidate.causes if ordinal in present)
        yield candidate if causes == candidate.causes else msgspec.structs.replace(candidate, causes=causes)
