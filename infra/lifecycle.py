"""When a supervised process is started again, after what delay, and when it counts as hung.

Owned by ``infra``; called by the supervisor, which measures the time and does what is decided here.
"""

from dataclasses import dataclass
from enum import StrEnum

CONFIGURATION_ERROR = 78


class State(StrEnum):
    """What a supervised process is doing; the first four of a worker come from its heartbeat."""

    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    STOPPING = "stopping"
    BACKING_OFF = "backing off"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Policy:
    """The numbers of the supervisor.

    ``start_seconds`` is how long a process may take to its first heartbeat: nine workers load their libraries at once
    on two cores. After ``healthy_seconds`` of running, earlier failures are forgotten.
    """

    first_delay_seconds: float = 0.5
    last_delay_seconds: float = 30.0
    healthy_seconds: float = 60.0
    hung_seconds: float = 30.0
    start_seconds: float = 120.0
    tick_seconds: float = 0.2


@dataclass(frozen=True, slots=True)
class StartAgain:
    """Start the process after the delay; ``failures`` in a row have been counted so far."""

    delay_seconds: float
    failures: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not start it: a person must change something first."""


def after_exit(policy: Policy, exit_code: int, failures: int, ran_seconds: float) -> StartAgain | GiveUp:
    """Decide what follows when a process ended that should run, whatever its exit code."""
    if exit_code == CONFIGURATION_ERROR:
        return GiveUp()
    counted = 1 if ran_seconds >= policy.healthy_seconds else failures + 1
    delay = policy.first_delay_seconds * 2.0 ** min(counted - 1, 30)
    return StartAgain(delay_seconds=min(delay, policy.last_delay_seconds), failures=counted)


def is_hung(policy: Policy, ran_seconds: float, silent_seconds: float | None) -> bool:
    """Tell whether a process that keeps a heartbeat has stopped doing so; ``None``: it has not begun to."""
    if silent_seconds is None:
        return ran_seconds > policy.start_seconds
    return silent_seconds > policy.hung_seconds
