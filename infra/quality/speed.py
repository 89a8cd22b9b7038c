"""How fast the text side is on one core: turns a second of the rules, and the time of all gates on a chat message.

Called by ``measure`` with chat messages. Each figure is the best of several rounds, because another process on the machine
can only make it slower.
"""

import time
from collections.abc import Sequence

from infra.quality.figures import Speed
from streams.extraction.inputs import TurnInput
from streams.extraction.pipeline import extract
from streams.extraction.rules import extract_turn
from streams.gates.admission import admit_extraction
from streams.gates.gate import gate0, gate1, gate2

ROUNDS = 3


def measure_speed(turns: Sequence[tuple[str, str]], pending_below: float) -> tuple[Speed, ...]:
    """Return speeds over ``turns`` (user message, answer); empty without any."""
    if not turns:
        return ()
    inputs = [
        TurnInput(event_id=str(number), user_message=message, assistant_message=answer, stated_at_ms=1_773_194_400_000)
        for number, (message, answer) in enumerate(turns)
    ]
    extracted = [extract(one) for one in inputs]
    for one in extracted:
        admit_extraction(one, pending_below=pending_below)
    rules_seconds = min(_seconds(inputs) for _ in range(ROUNDS))
    gates = [min(times) for times in zip(*(_gate_times(inputs) for _ in range(ROUNDS)), strict=True)]
    return (
        Speed("rules extractor", round(len(inputs) / rules_seconds), "turns/s", len(inputs)),
        Speed("all gates, p95", round(sorted(gates)[int(len(gates) * 0.95)] * 1000, 3), "ms", len(gates)),
    )


def _seconds(inputs: Sequence[TurnInput]) -> float:
    begin = time.perf_counter()
    for one in inputs:
        extract_turn(one)
    return time.perf_counter() - begin


def _gate_times(inputs: Sequence[TurnInput]) -> list[float]:
    times = []
    for one in inputs:
        candidates = extract_turn(one).candidates
        begin = time.perf_counter()
        gate0(one.user_message, "user")
        gate0(one.assistant_message or "", "assistant")
        for candidate in candidates:
            gate1(candidate)
        gate2(candidates)
        times.append(time.perf_counter() - begin)
    return times
