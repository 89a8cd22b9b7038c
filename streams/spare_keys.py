"""New data keys in hand: what a proposal might need is made before its transaction, the rest serves the user's next one.

Called by ``remember``. Keys are dropped after the time that a key may be cached, so that an erased user's keys are not used again.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping

from schemas.sealing import DataKey
from streams.key_store import KeyStore, UserName

_USERS = 1_000


class SpareKeys:
    """Keeps unused keys of the users seen last, each for ``seconds``."""

    def __init__(self, keys: KeyStore, seconds: float) -> None:
        self._keys = keys
        self._seconds = seconds
        self._kept: OrderedDict[UserName, tuple[float, tuple[DataKey, ...]]] = OrderedDict()

    async def fill(self, counts: Mapping[UserName, int]) -> None:
        """Have at least so many keys of each user (tenant, user) in hand; raises ``Retryable``."""
        short = {user: count for user, count in counts.items() if len(self._fresh(user)) < count}
        for user, made in (await self._keys.mint_for(short)).items():
            self._keep(user, time.monotonic(), made)

    async def take(self, user: UserName, count: int) -> tuple[DataKey, ...]:
        """Return ``count`` keys that nobody else has; waits only when there are not enough in hand."""
        if count == 0:
            return ()
        kept = self._fresh(user)
        if len(kept) < count:
            return await self._keys.mint(*user, count)
        self._keep(user, self._kept[user][0], kept[count:])
        return kept[:count]

    def _fresh(self, user: UserName) -> tuple[DataKey, ...]:
        made_at, kept = self._kept.get(user, (0.0, ()))
        return kept if time.monotonic() < made_at + self._seconds else ()

    def _keep(self, user: UserName, made_at: float, kept: tuple[DataKey, ...]) -> None:
        self._kept[user] = (made_at, kept)
        self._kept.move_to_end(user)
        while len(self._kept) > _USERS:
            self._kept.popitem(last=False)
