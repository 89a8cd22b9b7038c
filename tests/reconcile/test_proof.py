"""The proof on the real stores: every kind of injected drift is found, and nothing else."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import numpy as np
import pytest
from populated import DIMENSION, REVISION, World, insert, made, project

from projectors.entries import Fingerprint, Generation
from projectors.influx import InfluxDoor
from projectors.milvus import MilvusDoor
from projectors.names import collection_name, graph_mark
from projectors.neo4j import Neo4jDoor
from projectors.projection import MilvusRow, influx_point, milvus_row, neo4j_node
from reconcile.report import StoreReport
from reconcile.run import Options, compare
from schemas.memories import GONE, Edge
from schemas.settings import Settings

pytestmark = pytest.mark.stack
COUNT = 160


@pytest.fixture
def world(settings: Settings) -> World:
    found = made(COUNT)
    insert(settings, found)
    return found


@pytest.fixture
async def milvus(topics: Settings, world: World) -> AsyncIterator[tuple[MilvusDoor, Generation]]:
    door, generation = MilvusDoor(topics), Generation("milvus", 1, "live", REVISION, DIMENSION)
    await door.prepare(generation)
    await project(door, generation, world)
    yield door, generation
    await door.drop(generation)
    await door.close()


@pytest.fixture
async def neo4j(topics: Settings, world: World) -> AsyncIterator[tuple[Neo4jDoor, Generation]]:
    door, generation = Neo4jDoor(topics), Generation("neo4j", 1)
    await door.prepare(generation)
    await project(door, generation, world)
    yield door, generation
    await door.drop(generation)
    await door.close()


@pytest.fixture
async def influx(topics: Settings, world: World) -> AsyncIterator[tuple[InfluxDoor, Generation]]:
    door, generation = InfluxDoor(topics), Generation("influx", 1)
    await door.prepare(generation)
    await project(door, generation, world)
    yield door, generation
    await door.drop(generation)
    await door.close()


def kinds(report: StoreReport) -> tuple[int, int, int]:
    return report.missing, report.stale, report.orphan


def changed(row: MilvusRow, **fields: Any) -> MilvusRow:
    fingerprint = Fingerprint(*row.fingerprint)._replace(
        **{name: fields.pop(name) for name in ("version", "content_hash", "digest") if name in fields}
    )
    plain = {name: getattr(row, name) for name in MilvusRow.__slots__}
    return MilvusRow(**{**plain, "fingerprint": fingerprint, **fields})


async def test_milvus_drift(settings: Settings, world: World, milvus: tuple[MilvusDoor, Generation]) -> None:
    door, generation = milvus
    assert kinds(await compare(settings, door, generation, Options(deep=True))) == (0, 0, 0)
    rows = [milvus_row(update, REVISION, DIMENSION) for update in world.updates]
    live = [row for row in rows if not row.tombstone]
    dead = [row for row in rows if row.tombstone]
    unlike = np.asarray([0.5] * DIMENSION, dtype="<f4")
    name = collection_name(settings.topic_prefix, generation)
    await door._call("a test", lambda client: client.delete(name, ids=[live[0].memory_id, dead[0].memory_id]))
    await door.write(
        generation,
        [
            changed(live[1], version=live[1].fingerprint.version + 5),
            changed(live[2], content_hash="other"),
            changed(live[3], digest="other"),
            changed(live[4], tenant_id="elsewhere"),
            changed(live[5], vector=unlike),
            changed(dead[1], version=0),
            changed(live[6], memory_id=dead[2].memory_id, user_id=dead[2].user_id),
            changed(live[7], memory_id="ffffffff-0000-4000-8000-000000000000"),
            changed(live[8], memory_id="not a uuid"),
            changed(dead[3], memory_id="00000000-0000-4000-8000-000000000001"),
        ],
    )
    report = await compare(settings, door, generation)
    assert kinds(report) == (2, 5, 3)
    assert {example.key for example in report.examples if example.kind == "orphan"} == {
        dead[2].memory_id,
        "ffffffff-0000-4000-8000-000000000000",
        "not a uuid",
    }
    deep = await compare(settings, door, generation, Options(deep=True))
    assert kinds(deep) == (2, 6, 3)
    assert live[5].memory_id in {example.key for example in deep.examples if example.kind == "stale"}


async def test_milvus_row_of_another_user(
    settings: Settings, world: World, milvus: tuple[MilvusDoor, Generation]
) -> None:
    door, generation = milvus
    row = milvus_row(world.updates[0], REVISION, DIMENSION)
    name = collection_name(settings.topic_prefix, generation)
    await door._call("a test", lambda client: client.delete(name, ids=[row.memory_id]))
    await door.write(generation, [changed(row, user_id="somebody")])
    report = await compare(settings, door, generation)
    assert kinds(report) == (0, 1, 0)
    assert report.examples[0].user_id == row.user_id


async def test_neo4j_drift(settings: Settings, world: World, neo4j: tuple[Neo4jDoor, Generation]) -> None:
    door, generation = neo4j
    assert kinds(await compare(settings, door, generation)) == (0, 0, 0)
    nodes = [neo4j_node(update) for update in world.updates]
    live = [node for node in nodes if not node.tombstone][20:]
    dead = [node for node in nodes if node.tombstone]
    mark = graph_mark(settings.topic_prefix, generation)

    async def run(statement: str, **parameters: Any) -> None:
        async with door._driver.session() as session:
            await (await session.run(statement, generation=mark, **parameters)).consume()

    one = "MATCH (m:Memory {generation: $generation, memory_id: $id}) "
    # Its outgoing edges go with it, and so do those that lead to it: their owners differ as well.
    incoming = sum(live[0].memory_id == edge.target_id for node in nodes for edge in node.edges)
    related = "MATCH (:Entity)-[r {generation: $generation, memory_id: $id}]->(:Entity) DELETE r"
    await run(one + "DETACH DELETE m", id=live[0].memory_id)
    await run(related, id=live[0].memory_id)
    await run(one + "SET m.version = 99", id=live[1].memory_id)
    await run(one + "SET m.user_id = 'somebody'", id=live[2].memory_id)
    await run(one + "MATCH (m)-[r:FOLLOWS]->() DELETE r", id=live[3].memory_id)
    await run(one + "MATCH (m)-[r:SIMILAR_TO]->() SET r.weight = 0.123", id=live[5].memory_id)
    await run(
        one
        + "MATCH (t:Memory {generation: $generation, memory_id: $to}) CREATE (m)-[:CAUSES {kind: 'CAUSES', weight: 1.0}]->(t)",
        id=live[7].memory_id,
        to=live[8].memory_id,
    )
    await run(related, id=live[9].memory_id)
    await run(one + "SET m.tombstone = false", id=dead[0].memory_id)
    await run(
        "CREATE (m:Memory {generation: $generation, memory_id: 'ghost', tenant_id: 't', user_id: 'u', version: 1,"
        " content_hash: 'h', tombstone: false})"
    )
    report = await compare(settings, door, generation)
    assert kinds(report) == (1, 6 + incoming, 2)


async def test_placeholders_are_not_entries(
    settings: Settings, world: World, neo4j: tuple[Neo4jDoor, Generation]
) -> None:
    door, generation = neo4j
    node = next(found for found in map(neo4j_node, world.updates) if not found.tombstone)
    assert any(update.status in GONE for update in world.updates)
    later = Edge(kind="CAUSES", target_kind="memory", target_id="aaaaaaaa-0000-4000-8000-000000000000")
    plain = {name: getattr(node, name) for name in type(node).__slots__}
    await door.write(generation, [type(node)(**{**plain, "edges": (later,)})], forced=True)
    report = await compare(settings, door, generation)
    assert kinds(report) == (0, 1, 0)
    assert msgspec.json.decode(msgspec.json.encode(report))["stale"] == 1


async def test_influx_drift(settings: Settings, world: World, influx: tuple[InfluxDoor, Generation]) -> None:
    door, generation = influx
    clean = await compare(settings, door, generation)
    assert (clean.checked, kinds(clean)) == (COUNT, (0, 0, 0))
    events = world.events
    gone = influx_point(msgspec.structs.replace(events[0], event_type="orphaned"), None)
    drift = [
        msgspec.structs.replace(events[1], content_hash="other"),
        msgspec.structs.replace(events[2], event_id="other"),
        msgspec.structs.replace(events[3], event_type="SomethingElse"),
        msgspec.structs.replace(events[4], user_id="somebody"),
        msgspec.structs.replace(events[5], sequence=999),
        msgspec.structs.replace(events[6], occurred_at_ms=1_600_000_000_000),
    ]
    await door.write(generation, [gone, *(influx_point(event, None) for event in drift)])
    report = await compare(settings, door, generation)
    assert kinds(report) == (1, 3, 3)
