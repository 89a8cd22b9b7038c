"""Consumer groups from outside: whether somebody is in one, and which there are. Called by operators' commands."""

import asyncio
from contextlib import suppress

from schemas.errors import Retryable
from schemas.settings import Settings
from streams.kafka import admin, coordinated, raise_for_code, translated


async def members(settings: Settings, group: str) -> int:
    """Return how many processes are in ``group``; raises ``Retryable`` when Kafka is away."""

    async def ask() -> int:
        try:
            (answer,) = await client.describe_consumer_groups([group])
        except ValueError:
            # The client cannot read what some kinds of members say of themselves; without members there is nothing to read.
            return 1
        ((error_code, _, _, _, _, found, *_),) = answer.groups
        raise_for_code(error_code)
        return len(found)

    async with admin(settings) as client, translated("asking who is in a group"):
        return await coordinated(ask)


async def group_names(settings: Settings, prefix: str) -> list[str]:
    """Return the groups whose names begin with ``prefix``, in the order of names."""
    async with admin(settings) as client, translated("asking for groups"):
        return sorted(name for name, *_ in await coordinated(client.list_consumer_groups) if name.startswith(prefix))


async def nobody_in(settings: Settings, *groups: str, seconds: float) -> None:
    """Return when nobody is in any of ``groups``; a process that was killed is a member until its session ends.

    Raises ``Retryable`` after ``seconds``.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                busy = [group for group in groups if await members(settings, group)]
                if not busy:
                    return
                await asyncio.sleep(0.5)
    raise Retryable(f"workers are still running (group {groups[0]} or one beside it): stop them first")
