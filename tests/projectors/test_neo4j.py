"""Neo4j itself: edges as a set, digests of what is really there, walks that stay with their user."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import neo4j
import pytest
from projector_samples import belongs, follows, memory_id, relation, update

from projectors.entries import Entry, Generation
from projectors.names import graph_mark
from projectors.neo4j import HUB_DEGREE, Neo4jDoor, _one
from projectors.projection import neo4j_fingerprint, neo4j_node
from schemas.errors import Broken, Misconfigured, Rejected, Retryable
from schemas.memories import MemoryUpdated
from schemas.settings import Settings

pytestmark = pytest.mark.stack
GENERATION = Generation("neo4j", 1)


class Graph:
    """The door, and a hand that changes the store behind its back."""

    def __init__(self, settings: Settings) -> None:
        self.door = Neo4jDoor(settings)
        self.mark = graph_mark(settings.topic_prefix, GENERATION)
        self._driver = neo4j.AsyncGraphDatabase.driver(
            settings.neo4j_uri, auth=(settings.neo4j_user, settings.neo4j_password.get_secret_value())
        )

    async def write(self, *snapshots: MemoryUpdated, forced: bool = False) -> None:
        await self.door.write(GENERATION, [neo4j_node(one) for one in snapshots], forced=forced)

    async def entries(self, page: int = 16_000) -> dict[str, Entry]:
        listed = [entry async for entry in self.door.fingerprints(GENERATION, page=page)]
        assert [entry.key for entry in listed] == sorted({entry.key for entry in listed})
        return {str(entry.key[0]): entry for entry in listed}

    async def change(self, statement: str) -> list[dict[str, Any]]:
        async with self._driver.session() as session:
            return await (await session.run(statement, {"g": self.mark})).data()

    async def close(self) -> None:
        await self.door.drop(GENERATION)
        await self.door.close()
        await self._driver.close()


@pytest.fixture
async def graph(settings: Settings) -> AsyncIterator[Graph]:
    opened = Graph(settings)
    await opened.door.prepare(GENERATION)
    yield opened
    await opened.close()


def rich(number: int, version: int = 1) -> MemoryUpdated:
    return update(
        number,
        version=version,
        edges=[belongs("user:u1"), belongs("person:张总", 0.5), follows(number + 1)],
        relations=[relation("user:u1", "works_for", "company:Acme", 0.7), relation("user:u1", "likes", "user:u1")],
    )


def expected(snapshot: MemoryUpdated) -> Any:
    memory = snapshot.memory
    assert memory is not None
    return neo4j_fingerprint(snapshot.version, snapshot.content_hash, snapshot.status, memory.edges, memory.relations)


async def test_what_is_really_there_has_the_digest_of_what_was_written(graph: Graph) -> None:
    snapshots = [rich(number) for number in range(5)]
    await graph.write(*snapshots)
    found = await graph.entries(page=2)
    assert {name: entry.fingerprint for name, entry in found.items()} == {
        one.memory_id: expected(one) for one in snapshots
    }


async def test_edges_have_types_versions_and_owners(graph: Graph) -> None:
    await graph.write(rich(1, version=4))
    rows = await graph.change(
        "MATCH (a {generation: $g})-[r]->() RETURN type(r) AS type, r.version AS version, r.tenant_id AS tenant, "
        "r.user_id AS user, r.memory_id AS owner ORDER BY type"
    )
    assert [row["type"] for row in rows] == [
        "BELONGS_TO", "BELONGS_TO", "FOLLOWS", "LIKES", "STATES", "STATES", "WORKS_FOR",
    ]  # fmt: skip
    assert {(row["version"], row["tenant"], row["user"]) for row in rows} == {(4, "t1", "u1")}
    assert {row["owner"] for row in rows} == {None, memory_id(1)}


async def test_an_edge_to_an_unknown_memory_makes_a_placeholder_that_is_filled_later(graph: Graph) -> None:
    await graph.write(update(1, edges=[follows(2)]))
    assert set(await graph.entries()) == {memory_id(1)}
    assert await graph.door.count(GENERATION) == 1
    assert await graph.door.guard_read(GENERATION, [(memory_id(2),)]) == {}
    await graph.write(update(2, version=7))
    assert (await graph.entries())[memory_id(2)].fingerprint.version == 7
    assert len(await graph.change("MATCH (m:Memory {generation: $g}) RETURN m")) == 2


async def test_edges_are_replaced_as_a_set_and_nothing_unused_stays(graph: Graph) -> None:
    await graph.write(rich(1))
    await graph.write(update(1, version=2, edges=[belongs("order:A1")]))
    entities = await graph.change("MATCH (e:Entity {generation: $g}) RETURN e.type + ':' + e.id AS name")
    assert entities == [{"name": "order:A1"}]
    assert len(await graph.change("MATCH (m:Memory {generation: $g}) RETURN m")) == 1
    assert len(await graph.change("MATCH ({generation: $g})-[r]->() RETURN r")) == 1


async def test_what_another_memory_needs_stays(graph: Graph) -> None:
    await graph.write(rich(1), rich(3))
    await graph.write(update(1, version=2, status="erased"))
    found = await graph.entries()
    assert found[memory_id(3)].fingerprint == expected(rich(3))
    assert found[memory_id(1)].fingerprint.digest == ""
    assert not found[memory_id(1)].content
    (node,) = await graph.change(
        f"MATCH (m:Memory {{generation: $g, memory_id: '{memory_id(1)}'}}) RETURN properties(m) AS p"
    )
    assert set(node["p"]) == {
        "generation", "tenant_id", "user_id", "memory_id", "version", "content_hash", "status", "tombstone",
        "relations",
    }  # fmt: skip


async def test_what_is_kept_is_told_and_leaves_nothing_behind(graph: Graph) -> None:
    await graph.write(rich(1, version=2))
    await graph.change(
        f"CREATE (:Memory {{generation: $g, tenant_id: 'other', memory_id: '{memory_id(8)}', version: 1}})"
    )
    late = update(1, edges=[belongs("order:late"), follows(77)])
    taken = update(8, edges=[belongs("order:taken")])
    nodes = [neo4j_node(one) for one in (late, rich(3), taken)]
    assert await graph.door.write(GENERATION, nodes) == {(memory_id(1),), (memory_id(8),)}
    found = await graph.entries()
    assert found[memory_id(1)].fingerprint == expected(rich(1, version=2))
    assert found[memory_id(3)].fingerprint == expected(rich(3))
    assert found[memory_id(8)].tenant_id == "other"
    names = await graph.change("MATCH (e:Entity {generation: $g}) RETURN e.type + ':' + e.id AS name")
    assert not {row["name"] for row in names} & {"order:late", "order:taken"}
    memories = await graph.change("MATCH (m:Memory {generation: $g}) RETURN m.memory_id AS id")
    assert sorted(row["id"] for row in memories) == sorted(memory_id(number) for number in (1, 2, 3, 4, 8))


async def test_no_version_goes_down_even_without_the_guard(graph: Graph) -> None:
    await graph.write(update(1, version=5, edges=[belongs("user:u1")]))
    before = await graph.entries()
    await graph.write(update(1, version=4, edges=[follows(2)]), update(1, version=5, edges=[follows(3)]))
    assert await graph.entries() == before


async def test_a_writer_that_waits_for_another_one_sees_what_that_one_wrote(graph: Graph) -> None:
    await graph.write(update(1, version=5))
    async with graph._driver.session() as session:
        other = await session.begin_transaction()
        statement = "MATCH (m:Memory {generation: $g, memory_id: $id}) SET m.version = 7"
        await (await other.run(statement, {"g": graph.mark, "id": memory_id(1)})).consume()
        late = asyncio.create_task(graph.write(update(1, version=6)))
        await asyncio.sleep(0.5)
        assert not late.done()
        await other.commit()
        await late
    assert (await graph.entries())[memory_id(1)].fingerprint.version == 7
    assert "locked" not in (await graph.change("MATCH (m:Memory {generation: $g}) RETURN keys(m) AS names"))[0]["names"]


async def test_a_node_that_lost_its_version_gets_its_edges_once(graph: Graph) -> None:
    await graph.write(rich(1, version=3))
    before = await graph.entries()
    await graph.change("MATCH (m:Memory {generation: $g}) WHERE m.version > 0 SET m.version = 0")
    await graph.write(rich(1, version=3))
    assert await graph.entries() == before
    (found,) = await graph.change("MATCH (m:Memory {generation: $g, version: 3})-[r]->() RETURN count(r) AS edges")
    await graph.write(rich(1, version=4))
    (after,) = await graph.change("MATCH (m:Memory {generation: $g, version: 4})-[r]->() RETURN count(r) AS edges")
    assert found == after


DRIFT = {
    "an edge is gone": "MATCH (m:Memory {generation: $g, memory_id: 'ID'})-[r:BELONGS_TO]->() DELETE r",
    "a weight is other": "MATCH (m:Memory {generation: $g, memory_id: 'ID'})-[r:FOLLOWS]->() SET r.weight = 0.1",
    "an edge too many": (
        "MATCH (m:Memory {generation: $g, memory_id: 'ID'}) MATCH (e:Entity {generation: $g, type: 'company'}) "
        "CREATE (m)-[:CAUSES {kind: 'CAUSES', weight: 1.0}]->(e)"
    ),
    "an edge of another type": (
        "MATCH (m:Memory {generation: $g, memory_id: 'ID'})-[r:FOLLOWS]->(t) "
        "CREATE (m)-[n:CAUSES]->(t) SET n = properties(r) DELETE r"
    ),
    "a relation is gone": "MATCH ({generation: $g})-[r:WORKS_FOR]->() WHERE r.memory_id = 'ID' DELETE r",
    "a relation too many": (
        "MATCH (a:Entity {generation: $g, type: 'company'}), (b:Entity {generation: $g, type: 'person'}) "
        "CREATE (a)-[:HATES {memory_id: 'ID', predicate: 'hates', weight: 1.0}]->(b)"
    ),
    "a stated entity is gone": (
        "MATCH (m:Memory {generation: $g, memory_id: 'ID'})-[r:STATES]->(:Entity {type: 'company'}) DELETE r"
    ),
    "a relation is other": "MATCH ({generation: $g})-[r:WORKS_FOR]->() WHERE r.memory_id = 'ID' SET r.predicate = 'x'",
}


@pytest.mark.parametrize("drift", list(DRIFT))
async def test_drift_among_edges_is_seen_and_a_repair_heals_it(graph: Graph, drift: str) -> None:
    await graph.write(rich(1), rich(10))
    before = await graph.entries()
    await graph.change(DRIFT[drift].replace("ID", memory_id(1)))
    after = await graph.entries()
    assert after[memory_id(1)].fingerprint.digest != before[memory_id(1)].fingerprint.digest
    assert after[memory_id(10)] == before[memory_id(10)]
    assert (await graph.door.fingerprints_of(GENERATION, [(memory_id(1),)])) == {(memory_id(1),): after[memory_id(1)]}
    await graph.write(rich(1), forced=True)
    assert await graph.entries() == before


async def test_relations_whose_node_is_gone_are_an_entry_of_version_0(graph: Graph) -> None:
    await graph.write(rich(1))
    await graph.change(f"MATCH (m:Memory {{generation: $g, memory_id: '{memory_id(1)}'}}) DETACH DELETE m")
    entry = (await graph.entries())[memory_id(1)]
    assert entry.fingerprint.version == 0
    assert entry.content
    await graph.write(update(1, version=1, status="deleted"), forced=True)
    assert (await graph.entries())[memory_id(1)].fingerprint.digest == ""
    assert await graph.change("MATCH (e:Entity {generation: $g})--() RETURN e") == []


MISPLACED = {
    "another tenant on the node": "MATCH (m:Memory {generation: $g, memory_id: 'ID'}) SET m.tenant_id = 't9'",
    "no tenant on the node": "MATCH (m:Memory {generation: $g, memory_id: 'ID'}) REMOVE m.tenant_id",
    "another user on the node": "MATCH (m:Memory {generation: $g, memory_id: 'ID'}) SET m.user_id = 'u9'",
    "a copy under another tenant": (
        "MATCH (m:Memory {generation: $g, memory_id: 'ID'}) CREATE (c:Memory) SET c = m {.*, tenant_id: 't9', user_id: 'u9'}"
    ),
    "a copy with edges and relations": (
        "MATCH (m:Memory {generation: $g, memory_id: 'ID'}) CREATE (c:Memory) SET c = m {.*, tenant_id: 'a'} "
        "CREATE (c)-[:BELONGS_TO {kind: 'BELONGS_TO'}]->(e:Entity {generation: $g, tenant_id: 'a', user_id: 'u1', type: 'x',"
        " id: 'y'})-[:LIKES {memory_id: 'ID', predicate: 'likes'}]->(e)"
    ),
    "a copy that others lead to": (
        "MATCH (m:Memory {generation: $g, memory_id: 'ID'})<-[r:FOLLOWS]-(n) CREATE (c:Memory) SET c = m {.*, tenant_id: 't9'} "
        "CREATE (n)-[s:FOLLOWS]->(c) SET s = properties(r) DELETE r"
    ),
    "two copies": (
        "MATCH (m:Memory {generation: $g, memory_id: 'ID'}) UNWIND ['t8', 't9'] AS tenant "
        "CREATE (c:Memory) SET c = m {.*, tenant_id: tenant}"
    ),
}


@pytest.mark.parametrize("misplaced", list(MISPLACED))
async def test_what_stands_under_another_name_is_one_entry_and_a_repair_removes_it(
    graph: Graph, misplaced: str
) -> None:
    await graph.write(update(0, edges=[follows(1)]), rich(1), rich(10))
    before = await graph.entries()
    shape = "MATCH (n {generation: $g}) RETURN labels(n) AS labels, properties(n) AS p, COUNT { (n)--() } AS edges"
    nodes = sorted(map(repr, await graph.change(shape)))
    await graph.change(MISPLACED[misplaced].replace("ID", memory_id(1)))
    for page in (1, 2, 3, 16_000):
        after = await graph.entries(page)
        assert {name for name, entry in after.items() if entry != before.get(name)} == {memory_id(1)}, page
    assert await graph.door.fingerprints_of(GENERATION, [(memory_id(1),)]) == {(memory_id(1),): after[memory_id(1)]}
    await graph.write(rich(1), forced=True)
    assert await graph.entries() == before
    assert sorted(map(repr, await graph.change(shape))) == nodes


async def found(graph: Graph, seeds: Sequence[int], hops: int, **scope: str) -> list[tuple[str, int]]:
    walked = await graph.door.expand(
        GENERATION,
        scope.get("tenant_id", "t1"),
        scope.get("user_id", "u1"),
        [memory_id(number) for number in seeds],
        max_hops=hops,
        limit=50,
    )
    return [(one.memory_id, one.hops) for one in walked]


async def test_a_walk_finds_neighbours_with_their_path(graph: Graph) -> None:
    await graph.write(
        update(1, edges=[follows(2), belongs("order:A1", 0.5)]),
        update(2),
        update(3, edges=[belongs("order:A1")]),
        update(4, edges=[belongs("order:A1")], version=2, status="deleted"),
    )
    assert await found(graph, [1], 0) == []
    assert await found(graph, [1], 1) == [(memory_id(2), 1)]
    assert await found(graph, [1], 2) == [(memory_id(2), 1), (memory_id(3), 2)]
    walked = await graph.door.expand(GENERATION, "t1", "u1", [memory_id(1)], max_hops=2, limit=50)
    path = [(step.kind, step.outgoing, step.node) for step in walked[1].path]
    assert path == [
        ("BELONGS_TO", True, "entity:order:A1"),
        ("BELONGS_TO", False, f"memory:{memory_id(3)}"),
    ]
    assert (walked[1].seed_id, walked[1].weight, walked[1].status) == (memory_id(1), 0.5, "active")


async def test_a_walk_follows_relations_between_entities(graph: Graph) -> None:
    await graph.write(
        update(1, relations=[relation("person:wang", "manages", "person:li")]),
        update(2, relations=[relation("person:li", "works_for", "company:Acme")]),
    )
    assert await found(graph, [1], 2) == [(memory_id(2), 2)]


async def test_a_walk_stays_with_its_tenant_and_user(graph: Graph) -> None:
    await graph.write(
        update(1, edges=[belongs("order:A1"), follows(2)]),
        update(2, user_id="u2", edges=[belongs("order:A1")]),
        update(3, tenant_id="t2", edges=[belongs("order:A1")]),
    )
    assert await found(graph, [1, 2, 3], 2) == []
    assert await found(graph, [1], 2, user_id="u2") == []
    assert await found(graph, [1], 2, tenant_id="t2") == []
    with pytest.raises(Rejected):
        await found(graph, [1], 2, user_id="u1' OR true //")
    with pytest.raises(Rejected):
        await found(graph, [1], 99)


async def test_a_hub_is_not_walked_through(graph: Graph) -> None:
    await graph.write(*(update(number, edges=[belongs("user:u1")]) for number in range(HUB_DEGREE + 1)))
    await graph.write(update(1000, edges=[belongs("user:u1"), follows(5)]))
    assert await found(graph, [1000], 2) == [(memory_id(5), 1)]


@pytest.mark.parametrize("secret", ["我的密码是花生", "my password is peanut"])
async def test_a_refusal_does_not_repeat_the_value(graph: Graph, secret: str) -> None:
    with pytest.raises(Rejected) as raised:
        await graph.door._write("a test", _one("CREATE (n:Nobody {said: $said})", said={"text": secret}))
    assert secret in str(raised.value.__cause__)
    assert secret not in str(raised.value)
    with pytest.raises(Broken) as refused:
        await graph.door._read("a test", f"RETURN '{secret}' no cypher")
    assert secret in str(refused.value.__cause__)
    assert secret not in str(refused.value)


async def test_a_server_that_is_away_and_a_wrong_password_are_told_apart(settings: Settings) -> None:
    away = Neo4jDoor(settings.model_copy(update={"neo4j_uri": "bolt://127.0.0.1:1", "store_timeout_seconds": 1.0}))
    with pytest.raises(Retryable):
        await away.healthy()
    await away.close()
    wrong = Neo4jDoor(settings.model_copy(update={"neo4j_user": "nobody"}))
    with pytest.raises(Misconfigured):
        await wrong.healthy()
    await wrong.close()
