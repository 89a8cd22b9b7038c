"""The end of a process inside a test: an exception that no code of the product catches, raised at its own crash points."""

from streams.crash import CrashPoints


class SimulatedCrash(BaseException):
    """The process died here; whatever it had not committed is lost."""


class CrashAt(CrashPoints):
    """Dies at the n-th visit of a step, as the process under test would."""

    def _die(self) -> None:
        raise SimulatedCrash(self._step)
