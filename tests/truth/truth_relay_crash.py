"""A relay in a process of its own, so that a crash point can kill it."""

import asyncio

from truth_bench import CODEC

from schemas.settings import load_settings
from streams.crash import crash_points
from streams.relay import Relay


async def main() -> None:
    settings = load_settings()
    await Relay(settings, CODEC, crash=crash_points(settings)).run(asyncio.Event())


asyncio.run(main())
