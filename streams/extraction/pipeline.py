"""From one input to its extraction: gate 0 on each side, noise filter, extractor, grounding.

Owns the order of these steps. Called by the ``extract`` agent; an extractor that waits for a model calls ``prepare``
before and ``complete`` after its request. Never admits anything: gates 1 and 2 follow in ``admit``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from schemas.candidates import Extraction, Refusal
from streams.extraction import rules
from streams.extraction.grounding import grounded, repeats_recalled
from streams.extraction.inputs import ExtractionInput, RecordInput, StepInput, TurnInput
from streams.extraction.noise import is_noise
from streams.gates.gate import GATE_VERSION, gate0
from streams.gates.outcome import ADMIT
from streams.gates.pii import DEFAULT_POLICY, PiiPolicy

TurnExtractor = Callable[[TurnInput], Extraction]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A turn after gate 0 and the noise filter; ``status`` is empty when an extractor should read it."""

    turn: TurnInput
    refusals: tuple[Refusal, ...]
    status: str = ""
    reason: str = ""


def extract(
    input_: ExtractionInput, extractor: TurnExtractor = rules.extract_turn, *, policy: PiiPolicy = DEFAULT_POLICY
) -> Extraction:
    """Return the whole outcome of one input; steps and records need no extractor and take their own way."""
    if isinstance(input_, StepInput):
        return msgspec.structs.replace(rules.extract_step(input_), gate_version=GATE_VERSION)
    if isinstance(input_, RecordInput):
        return msgspec.structs.replace(rules.extract_record(input_), gate_version=GATE_VERSION)
    prepared = prepare(input_, policy)
    if prepared.status:
        return complete(prepared, Extraction(status=prepared.status, reason=prepared.reason))
    return complete(prepared, extractor(prepared.turn))


def prepare(turn: TurnInput, policy: PiiPolicy = DEFAULT_POLICY) -> Prepared:
    """Return the turn with refused sides removed, the refusals, and whether anything is left to read."""
    refusals: list[Refusal] = []
    user, answer = turn.user_message, turn.assistant_message
    checked = gate0(user, "user", turn.skip_rules, policy)
    if checked.outcome != ADMIT:
        refusals.append(checked.refusal("user"))
        user = ""
    if answer:
        answered = gate0(answer, "assistant", turn.skip_rules, policy)
        if answered.outcome != ADMIT:
            refusals.append(answered.refusal("assistant"))
            answer = None
    # An answer to a refused message may repeat it, so it is not read either.
    kept = replace(turn, user_message=user, assistant_message=answer if user else None)
    if not user and refusals:
        return Prepared(kept, tuple(refusals), "refused", refusals[0].rule_id)
    if is_noise(turn.user_message, turn.previous_user_message) and not kept.assistant_message:
        return Prepared(kept, tuple(refusals), "noise", "noise")
    if is_noise(turn.user_message, turn.previous_user_message):
        kept = replace(kept, user_message="")
    return Prepared(kept, tuple(refusals))


def complete(prepared: Prepared, extraction: Extraction) -> Extraction:
    """Return the extraction with grounded candidates, without repeats of recalled text, and with the refusals of gate 0."""
    turn = prepared.turn
    messages = {turn.user_message_id: turn.user_message}
    if turn.assistant_message:
        messages[turn.assistant_message_id] = turn.assistant_message
    if turn.previous_user_message:
        # A correction may end what the message before stated.
        messages[turn.user_message_id] += "\n" + turn.previous_user_message
    candidates = tuple(
        grounded(candidate, messages)
        for candidate in extraction.candidates
        if not repeats_recalled(candidate, turn.recalled_contents)
    )
    status = extraction.status
    if status in {"extracted", "nothing"}:
        status = (
            "extracted" if candidates else ("noise" if not turn.user_message and not prepared.refusals else "nothing")
        )
    return msgspec.structs.replace(
        extraction,
        status=status,
        candidates=candidates,
        refusals=prepared.refusals + extraction.refusals,
        gate_version=GATE_VERSION,
    )
