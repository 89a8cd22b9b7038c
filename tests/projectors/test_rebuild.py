"""Rebuild on the real servers: equal entries, no gap for readers, resumed after a kill."""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from projector_kit import (
    Told,
    all_entries,
    known_generations,
    now_ms,
    projected,
    publish,
    until,
    working,
)
from projector_samples import belongs, event, follows, memory_id, relation, update

from projectors import rebuild as module
from projectors.door import Door
from projectors.doors import open_door
from projectors.entries import STORES, Generation, Store
from projectors.generations import ROLE, live_generation, switch
from projectors.rebuild import Outcome, Progress, Rebuild
from schemas.errors import Rejected, Retryable
from schemas.settings import Settings
from streams.crash import CrashPoints
from streams.postgres import connect

pytestmark = pytest.mark.stack


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest) -> Store:
    found: Store = request.param
    return found


@pytest.fixture
def quick(topics: Settings) -> Settings:
    return topics.model_copy(update={"drain_seconds": 0.5})


def records(store: Store) -> list[Any]:
    if store == "influx":
        return [event(sequence, user_id=f"u{sequence % 5}") for sequence in range(1, 121)]
    found = [
        update(
            number,
            user_id=f"u{number % 5}",
            edges=[belongs("user:me"), follows(number + 5)],
            relations=[relation("user:me", "likes", f"food:{number}")],
        )
        for number in range(100)
    ]
    found += [update(number, version=2, user_id=f"u{number % 5}", status="deleted") for number in range(0, 40, 5)]
    return [*found, update(3, user_id="u3")]


async def same(_store: Store, _generation: Generation) -> int:
    return 0


@asynccontextmanager
async def run_of(
    settings: Settings,
    door: Door[Any],
    compare: module.Compare = same,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Any:
    connection = await connect(settings, ROLE, autocommit=True)
    try:
        yield Rebuild(settings, connection, door, compare, CrashPoints(), progress, now_ms)
    finally:
        await connection.close()


async def live(settings: Settings, store: Store) -> Generation:
    connection = await connect(settings, ROLE, autocommit=True)
    try:
        return await live_generation(connection, store)
    finally:
        await connection.close()


async def live_exists(settings: Settings, store: Store) -> None:
    async def found() -> bool:
        try:
            await live(settings, store)
        except Rejected:
            return False
        return True

    await until(found)


async def cleaned(settings: Settings, door: Door[Any]) -> None:
    for number in await known_generations(settings, door):
        current = await live(settings, door.store)
        await door.drop(Generation(door.store, number, "", current.revision, current.dimension))
    await door.close()


async def test_a_rebuilt_store_equals_the_live_one_twice_and_readers_see_no_gap(quick: Settings, store: Store) -> None:
    door = open_door(quick, store)
    steps: list[Progress] = []
    seen: list[int] = []
    stop = asyncio.Event()

    async def read_all_the_while() -> None:
        while not stop.is_set():
            seen.append(await door.count(await live(quick, store)))
            await asyncio.sleep(0.05)

    try:
        async with working(quick, door, Told()) as process:
            await live_exists(quick, store)
            await publish(quick, records(store))
            first = await live(quick, store)
            await projected(quick, first)
            before = await all_entries(door, first)
            assert len(before) >= 100
            assert process.counts[1].total() >= process.counts[1]["apply"] >= 100
            reader = asyncio.create_task(read_all_the_while())
            for number in (2, 3):
                async with run_of(quick, door, progress=steps.append) as run:
                    outcome = await run.run()
                assert (outcome.switched, outcome.generation, outcome.differences) == (True, number, 0)
                assert await all_entries(door, await live(quick, store)) == before
            stop.set()
            await reader
            assert set(seen) == {len(before)}
            assert await known_generations(quick, door) == {1: "dropped", 2: "dropped", 3: "live"}
            assert {one.step for one in steps} == {"projecting", "comparing", "draining", "dropping"}
            # What was dropped is gone, and the new generation goes on following the log.
            await _assert_gone(door, first)
            more = event(500) if store == "influx" else update(500)
            await publish(quick, [more])
            await projected(quick, await live(quick, store))
            assert len(await all_entries(door, await live(quick, store))) == len(before) + 1
    finally:
        await cleaned(quick, door)


async def _assert_gone(door: Door[Any], generation: Generation) -> None:
    if door.store == "neo4j":
        assert await door.count(generation) == 0
    else:
        with pytest.raises(Retryable, match=r"not there|no such database"):
            await door.count(generation)


async def test_with_differences_nothing_is_switched_and_the_next_run_goes_on(quick: Settings) -> None:
    door = open_door(quick, "influx")

    async def different(_store: Store, _generation: Generation) -> int:
        return 3

    try:
        async with working(quick, door, Told()):
            await live_exists(quick, "influx")
            await publish(quick, records("influx"))
            async with run_of(quick, door, different) as run:
                outcome: Outcome = await run.run()
            assert (outcome.switched, outcome.differences) == (False, 3)
            assert await known_generations(quick, door) == {1: "live", 2: "building"}
            async with run_of(quick, door) as run:
                assert (await run.run()).generation == 2
            assert await known_generations(quick, door) == {1: "dropped", 2: "live"}
    finally:
        await cleaned(quick, door)


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("step", ["projecting", "comparing", "draining", "dropping"])
async def test_a_run_that_ends_half_way_is_resumed(quick: Settings, step: str) -> None:
    door = open_door(quick, "neo4j")

    def kill(progress: Progress) -> None:
        if progress.step == step:
            raise Killed

    try:
        async with working(quick, door, Told()):
            await live_exists(quick, "neo4j")
            await publish(quick, records("neo4j"))
            first = await live(quick, "neo4j")
            await projected(quick, first)
            before = await all_entries(door, first)
            with pytest.raises(Killed):
                async with run_of(quick, door, progress=kill) as run:
                    await run.run()
            switched = step in ("draining", "dropping")
            assert (await live(quick, "neo4j")).number == (2 if switched else 1)
            assert await all_entries(door, await live(quick, "neo4j")) == before
            async with run_of(quick, door) as run:
                outcome = await run.run()
            assert outcome.generation == (3 if switched else 2)
            assert await all_entries(door, await live(quick, "neo4j")) == before
            for number, state in (await known_generations(quick, door)).items():
                if state == "dropped":
                    assert await door.count(Generation("neo4j", number)) == 0
    finally:
        await cleaned(quick, door)


async def test_workers_that_start_at_once_make_one_generation(quick: Settings) -> None:
    door = open_door(quick, "influx")
    try:
        async with working(quick, door, Told()), working(quick, door, Told()):
            await live_exists(quick, "influx")
            assert await known_generations(quick, door) == {1: "live"}
    finally:
        await cleaned(quick, door)


async def test_only_one_switch_wins(quick: Settings) -> None:
    door = open_door(quick, "influx")
    try:
        async with working(quick, door, Told()):
            await live_exists(quick, "influx")
        async with run_of(quick, door) as run:
            building = await module.begin_building(run.connection, "influx", module.Detail(), now_ms())
            again = await module.begin_building(run.connection, "influx", module.Detail(), now_ms())
            assert building == again
            others = [await connect(quick, ROLE, autocommit=True) for _ in range(4)]
            won = await asyncio.gather(*(switch(other, building, now_ms()) for other in others))
            for other in others:
                await other.close()
            assert sorted(won) == [False, False, False, True]
            assert await known_generations(quick, door) == {1: "draining", 2: "live"}
    finally:
        await cleaned(quick, door)


async def test_without_a_worker_a_rebuild_says_so(quick: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    door = open_door(quick, "influx")
    try:
        async with run_of(quick, door) as run:
            with pytest.raises(Rejected):
                await run.run()
        async with working(quick, door, Told()):
            await live_exists(quick, "influx")
            await publish(quick, records("influx"))
        monkeypatch.setattr(module, "STALL_SECONDS", 1.0)
        async with run_of(quick, door) as run:
            with pytest.raises(Retryable, match="worker"):
                await run.run()
    finally:
        await cleaned(quick, door)


async def test_a_conflict_is_kept_in_postgres(quick: Settings) -> None:
    door = open_door(quick, "neo4j")
    try:
        async with working(quick, door, Told()):
            await live_exists(quick, "neo4j")
            await publish(quick, [update(1)])
            await projected(quick, Generation("neo4j", 1))
            for _ in range(2):
                await publish(quick, [update(1, content="other")])
            await projected(quick, Generation("neo4j", 1))
        connection = await connect(quick, ROLE, autocommit=True)
        rows = await (
            await connection.execute("SELECT aggregate_id, version, times FROM projection_conflicts")
        ).fetchall()
        await connection.close()
        assert rows == [(memory_id(1), 1, 2)]
    finally:
        await cleaned(quick, door)
