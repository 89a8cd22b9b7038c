"""The loop on a real broker: nothing is lost, nothing stops it, and it waits for a store that is away."""

import asyncio
import time

import pytest
from fakes import FakeDoor
from projector_kit import Told, all_entries, projected, projecting, publish, until
from projector_samples import DIMENSION, REVISION, belongs, event, memory_id, update, vector

from projectors.entries import Generation
from projectors.projection import GraphNode, InfluxPoint, MilvusRow, milvus_row
from schemas.errors import Retryable
from schemas.memories import Repair
from schemas.settings import Settings

pytestmark = pytest.mark.stack
GENERATION = Generation("milvus", 1, "live", REVISION, DIMENSION)


def versions(entries: object) -> dict[str, int]:
    return {str(entry.key[0]): entry.fingerprint.version for entry in entries}  # type: ignore[attr-defined]


@pytest.fixture
def door() -> FakeDoor[MilvusRow]:
    return FakeDoor[MilvusRow]("milvus")


async def test_everything_arrives_once_and_is_committed(topics: Settings, door: FakeDoor[MilvusRow]) -> None:
    snapshots = [update(number, user_id=f"u{number % 7}") for number in range(300)]
    await publish(topics, snapshots)
    async with projecting(topics, door, GENERATION, Told()) as projector:
        await projected(topics, GENERATION)
        await publish(topics, snapshots[:50])
        await projected(topics, GENERATION)
        assert versions(await all_entries(door, GENERATION)) == {one.memory_id: 1 for one in snapshots}
        assert projector.counts == {"apply": 300, "nothing": 50}
    assert sum(door.writes) == 300


async def test_older_versions_and_deletes_replayed_out_of_order_change_nothing(
    topics: Settings, door: FakeDoor[MilvusRow]
) -> None:
    async with projecting(topics, door, GENERATION, Told()) as projector:
        await publish(topics, [update(1, version=2, status="deleted")])
        await projected(topics, GENERATION)
        await publish(topics, [update(1)])
        await projected(topics, GENERATION)
        (entry,) = await all_entries(door, GENERATION)
        assert (entry.fingerprint.version, entry.content) == (2, False)
        assert projector.counts == {"apply": 1, "older": 1}


async def test_what_cannot_be_read_is_a_dead_letter_and_stops_nothing(
    topics: Settings, door: FakeDoor[MilvusRow]
) -> None:
    told = Told()
    user_id = next(f"u{number}" for number in range(100) if _partition(topics, f"u{number}") == 0)
    odd = update(2, user_id=user_id, vectors=[type(vector(1))(REVISION, b"\0" * 4)])
    await publish(topics, [b"no avro at all"])
    await publish(topics, [odd, update(1, user_id=user_id)])
    async with projecting(topics, door, GENERATION, told):
        await projected(topics, GENERATION)
    assert told.rejected == [(0, "bad_avro"), (1, "bad_vector")]
    assert door.writes == [1]


def _partition(settings: Settings, user_id: str) -> int:
    from schemas.routing import partition_of

    return partition_of("t1", user_id, settings.partitions)


async def test_an_item_that_the_store_refuses_does_not_take_the_batch_with_it(
    topics: Settings, door: FakeDoor[MilvusRow]
) -> None:
    told = Told()
    door.refused = {memory_id(2)}
    await publish(topics, [update(1), update(2), update(3)])
    async with projecting(topics, door, GENERATION, told):
        await projected(topics, GENERATION)
        assert set(versions(await all_entries(door, GENERATION))) == {memory_id(1), memory_id(3)}
    assert [code for _, code in told.rejected] == ["bad_row"]


async def test_a_store_that_is_away_is_waited_for_and_nothing_is_lost(
    topics: Settings, door: FakeDoor[MilvusRow]
) -> None:
    told = Told()
    async with projecting(topics, door, GENERATION, told):
        await publish(topics, [update(1)])
        await projected(topics, GENERATION)
        door.away = True
        await publish(topics, [update(number) for number in range(2, 40)])

        async def waiting() -> bool:
            return told.states[-1][0] == "waiting"

        await until(waiting)
        assert told.states[-1] == ("waiting", "the fake store is away")
        door.away = False
        await projected(topics, GENERATION)
        assert len(await all_entries(door, GENERATION)) == 39
        assert told.states[-1] == ("ready", "")


async def test_a_store_that_is_away_at_the_start_is_waited_for(topics: Settings, door: FakeDoor[MilvusRow]) -> None:
    told = Told()
    door.away = True
    await publish(topics, [update(1)])
    async with projecting(topics, door, GENERATION, told):

        async def waiting() -> bool:
            return bool(told.states)

        await until(waiting)
        assert told.states[0][0] == "waiting"
        door.away = False
        await projected(topics, GENERATION)
        assert len(await all_entries(door, GENERATION)) == 1


async def test_a_conflict_is_told_and_the_store_keeps_what_it_has(topics: Settings, door: FakeDoor[MilvusRow]) -> None:
    told = Told()
    async with projecting(topics, door, GENERATION, told):
        await publish(topics, [update(1)])
        await projected(topics, GENERATION)
        before = await all_entries(door, GENERATION)
        await publish(topics, [update(1, content="something else under the same version")])
        await projected(topics, GENERATION)
        assert await all_entries(door, GENERATION) == before
    assert [(one.aggregate_id, one.version) for one in told.conflicts] == [(memory_id(1), 1)]


async def test_a_repair_overwrites_exactly_what_it_names(topics: Settings, door: FakeDoor[MilvusRow]) -> None:
    truth = update(1, version=3)
    forged = milvus_row(update(1, version=99), REVISION, DIMENSION)
    await door.prepare(GENERATION)
    await door.write(GENERATION, [forged])
    observed = forged.fingerprint
    header = Repair(
        store="milvus",
        generation=1,
        observed_version=observed.version,
        observed_hash=observed.content_hash,
        observed_digest=observed.digest,
    )
    async with projecting(topics, door, GENERATION, Told()) as projector:
        await publish(topics, [truth])
        await publish(topics, [truth], Repair(store="neo4j", generation=1, observed_version=99))
        await publish(topics, [truth], Repair(store="milvus", generation=1, observed_version=98))
        await projected(topics, GENERATION)
        assert projector.counts == {"older": 3}
        await publish(topics, [truth], header)
        await publish(topics, [truth], header)
        await projected(topics, GENERATION)
        assert versions(await all_entries(door, GENERATION)) == {memory_id(1): 3}
        assert projector.counts == {"older": 3, "apply": 1, "nothing": 1}


async def test_a_new_vector_of_the_same_version_is_written(topics: Settings, door: FakeDoor[MilvusRow]) -> None:
    await publish(topics, [update(1)])
    await publish(topics, [update(1, vectors=[vector(7)])])
    async with projecting(topics, door, GENERATION, Told()):
        await projected(topics, GENERATION)
        (entry,) = await all_entries(door, GENERATION)
    assert entry.fingerprint == milvus_row(update(1, vectors=[vector(7)]), REVISION, DIMENSION).fingerprint


async def test_two_projectors_share_the_partitions_and_one_may_go(topics: Settings, door: FakeDoor[MilvusRow]) -> None:
    fast = topics.model_copy(update={"projector_batch_rows": 20})
    async with projecting(fast, door, GENERATION, Told()):
        async with projecting(fast, door, GENERATION, Told()):
            await publish(topics, [update(number, user_id=f"u{number % 9}") for number in range(400)])
            await asyncio.sleep(0)
        await publish(topics, [update(number, user_id=f"u{number % 9}") for number in range(400, 500)])
        await projected(topics, GENERATION)
        assert len(await all_entries(door, GENERATION)) == 500


async def test_a_batch_that_took_too_long_is_not_written_but_comes_again(topics: Settings) -> None:
    class SlowOnce(FakeDoor[MilvusRow]):
        slow = True

        async def guard_read(self, generation, keys):  # type: ignore[no-untyped-def]
            found = await super().guard_read(generation, keys)
            if self.slow:
                self.slow = False
                await asyncio.sleep(3.2)
                assert self.writes == []
            return found

    door = SlowOnce("milvus")
    short = topics.model_copy(update={"session_timeout_seconds": 6.0})
    await publish(topics, [update(number) for number in range(100)])
    async with projecting(short, door, GENERATION, Told()):
        await projected(topics, GENERATION)
        assert len(await all_entries(door, GENERATION)) == 100
    assert sum(door.writes) == 100


async def test_unflushed_rows_are_flushed_when_there_is_time(topics: Settings, door: FakeDoor[MilvusRow]) -> None:
    await publish(topics, [update(number) for number in range(10)])
    async with projecting(topics, door, GENERATION, Told()):

        async def flushed() -> bool:
            return door.flushes == 1

        await until(flushed)
        await projected(topics, GENERATION)


async def test_a_building_generation_flushes_by_its_own_rule(topics: Settings, door: FakeDoor[MilvusRow]) -> None:
    building = Generation("milvus", 2, "building", REVISION, DIMENSION)
    rules = topics.model_copy(update={"rebuild_flush_rows": 40, "rebuild_batch_rows": 20})
    await publish(topics, [update(number) for number in range(100)])
    async with projecting(rules, door, building, Told()):
        await projected(topics, building)
        assert door.flushes == 2


async def test_events_of_sessions_become_points(topics: Settings) -> None:
    door = FakeDoor[InfluxPoint]("influx")
    generation = Generation("influx", 1)
    events = [event(sequence, user_id=f"u{sequence % 3}") for sequence in range(1, 50)]
    async with projecting(topics, door, generation, Told()):
        await publish(topics, events)
        await publish(topics, events[:20])
        await projected(topics, generation)
        assert len(await all_entries(door, generation)) == 49


async def test_the_graph_follows_the_same_topic(topics: Settings) -> None:
    from projectors.neo4j import Neo4jDoor

    door = Neo4jDoor(topics)
    generation = Generation("neo4j", 1)
    try:
        async with projecting(topics, door, generation, Told()):
            await publish(topics, [update(number, edges=[belongs("user:u1")]) for number in range(30)])
            await projected(topics, generation)
            assert len(await all_entries(door, generation)) == 30
    finally:
        await door.drop(generation)
        await door.close()


async def test_a_store_that_compares_versions_itself_gives_the_same_verdicts(topics: Settings) -> None:
    door, told = FakeDoor[GraphNode]("neo4j"), Told()
    graph = Generation("neo4j", 1)
    other = update(1, version=2, content="something else")
    await publish(topics, [update(1, version=2), update(2, version=5)])
    async with projecting(topics, door, graph, told) as projector:
        await projected(topics, graph)
        await publish(topics, [update(1, version=1), update(2, version=5), other, update(3), update(3, version=2)])
        await projected(topics, graph)
        assert projector.counts == {"apply": 4, "older": 1, "nothing": 1, "conflict": 1}
        found = {entry.key[0]: entry.fingerprint.version for entry in await all_entries(door, graph)}
    assert found == {memory_id(1): 2, memory_id(2): 5, memory_id(3): 2}
    assert [conflict.stored_version for conflict in told.conflicts] == [2]


async def test_a_trickle_is_gathered_and_a_lone_record_is_not_kept_waiting(
    topics: Settings, door: FakeDoor[MilvusRow]
) -> None:
    slow = topics.model_copy(update={"projector_linger_ms": 1_500})
    async with projecting(slow, door, GENERATION, Told()):
        await publish(topics, [update(0)])

        async def shown() -> bool:
            return bool(door.writes)

        await until(shown)
        began = time.monotonic()
        for number in range(1, 11):
            await publish(topics, [update(number)])
        spent = time.monotonic() - began
        await projected(topics, GENERATION)
        assert sum(door.writes) == 11
        assert len(door.writes) <= 3 + spent // 1.5


async def test_a_batch_read_ahead_of_a_failed_write_is_not_lost(topics: Settings) -> None:
    class FailsOnce(FakeDoor[MilvusRow]):
        failed = False

        async def write(self, generation, items, *, forced=False):  # type: ignore[no-untyped-def]
            await asyncio.sleep(0.3)
            if not self.failed:
                self.failed = True
                raise Retryable("the write failed")
            return await super().write(generation, items, forced=forced)

    door = FailsOnce("milvus")
    small = topics.model_copy(update={"projector_batch_rows": 20})
    await publish(topics, [update(number) for number in range(100)])
    async with projecting(small, door, GENERATION, Told()):
        await projected(topics, GENERATION)
    assert door.failed
    assert sum(door.writes) == len(await all_entries(door, GENERATION)) == 100
