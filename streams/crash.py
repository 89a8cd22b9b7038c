"""Crash points: named steps at which a test makes the real process kill itself.

Set by ``ENGRAM_CRASH_AT=step:n``: at the n-th visit of that step the process gets SIGKILL, as if the machine had died.
Without the setting a visit costs one comparison.
"""

import os
import signal

from schemas.errors import Misconfigured
from schemas.settings import Settings

STEPS = (
    "after_consume",
    "before_model",
    "after_model",
    "in_transaction",
    "after_commit",
    "before_ack",
    "after_relay_send",
    "before_outbox_done",
    "after_milvus",
    "after_neo4j",
    "after_influx",
    "before_commit",
    "mid_rebuild",
    "mid_repair",
)


class CrashPoints:
    """Counts visits of the one step that is armed and kills the process at the n-th."""

    def __init__(self, step: str = "", visit: int = 0) -> None:
        if step and step not in STEPS:
            raise Misconfigured(f"ENGRAM_CRASH_AT names an unknown step {step}: use one of {', '.join(STEPS)}")
        self._step = step
        self._left = visit

    def visit(self, step: str, times: int = 1) -> None:
        """Pass the step named ``step``, ``times`` at once; does not return if the visit that was asked for is among them."""
        if step != self._step or self._left <= 0:
            return
        self._left -= times
        if self._left <= 0:
            self._die()

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def crash_points(settings: Settings) -> CrashPoints:
    """Return the crash points of this process as ``settings.crash_at`` asks."""
    step, _, visit = settings.crash_at.partition(":")
    return CrashPoints(step, int(visit or 0))
