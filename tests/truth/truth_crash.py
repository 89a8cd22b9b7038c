"""A process of its own that remembers one proposal, so that a crash point can kill it."""

import asyncio
import sys

from truth_bench import CLUSTER, CODEC
from truth_world import POLICY

from schemas.inputs import Origin
from schemas.settings import load_settings
from streams.crash import crash_points
from streams.remember import Remember
from streams.stage import Input


async def main() -> None:
    settings = load_settings()
    remember = await Remember.open(settings, CODEC, POLICY, topic_identity=CLUSTER, crash=crash_points(settings))
    await remember.handle([Input(bytes.fromhex(sys.argv[1]), Origin(0, 0))])


asyncio.run(main())
