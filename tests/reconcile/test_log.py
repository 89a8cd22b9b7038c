"""The log itself is audited: the newest record of every memory in ``memory.updated`` equals Postgres, or is made to."""

import asyncio
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from populated import World, admin, insert, made

from reconcile.report import StoreReport
from reconcile.run import Options, reconcile
from schemas.candidates import Vector
from schemas.codec import Codec
from schemas.digests import vector_digest
from schemas.errors import Retryable
from schemas.memories import GONE, MemoryUpdated
from schemas.routing import partition_of
from schemas.settings import Settings
from schemas.topics import UPDATED
from streams.kafka import producer, send, started
from streams.relay import Relay

pytestmark = [pytest.mark.stack, pytest.mark.timeout(180)]
COUNT = 48
CODEC = Codec()
replace = msgspec.structs.replace


@pytest.fixture
async def world(topics: Settings) -> World:
    found = made(COUNT)
    insert(topics, found)
    await publish(topics, [(update, CODEC.encode(update)) for update in found.updates])
    return found


async def publish(settings: Settings, records: Sequence[tuple[MemoryUpdated, bytes | None]]) -> None:
    topic = UPDATED.named(settings.topic_prefix)
    async with started(producer(settings)) as client:
        for update, value in records:
            partition = partition_of(update.tenant_id, update.user_id, settings.partitions)
            await send(client, topic, value, key=update.memory_id.encode(), partition=partition)  # type: ignore[arg-type]


async def looked(settings: Settings, **options: object) -> StoreReport:
    (report,) = (await reconcile(settings, {}, Options(**options), with_log=True)).stores  # type: ignore[arg-type]
    assert (report.store, report.checked >= COUNT) == ("log", True)
    return report


def kinds(report: StoreReport) -> tuple[int, int, int]:
    return report.missing, report.stale, report.orphan


def wrong_records(world: World) -> list[tuple[MemoryUpdated, bytes | None]]:
    live = [update for update in world.updates if update.status not in GONE]
    dead = [update for update in world.updates if update.status in GONE]
    revision = live[3].vectors[0].revision
    stranger = replace(live[5], memory_id="ffffffff-0000-4000-8000-000000000000")
    return [
        (live[0], None),
        (live[1], CODEC.encode(replace(live[1], version=live[1].version + 7))),
        (live[2], CODEC.encode(replace(live[2], content_hash="other"))),
        (live[3], CODEC.encode(replace(live[3], vectors=(Vector(revision, b"\x00" * 32),)))),
        (live[4], CODEC.encode(replace(live[4], user_id="somebody"))),
        (live[6], b"no Avro"),
        (dead[0], CODEC.encode(replace(dead[0], memory=live[7].memory))),
        (stranger, CODEC.encode(stranger)),
    ]


async def test_every_difference_of_the_log_is_found_and_repaired_by_one_more_record(
    topics: Settings, world: World
) -> None:
    assert kinds(await looked(topics)) == (0, 0, 0)
    wrong = wrong_records(world)
    await publish(topics, wrong)
    found = await looked(topics)
    assert kinds(found) == (1, 5, 2)
    assert {example.key for example in found.examples} == {update.memory_id for update, _ in wrong}
    assert (await looked(topics, repair=True, yes=True)).repair_enqueued == len(wrong)
    stop = asyncio.Event()
    relay = asyncio.create_task(Relay(topics.model_copy(update={"relay_poll_seconds": 0.1}), CODEC).run(stop))
    try:
        assert kinds(await looked(topics, wait_seconds=30.0)) == (0, 0, 0)
    finally:
        stop.set()
        await relay


async def test_only_the_newest_record_counts(topics: Settings, world: World) -> None:
    live = [update for update in world.updates if update.status not in GONE]
    await publish(topics, [(live[0], CODEC.encode(replace(live[0], version=99)))])
    assert (await looked(topics)).stale == 1
    await publish(topics, [(live[0], CODEC.encode(live[0]))])
    assert (await looked(topics)).suspects == 0


async def test_revisions_whose_names_begin_alike_are_compared_in_one_order(topics: Settings, world: World) -> None:
    update = next(u for u in world.updates if u.status == "active")
    both = tuple(Vector(name, bytes([place]) * 32) for place, name in enumerate(("m-10", "m-1", "m.1")))
    with admin(topics) as connection:
        scope = (update.tenant_id, update.user_id, update.memory_id)
        connection.execute("DELETE FROM memory_vectors WHERE memory_id = %s", (update.memory_id,))
        for vector in both:
            floats = np.frombuffer(vector.values, "<f4").tolist()
            connection.execute(
                "INSERT INTO memory_vectors VALUES (%s, %s, %s, %s, %s, %s::real[]::vector)",
                (*scope, vector.revision, vector_digest(vector.values), floats),
            )
    await publish(topics, [(update, CODEC.encode(replace(update, vectors=both)))])
    assert kinds(await looked(topics)) == (0, 0, 0)


async def test_a_half_folded_truth_is_not_compared(topics: Settings, world: World) -> None:
    with admin(topics) as connection:
        connection.execute("INSERT INTO refolding VALUES (0, 0)")
    with pytest.raises(Retryable, match="made anew"):
        await looked(topics)
