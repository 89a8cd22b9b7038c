"""What every door to a memory store promises: one suite, run on the fake and on the real servers."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from fakes import FakeDoor
from projector_samples import DIMENSION, REVISION, belongs, follows, memory_id, relation, update

from projectors.door import Door
from projectors.entries import Entry, Generation, Store
from projectors.projection import milvus_row, neo4j_node
from schemas.memories import MemoryUpdated

Kind = tuple[Store, str]
REAL = [pytest.mark.stack]


def generation(store: Store, number: int = 1) -> Generation:
    return Generation(store, number, "live", REVISION, DIMENSION)


@pytest.fixture(
    params=[
        pytest.param(("milvus", "fake"), id="milvus-fake"),
        pytest.param(("neo4j", "fake"), id="neo4j-fake"),
        pytest.param(("milvus", "real"), id="milvus-real", marks=REAL),
        pytest.param(("neo4j", "real"), id="neo4j-real", marks=REAL),
    ]
)
async def door(request: pytest.FixtureRequest) -> AsyncIterator[Door[Any]]:
    store, kind = request.param
    if kind == "fake":
        yield FakeDoor(store)
        return
    from projectors.doors import open_door

    opened = open_door(request.getfixturevalue("settings"), store)
    yield opened
    for number in (1, 2):
        await opened.drop(generation(store, number))
    await opened.close()


def item(door: Door[Any], snapshot: MemoryUpdated) -> Any:
    return milvus_row(snapshot, REVISION, DIMENSION) if door.store == "milvus" else neo4j_node(snapshot)


async def write(door: Door[Any], snapshots: Sequence[MemoryUpdated], number: int = 1, *, forced: bool = False) -> None:
    await door.write(generation(door.store, number), [item(door, one) for one in snapshots], forced=forced)


async def entries(door: Door[Any], number: int = 1, page: int = 16_000) -> list[Entry]:
    return [entry async for entry in door.fingerprints(generation(door.store, number), page=page)]


async def test_a_prepared_generation_is_empty(door: Door[Any]) -> None:
    await door.healthy()
    await door.prepare(generation(door.store))
    await door.prepare(generation(door.store))
    assert await door.count(generation(door.store)) == 0
    assert await entries(door) == []
    assert await door.guard_read(generation(door.store), [(memory_id(1),)]) == {}
    assert await door.fingerprints_of(generation(door.store), []) == {}


async def test_what_was_written_is_read_back(door: Door[Any]) -> None:
    await door.prepare(generation(door.store))
    snapshot = update(1, version=3)
    await write(door, [snapshot])
    found = await door.guard_read(generation(door.store), [(memory_id(1),), (memory_id(2),)])
    assert list(found) == [(memory_id(1),)]
    entry = found[memory_id(1),]
    assert (entry.fingerprint.version, entry.fingerprint.content_hash) == (3, snapshot.content_hash)
    assert (entry.tenant_id, entry.user_id, entry.content) == ("t1", "u1", True)


async def test_entries_come_in_key_order_over_page_borders(door: Door[Any]) -> None:
    await door.prepare(generation(door.store))
    snapshots = [update(number, edges=[belongs("user:u1"), follows(number + 1)]) for number in range(10)]
    await write(door, snapshots[:6])
    await write(door, snapshots[6:])
    found = await entries(door, page=3)
    assert [entry.key for entry in found] == sorted((one.memory_id,) for one in snapshots)
    assert {entry.key[0]: entry.fingerprint.content_hash for entry in found} == {
        one.memory_id: one.content_hash for one in snapshots
    }
    assert found == await entries(door)
    assert await door.fingerprints_of(generation(door.store), [entry.key for entry in found]) == {
        entry.key: entry for entry in found
    }
    assert await door.count(generation(door.store)) == 10


async def test_a_newer_version_replaces_the_older(door: Door[Any]) -> None:
    await door.prepare(generation(door.store))
    await write(door, [update(1, edges=[belongs("user:u1")])])
    await write(door, [update(1, version=2, edges=[belongs("person:wang"), follows(2)])])
    (found,) = [entry for entry in await entries(door) if entry.key == (memory_id(1),)]
    assert found.fingerprint.version == 2
    assert await door.count(generation(door.store)) == 1


@pytest.mark.parametrize("status", ["deleted", "erased"])
async def test_a_tombstone_has_a_version_and_no_content(door: Door[Any], status: str) -> None:
    await door.prepare(generation(door.store))
    await write(door, [update(1, edges=[belongs("user:u1")], relations=[relation("user:u1", "likes", "food:茶")])])
    await write(door, [update(1, version=2, status=status)])
    (found,) = await entries(door)
    assert not found.content
    assert (found.fingerprint.version, found.fingerprint.digest) == (2, "")
    assert found == (await door.fingerprints_of(generation(door.store), [found.key], deep=True))[found.key]


async def test_a_forced_write_may_lower_the_version(door: Door[Any]) -> None:
    await door.prepare(generation(door.store))
    await write(door, [update(1, version=9)])
    await write(door, [update(1, version=2)], forced=True)
    (found,) = await entries(door)
    assert found.fingerprint.version == 2


async def test_writing_twice_changes_nothing(door: Door[Any]) -> None:
    await door.prepare(generation(door.store))
    snapshots = [update(1, edges=[follows(2)], relations=[relation("user:u1", "likes", "food:tea")]), update(2)]
    await write(door, snapshots)
    before = await entries(door)
    await write(door, snapshots)
    assert await entries(door) == before
    await write(door, snapshots, forced=True)
    assert await entries(door) == before


async def test_generations_do_not_see_each_other(door: Door[Any]) -> None:
    await door.prepare(generation(door.store, 1))
    await door.prepare(generation(door.store, 2))
    await write(door, [update(1), update(2)], 1)
    await write(door, [update(2, version=5)], 2)
    assert [entry.fingerprint.version for entry in await entries(door, 2)] == [5]
    await door.drop(generation(door.store, 1))
    await door.drop(generation(door.store, 1))
    assert [entry.fingerprint.version for entry in await entries(door, 2)] == [5]
    await door.prepare(generation(door.store, 1))
    assert await door.count(generation(door.store, 1)) == 0


async def test_an_empty_batch_writes_nothing(door: Door[Any]) -> None:
    await door.prepare(generation(door.store))
    await write(door, [])
    await door.flush(generation(door.store))
    assert await door.count(generation(door.store)) == 0
