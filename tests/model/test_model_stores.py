"""The store in memory and the real one, side by side: after each batch of a drawn life they show the same entries.

Their promises stand in the suites of ``tests/projectors``; here the real projector writes the same records to both.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from model_inputs import relation
from model_system import DIMENSION, REVISION, SETTINGS, System, mapping_of
from store_in_memory import Projecting
from truth_world import asked, candidate, said, vector

from projectors.door import Door
from projectors.doors import open_door
from projectors.entries import STORES, Entry, Generation, Store
from schemas.settings import Settings

pytestmark = pytest.mark.stack


@pytest.fixture(params=STORES)
async def door(request: pytest.FixtureRequest, settings: Settings) -> AsyncIterator[Door[Any]]:
    opened = open_door(settings, request.param)
    yield opened
    for number in (1, 2):
        await opened.drop(generation(opened.store, number))
    await opened.close()


def generation(store: Store, number: int) -> Generation:
    return Generation(store, number, "live", *((REVISION, DIMENSION) if store == "milvus" else ("", 0)))


class Both:
    """A projector of the real store and one of the store in memory, which read the same log in the same batches."""

    def __init__(self, system: System, door: Door[Any], number: int) -> None:
        self._door, self._memory = door, system.stores[door.store]
        self.generation = generation(door.store, number)
        self._both = [
            Projecting(SETTINGS, mapping_of(door.store, system.keys), one, self.generation, system.log)
            for one in (door, self._memory)
        ]

    async def prepare(self) -> None:
        await self._door.prepare(self.generation)
        await self._memory.prepare(self.generation)

    async def step(self, limit: int, fault: str = "") -> None:
        for one in self._both:
            await one.step(limit, fault)

    async def wake(self) -> None:
        for one in self._both:
            await one.wake()

    async def same(self) -> list[Entry]:
        """Return what both show; fails when they differ."""
        real = [entry async for entry in self._door.fingerprints(self.generation, deep=True, page=3)]
        memory = [entry async for entry in self._memory.fingerprints(self.generation, deep=True)]
        assert real == memory
        assert await self._door.count(self.generation) == len(memory)
        return real


def life(system: System) -> None:
    """Say enough that memories are made, confirmed, superseded, linked, forgotten, restored."""
    first, second = vector(1, 0, 0, 0, revision=REVISION), vector(0.9, 0.1, 0, 0, revision=REVISION)
    for number, value in enumerate(('"深圳"', '"Berlin"', '"深圳"', '"北京"'), start=1):
        fact = candidate("city", value, vectors=(first,), relations=(relation(value),))
        taste = candidate("likes", f'"茶 {number}"', vectors=(second,), tags=("家",), causes=(0,))
        system.say(said(number, fact, taste))
        system.say(said(number, taste, tenant_id="globex", user_id="bob"))
        system.happen(("acme", "alice"), "s1", f"你好 {number}")


async def test_the_real_store_shows_what_the_one_in_memory_shows(door: Door[Any]) -> None:
    system = System(asyncio.get_running_loop())
    one, two = Both(system, door, 1), Both(system, door, 2)
    await one.prepare()
    await two.prepare()
    life(system)
    await system.arrive()
    for _ in range(3):
        await one.step(2)
        await one.same()
    await one.step(2, "before_commit")
    await one.step(2, "moved_away")
    names = sorted(name[2] for name in system.pool.tables.memories if name[0] == "acme")
    system.propose(asked(9, "forget", *names[:3]))
    system.propose(asked(10, "restore", names[1]))
    await system.arrive()
    while not all(both.group.caught_up for both in one._both):
        await one.step(3)
    await one.wake()
    shown = await one.same()
    assert len(shown) == (4 if door.store == "influx" else len(system.pool.tables.memories))
    assert door.store == "influx" or sum(not entry.content for entry in shown) >= 2
    while not all(both.group.caught_up for both in two._both):
        await two.step(100)
    assert await two.same() == shown
    await door.drop(one.generation)
    await door.prepare(one.generation)
    assert await door.count(one.generation) == 0
    assert await two.same() == shown
