"""How long an acknowledgement is waited for: shown as waiting soon, and the end of the process after a long silence.

Called by whoever sends through an idempotent producer (the stages, the relay): such a producer tries for ever and cannot be
called back, so a second producer beside it could publish something older after something newer. It never sends anything.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from schemas.errors import Broken

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """After ``quick_seconds`` it is shown that somebody waits; after ``longest_seconds`` in all the process must end."""

    quick_seconds: float = 1.0
    longest_seconds: float = 30.0


PATIENCE = Patience()


async def acknowledged(
    sending: Coroutine[Any, Any, T], show: Callable[[str, str], None], patience: Patience = PATIENCE
) -> T:
    """Return what ``sending`` returns, or raise what it raises; ``show`` is given the state and its reason.

    Raises ``Broken`` after ``patience``: the caller's process must end before anybody sends the same again.
    """
    task = asyncio.ensure_future(sending)
    try:
        done, _ = await asyncio.wait((task,), timeout=patience.quick_seconds)
        if not done:
            show("waiting", "Kafka has not acknowledged a record yet")
            await asyncio.wait((task,), timeout=patience.longest_seconds - patience.quick_seconds)
    finally:
        if not task.done():
            task.cancel()
    if task.cancelling() or task.cancelled():
        raise Broken(f"Kafka did not acknowledge a record within {patience.longest_seconds:g} s")
    return task.result()
