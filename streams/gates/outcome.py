"""What a gate says about a text: admit, pending, quarantine or reject, by which rule, with a masked excerpt.

Owned by the gates; read by the extraction pipeline and by admission.
"""

from dataclasses import dataclass

from schemas.candidates import Refusal

GATE_VERSION = "gates-1"
ADMIT = "admit"
PENDING = "pending"
QUARANTINE = "quarantine"
REJECT = "reject"


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The outcome of one gate; ``rule_id`` and ``excerpt`` (masked, at most 200 characters) are empty for ``admit``."""

    outcome: str = ADMIT
    rule_id: str = ""
    gate: str = ""
    excerpt: str = ""

    def refusal(self, side: str, ordinal: int | None = None) -> Refusal:
        """Return the refusal record of this outcome for ``side`` (user, assistant or candidate)."""
        return Refusal(
            gate=self.gate,
            rule_id=self.rule_id,
            gate_version=GATE_VERSION,
            outcome=self.outcome,
            side=side,
            excerpt=self.excerpt,
            ordinal=ordinal,
        )
