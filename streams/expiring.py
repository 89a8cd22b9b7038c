"""A small cache whose entries live a fixed time and whose size is bounded.

Called by the key store. It never refreshes an entry by reading it: what was put in is forgotten on time.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Expiring(Generic[K, V]):
    """Maps keys to values for ``seconds`` after they were put; beyond ``limit`` entries the oldest go first."""

    def __init__(self, seconds: float, limit: int, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._limit = limit
        self._now = now
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value of ``key`` while it lives, else ``None``."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= self._now():
            del self._entries[key]
            return None
        return entry[1]

    def put(self, key: K, value: V) -> None:
        """Keep ``value`` from now on."""
        self._entries.pop(key, None)
        self._entries[key] = (self._now() + self._seconds, value)
        while len(self._entries) > self._limit:
            self._entries.popitem(last=False)

    def drop(self, key: K) -> None:
        """Forget ``key``."""
        self._entries.pop(key, None)

    def drop_where(self, chosen: Callable[[K], bool]) -> None:
        """Forget every key that ``chosen`` names."""
        for key in [key for key in self._entries if chosen(key)]:
            del self._entries[key]

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
