"""The groups of the write path, on one set of nine workers: latency first, while everything is idle, then write, then memory.

Called by the entry.
"""

import os
import time
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path

from bench import latency, write
from bench.figures import Group
from bench.ground import Ground
from bench.load import gateway, remembered, send_all, watching
from bench.texts import BenchTurn, turns
from infra.workers import ROLES
from schemas.settings import Settings

GROUPS = ("latency", "write", "memory")
# The servers compile what they do often only after doing it some thousand times; a system that runs has done so.
WARM_TURNS = 600
LATENCY_SECONDS = 30


async def run(ground: Ground, chosen: Collection[str], wanted: int, data: Path | None) -> AsyncIterator[Group]:
    """Yield the chosen groups, each as soon as it is measured; ``wanted`` turns make the load of ``write``."""
    steady = min(LATENCY_SECONDS * latency.TURNS_PER_SECOND, wanted)
    made = turns(WARM_TURNS + steady + wanted, data, time.time_ns() // 1_000_000)
    async with ground.area() as settings, ground.workers(settings, ROLES):
        ground.shown.doing("the workers take their first turns")
        await _warm_up(settings, made[:WARM_TURNS])
        if "latency" in chosen:
            yield await latency.measure(ground, settings, made[WARM_TURNS : WARM_TURNS + steady], os.getloadavg()[0])
        load = made[WARM_TURNS + steady :]
        if "write" in chosen:
            yield await write.measure(ground, settings, load, os.getloadavg()[0])
        elif "memory" in chosen:
            await _warm_up(settings, load)
        if "memory" in chosen:
            yield write.memory(ground, os.getloadavg()[0])


async def _warm_up(settings: Settings, some: Sequence[BenchTurn]) -> None:
    async with watching(settings) as watch, gateway(settings) as producer:
        await remembered(watch, await send_all(producer, some, f"warm-{len(some)}"))
