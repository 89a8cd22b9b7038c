"""Errors by consequence: what the caller must do, not what went wrong inside a driver.

Owned by ``schemas``; raised everywhere. Adapters translate the errors of their client library into these three in one
place; shells match on them. Nothing here logs or retries.
"""


class EngramError(Exception):
    """Root of every error that Engram raises on purpose; its text is one sentence for a person."""


class Retryable(EngramError):
    """A dependency did not answer in time or refused for a while; the same call may succeed after a delay.

    ``delay_seconds`` is how long to wait before the next try.
    """

    def __init__(self, reason: str, *, delay_seconds: float = 1.0) -> None:
        super().__init__(reason)
        self.delay_seconds = delay_seconds


class Rejected(EngramError):
    """This one input can never succeed; it goes to the dead letters with ``reason`` and the stream goes on.

    ``code`` is a short, stable word for counting: ``bad_avro``, ``bad_id``, ``erased``, ``too_large``, …
    """

    def __init__(self, reason: str, *, code: str = "rejected") -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


class Broken(EngramError):
    """Going on would lose or falsify data; the process must end before it acknowledges anything."""


class Misconfigured(Broken):
    """A setting or the surroundings are wrong; restarting does not help, a person must change something."""
