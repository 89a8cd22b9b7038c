"""Data keys in advance: producing a turn takes one from here and seldom waits for the key store.

Called by the producer. A busy user's next keys are fetched while the last ones are used; a quiet user gets one at a time, so
that few are made for nothing. A key that was taken is never given twice, and one that waited for longer than keys may be
cached is thrown away: its user may have been erased meanwhile, and a turn sealed with it would be lost.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from schemas.errors import EngramError
from schemas.sealing import DataKey

_USERS = 10_000


class Minting(Protocol):
    """Where new data keys come from."""

    async def mint(self, tenant_id: str, user_id: str, count: int) -> Sequence[DataKey]:
        """Return ``count`` new keys of a user, stored before they are returned; raises ``Retryable``."""
        ...


@dataclass(slots=True)
class _Stock:
    ready: deque[tuple[float, DataKey]] = field(default_factory=deque)
    next_count: int = 1
    refill: asyncio.Task[None] | None = None


class KeyPool:
    """Keeps up to ``per_user`` unused keys, each for ``seconds``, for each of the users seen last."""

    def __init__(self, keys: Minting, per_user: int, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._per_user = per_user
        self._seconds = seconds
        self._now = now
        self._stocks: OrderedDict[tuple[str, str], _Stock] = OrderedDict()

    async def take(self, tenant_id: str, user_id: str) -> DataKey:
        """Return a key that nobody else has; waits only when none is in stock. Raises ``Retryable``."""
        user = (tenant_id, user_id)
        stock = self._stocks.setdefault(user, _Stock())
        self._stocks.move_to_end(user)
        self._throw_away_old(stock)
        while not stock.ready:
            await asyncio.shield(stock.refill or self._begin_refill(user, stock))
        _, key = stock.ready.popleft()
        if stock.refill is None and stock.next_count > 2 and len(stock.ready) <= self._per_user // 2:
            self._begin_refill(user, stock)
        while len(self._stocks) > _USERS:
            self._stocks.popitem(last=False)
        return key

    def _throw_away_old(self, stock: _Stock) -> None:
        while stock.ready and stock.ready[0][0] <= self._now():
            stock.ready.popleft()
            stock.next_count = 1

    def _begin_refill(self, user: tuple[str, str], stock: _Stock) -> asyncio.Task[None]:
        stock.refill = asyncio.ensure_future(self._refill(user, stock))
        # A refill that fails in the background is tried again by the next one who finds the stock empty.
        stock.refill.add_done_callback(lambda task: task.cancelled() or task.exception())
        return stock.refill

    async def _refill(self, user: tuple[str, str], stock: _Stock) -> None:
        try:
            until = self._now() + self._seconds
            made = await self._keys.mint(*user, stock.next_count)
            stock.ready.extend((until, key) for key in made)
            stock.next_count = min(stock.next_count * 2, self._per_user)
        finally:
            stock.refill = None

    async def close(self) -> None:
        """End the refills under way; unused keys are left in the key store, where they open nothing."""
        tasks = [stock.refill for stock in self._stocks.values() if stock.refill is not None]
        self._stocks.clear()
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError | EngramError):
                raise result
