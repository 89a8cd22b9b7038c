"""The heartbeat of a worker: a small file that says how it is, for the supervisor and ``engram status``.

Rewritten about once a second by the worker's own loop, so a loop that hangs shows as an old file.
"""

import asyncio
import os
import time
from pathlib import Path

import msgspec


class Beat(msgspec.Struct, frozen=True):
    """One heartbeat: ``state`` is starting, ready, waiting or stopping; ``detail`` one sentence; ``at_ms`` since the epoch."""

    pid: int
    role: str
    state: str
    detail: str
    at_ms: int


class Heartbeat:
    """Writes the beat of one role to ``path``; without a path it does nothing."""

    def __init__(self, path: Path | None, role: str) -> None:
        self._path = path
        self._role = role
        self._state = "starting"
        self._detail = ""
        self._beaten_at = time.monotonic()

    @property
    def state(self) -> str:
        """Return the state last set."""
        return self._state

    @property
    def detail(self) -> str:
        """Return the sentence last set."""
        return self._detail

    @property
    def role(self) -> str:
        """Return whose heartbeat it is."""
        return self._role

    def silent_seconds(self) -> float:
        """Return how long ago the loop last beat; may be asked from any thread, so it shows a loop that hangs."""
        return time.monotonic() - self._beaten_at

    def set(self, state: str, detail: str = "") -> None:
        """Change the state and write it at once."""
        if (state, detail) != (self._state, self._detail):
            self._state, self._detail = state, detail
            self.write()

    def write(self) -> None:
        """Write the beat; the file is replaced whole, so a reader never sees half of it."""
        if self._path is None:
            return
        beat = Beat(os.getpid(), self._role, self._state, self._detail, time.time_ns() // 1_000_000)
        draft = self._path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_bytes(msgspec.json.encode(beat))
        draft.replace(self._path)

    async def run(self, *, every_seconds: float = 1.0) -> None:
        """Write the beat until cancelled."""
        while True:
            self._beaten_at = time.monotonic()
            self.write()
            await asyncio.sleep(every_seconds)
