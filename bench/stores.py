"""The groups of the derived stores, in the order in which each leaves what the next one needs.

Called by the entry: seed, relay, projectors, rebuild, reconcile. What a chosen group needs is done even if the group that
measures it was not chosen.
"""

import os
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack

from bench import projectors, rebuild, reconcile, relay
from bench.figures import Group
from bench.ground import Ground, administrator
from bench.seed import memories_of, seed_events, seed_memories
from projectors.entries import STORES
from schemas.settings import Settings
from streams.key_store import KeyStore

GROUPS = ("relay", "projectors", "rebuild", "reconcile")


async def run(ground: Ground, chosen: Collection[str], rows: int) -> AsyncIterator[Group]:
    """Yield the chosen groups, each as soon as it is measured; ``rows`` memories and as many events are used."""
    async with ground.area() as settings:
        await _seed(ground, settings, rows)
        if "relay" in chosen:
            yield await relay.measure(settings, rows, ground.shown, os.getloadavg()[0])
        else:
            await relay.publish(settings, rows, ground.shown, "publishing memories")
        await _seed_events(ground, settings, rows)
        await relay.publish(settings, rows, ground.shown, "publishing events")
        if "projectors" in chosen:
            yield await projectors.measure(settings, rows, ground.shown, os.getloadavg()[0])
        elif not {"rebuild", "reconcile"}.isdisjoint(chosen):
            async with ground.workers(settings, STORES):
                for store in STORES:
                    ground.shown.doing(f"{store}: projecting")
                    await rebuild.caught_up(settings, store, rows)
        if "rebuild" in chosen:
            yield await rebuild.measure(ground, settings, rows, os.getloadavg()[0])
        if "reconcile" in chosen:
            yield await reconcile.measure(settings, rows, ground.shown, os.getloadavg()[0])


async def _seed(ground: Ground, settings: Settings, rows: int) -> None:
    shown = ground.shown
    shown.doing(f"making {rows:,} memories")
    seeded = memories_of(rows, settings.hash_key_bytes())
    async with AsyncExitStack() as resources:
        keys = await KeyStore.open(settings)
        resources.push_async_callback(keys.close)
        connection = await administrator(settings)
        resources.push_async_callback(connection.close)
        await seed_memories(
            connection, keys, settings, seeded, lambda done: shown.doing("writing memories", done, rows)
        )


async def _seed_events(ground: Ground, settings: Settings, rows: int) -> None:
    shown = ground.shown
    async with AsyncExitStack() as resources:
        keys = await KeyStore.open(settings)
        resources.push_async_callback(keys.close)
        connection = await administrator(settings)
        resources.push_async_callback(connection.close)
        await seed_events(connection, keys, settings, rows, lambda done: shown.doing("writing events", done, rows))
