"""Repairs on the whole way: outbox, relay, topics, projectors, stores; and no false alarm while writes go on."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from populated import DIMENSION, REVISION, admin
from running_stores import Running, running_stores

from projectors.names import collection_name, graph_mark
from projectors.projection import influx_point, milvus_row, neo4j_node
from schemas.errors import Rejected, Retryable
from schemas.routing import partition_of
from schemas.settings import Settings

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]
COUNT = 120
NEXT_MEMORY = (
    "UPDATE memories SET version = version + 1, content_hash = md5(random()::text) WHERE memory_id = %(id)s::uuid"
)
NEXT_HISTORY = (
    "INSERT INTO memory_history (tenant_id, user_id, memory_id, version, event_id, op, status, content_hash, reason, actor,"
    " proposal_id, source_event_id, occurred_at_ms)"
    " SELECT tenant_id, user_id, memory_id, version, %(event)s, 'updated', status, content_hash, '', 'test', 'test', '', 0"
    " FROM memories WHERE memory_id = %(id)s::uuid"
)
NEXT_OUTBOX = (
    "INSERT INTO memory_outbox (event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,"
    " payload)"
    " SELECT %(event)s, memory_id::text, tenant_id, user_id, %(shard)s, version, 'memory.updated', 'memory', 'change'"
    " FROM memories WHERE memory_id = %(id)s::uuid"
)


@pytest.fixture
async def running(topics: Settings) -> AsyncIterator[Running]:
    async with running_stores(topics, COUNT) as found:
        yield found


async def _drift(found: Running) -> None:
    """Every kind of drift that the stores can have, in all three."""
    settings, doors = found.settings, found.doors
    rows = [milvus_row(update, REVISION, DIMENSION) for update in found.world.updates]
    live, dead = [row for row in rows if not row.tombstone], [row for row in rows if row.tombstone]
    milvus, unlike = found.generation("milvus"), np.asarray([0.5] * DIMENSION, dtype="<f4")
    name = collection_name(settings.topic_prefix, milvus)
    await doors["milvus"]._call(
        "a test", lambda client: client.delete(name, ids=[live[0].memory_id, dead[0].memory_id])
    )
    ahead = live[1].fingerprint._replace(version=90)
    await doors["milvus"].write(
        milvus,
        [
            replace(live[1], fingerprint=ahead),
            replace(live[2], fingerprint=live[2].fingerprint._replace(content_hash="other")),
            replace(live[3], fingerprint=live[3].fingerprint._replace(digest="other")),
            replace(live[5], vector=unlike),
            replace(dead[1], fingerprint=dead[1].fingerprint._replace(version=0)),
            replace(live[6], memory_id=dead[2].memory_id, user_id=dead[2].user_id),
            replace(live[7], memory_id="ffffffff-0000-4000-8000-000000000000"),
        ],
    )
    mark = graph_mark(settings.topic_prefix, found.generation("neo4j"))
    nodes = [neo4j_node(update) for update in found.world.updates]
    known, gone = [node for node in nodes if not node.tombstone], [node for node in nodes if node.tombstone]
    one = "MATCH (m:Memory {generation: $generation, memory_id: $id}) "
    async with doors["neo4j"]._driver.session() as session:
        for statement, memory_id in (
            ("MATCH (:Entity)-[r {memory_id: $id}]->(:Entity) DELETE r", known[0].memory_id),
            ("DETACH DELETE m", known[0].memory_id),
            ("SET m.version = 99", known[10].memory_id),
            ("SET m.content_hash = 'other'", known[11].memory_id),
            ("MATCH (m)-[r:FOLLOWS]->() DELETE r", known[12].memory_id),
            ("MATCH (m)-[r:SIMILAR_TO]->() SET r.weight = 0.123", known[13].memory_id),
            ("SET m.tombstone = false", gone[0].memory_id),
        ):
            await (await session.run(one + statement, generation=mark, id=memory_id)).consume()
        ghost = (
            "CREATE (:Memory {generation: $generation, memory_id: 'eeeeeeee-0000-4000-8000-000000000000', tenant_id: 'tenant0',"
            " user_id: 'user0', version: 1, content_hash: 'h', tombstone: false})"
        )
        await (await session.run(ghost, generation=mark)).consume()
    events = found.world.events
    wrong = [
        influx_point(event, None)
        for event in (
            _changed(events[0], event_type="orphaned"),
            _changed(events[1], content_hash="other"),
            _changed(events[2], event_type="SomethingElse"),
        )
    ]
    await doors["influx"].write(found.generation("influx"), wrong)


def _changed(event: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(event, **fields)


async def test_every_drift_is_repaired_in_one_pass(running: Running) -> None:
    assert (await running.compared(deep=True)).differences == 0
    await _drift(running)
    found = await running.compared(deep=True, repair=True, yes=True)
    counts = {store.store: (store.missing, store.stale, store.orphan, store.repair_enqueued) for store in found.stores}
    assert counts["milvus"] == (2, 5, 2, 9)
    assert counts["influx"] == (1, 2, 0, 3)
    assert counts["neo4j"][2] == 2
    assert counts["neo4j"][3] == sum(counts["neo4j"][:3])
    after = await running.compared(deep=True)
    assert [(store.store, store.examples) for store in after.stores if store.differences] == []


async def test_a_row_of_another_user_is_repaired(running: Running) -> None:
    row = milvus_row(running.world.updates[0], REVISION, DIMENSION)
    milvus = running.generation("milvus")
    name = collection_name(running.settings.topic_prefix, milvus)
    await running.doors["milvus"]._call("a test", lambda client: client.delete(name, ids=[row.memory_id]))
    await running.doors["milvus"].write(milvus, [replace(row, user_id="somebody")])
    assert (await running.compared(repair=True)).differences == 1
    assert (await running.compared()).differences == 0


@pytest.mark.parametrize(
    "change",
    [
        "SET m.tenant_id = 'somebody'",
        "SET m.user_id = 'somebody'",
        "CREATE (c:Memory) SET c = m {.*, tenant_id: 'somebody'}",
        "CREATE (c:Memory) SET c = m {.*, tenant_id: '0', user_id: 'somebody', version: m.version + 5}",
    ],
)
async def test_a_node_under_another_name_is_repaired(running: Running, change: str) -> None:
    live = [update for update in running.world.updates if update.memory is not None]
    mark = graph_mark(running.settings.topic_prefix, running.generation("neo4j"))
    one = "MATCH (m:Memory {generation: $generation, memory_id: $id}) "
    async with running.doors["neo4j"]._driver.session() as session:
        await (await session.run(one + change, generation=mark, id=live[3].memory_id)).consume()
    report = await running.compared(repair=True)
    assert [(store.stale, store.repair_enqueued) for store in report.stores] == [(0, 0), (1, 1), (0, 0)]
    assert (await running.compared()).differences == 0


async def test_too_many_differences_ask_first(running: Running) -> None:
    milvus = running.generation("milvus")
    name = collection_name(running.settings.topic_prefix, milvus)
    ids = [update.memory_id for update in running.world.updates[:60]]
    await running.doors["milvus"]._call("a test", lambda client: client.delete(name, ids=ids))
    with pytest.raises(Rejected, match="60 of 120"):
        await running.compared(repair=True)
    assert (await running.compared(repair=True, yes=True)).differences == 60
    assert (await running.compared()).differences == 0


async def test_asking_twice_repairs_once(running: Running) -> None:
    running.stops["relay"].set()
    await asyncio.sleep(0.5)
    milvus = running.generation("milvus")
    name = collection_name(running.settings.topic_prefix, milvus)
    await running.doors["milvus"]._call(
        "a test", lambda client: client.delete(name, ids=[running.world.updates[0].memory_id])
    )
    first = await running.compared(repair=True)
    assert [store.repair_enqueued for store in first.stores] == [1, 0, 0]
    with pytest.raises(Retryable, match="not published"):
        await running.compared(repair=True, wait_seconds=0.5)
    with admin(running.settings) as connection:
        row = connection.execute("SELECT count(*) FROM memory_outbox").fetchone()
    assert row == (1,)


async def test_no_false_alarm_while_writes_go_on(running: Running) -> None:
    stop = asyncio.Event()
    writer = asyncio.create_task(asyncio.to_thread(_writes, running, stop))
    suspects = 0
    try:
        for _ in range(6):
            report = await running.compared()
            suspects += sum(store.suspects for store in report.stores)
            assert report.differences == 0, report
    finally:
        stop.set()
        written = await writer
    assert written > 50
    assert suspects > 0
    assert (await running.compared()).differences == 0


def _writes(running: Running, stop: asyncio.Event) -> int:
    """New versions of one memory after the other, each with its outbox row, until told to stop."""
    live = [update for update in running.world.updates if update.memory is not None]
    written = 0
    with admin(running.settings) as connection:
        while not stop.is_set():
            update = live[written % len(live)]
            scope = {
                "tenant": update.tenant_id,
                "user": update.user_id,
                "id": update.memory_id,
                "event": str(uuid.uuid4()),
            }
            shard = partition_of(update.tenant_id, update.user_id, running.settings.partitions)
            with connection.transaction():
                for statement in (NEXT_MEMORY, NEXT_HISTORY, NEXT_OUTBOX):
                    connection.execute(statement, {**scope, "shard": shard})
            written += 1
            time.sleep(0.005)
    return written
