"""Whether a worker is alive and whether it is ready, from what its own loop last showed.

Called by ``infra.metrics`` for ``/healthz`` and ``/readyz``. Pure. A partition that stands still ends the process
(``streams.watchdog``), so it needs no state of its own here: the process then says ``stopping`` until its supervisor starts it
again.
"""

from dataclasses import dataclass

# As the supervisor's patience with an old heartbeat file.
HUNG_SECONDS = 30.0
ALIVE = frozenset({"starting", "ready", "waiting"})


@dataclass(frozen=True, slots=True)
class Answer:
    """Yes or no, and one sentence."""

    good: bool
    reason: str


def alive(state: str, detail: str, silent_seconds: float) -> Answer:
    """Tell whether the process should be left alone: its loop turns, and it is not on its way out.

    Waiting for a server is alive: a restart would not bring the server back.
    """
    if silent_seconds > HUNG_SECONDS:
        return Answer(False, f"the loop has hung for {silent_seconds:.0f} s")
    return Answer(state in ALIVE, _sentence(state, detail))


def ready(state: str, detail: str, silent_seconds: float) -> Answer:
    """Tell whether the next record is worked on at once."""
    living = alive(state, detail, silent_seconds)
    return Answer(living.good and state == "ready", living.reason)


def _sentence(state: str, detail: str) -> str:
    return f"{state}: {detail}" if detail else state
