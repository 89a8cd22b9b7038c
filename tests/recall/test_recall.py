"""Recall on the real stores, in both languages: what it finds, what it drops, and what it says when a store is away."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest
from populated import World, admin, insert, project

from projectors.entries import Generation
from projectors.generations import ROLE as PROJECTOR
from projectors.generations import Detail, ensure_first
from projectors.milvus import MilvusDoor
from projectors.neo4j import Neo4jDoor
from recall.postgres import ROLE, Reader
from recall.recall import Deps, recall
from recall.requests import RecallRequest, RecallResponse
from recall.wiring import opened
from schemas.candidates import Vector
from schemas.errors import Rejected, Retryable
from schemas.ids import user_id_of_name
from schemas.memories import Edge, Memory, MemoryUpdated
from schemas.settings import Settings
from streams.embedding import Embedder, load_embedder
from streams.postgres import connect
from streams.text.masking import mask

pytestmark = pytest.mark.stack
NOW_MS = 1_760_000_000_000
ALICE, ZHANG = "alice", user_id_of_name("张三")


def said(tenant: str, user: str, content: str, *, attribute: str, value: str, **fields: object) -> Memory:
    plain = {
        "memory_id": str(uuid.uuid4()),
        "tenant_id": tenant,
        "user_id": user,
        "subject": "user",
        "category": "preference",
        "type": "user_profile",
        "entity_type": "user",
        "entity_id": "self",
        "attribute": attribute,
        "dedupe_key": f"{attribute}/{value}",
        "value": msgspec.json.encode(value).decode(),
        "content": content,
        "language": "zh" if any(ord(letter) > 0x2E80 for letter in content) else "en",
        "importance": 0.7,
        "confidence": 0.85,
        "source": "user_statement",
        "status": "active",
        "version": 1,
        "body_version": 1,
        "content_hash": uuid.uuid4().hex,
        "stated_at_ms": NOW_MS - 86_400_000,
        "created_at_ms": NOW_MS,
        "updated_at_ms": NOW_MS,
    }
    return msgspec.convert(plain | fields, Memory)


def story(tenant: str) -> list[Memory]:
    shoes = said(
        tenant, ALICE, "Order 20250712 is a pair of running shoes", attribute="order_item", value="running shoes",
        category="fact", entity_type="order", entity_id="20250712",
    )  # fmt: skip
    return [
        said(tenant, ALICE, "The user's name is Alice", attribute="name", value="Alice", category="identity"),
        said(tenant, ALICE, "The user lives in Berlin", attribute="city", value="Berlin", category="identity"),
        said(tenant, ALICE, "The user likes hiking in the mountains", attribute="likes", value="hiking", tags=("sport",)),
        said(tenant, ALICE, "The user dislikes coriander", attribute="dislikes", value="coriander"),
        said(tenant, ALICE, "The user's mother likes orchids", attribute="likes", value="orchids", subject="person:mother"),
        shoes,
        said(
            tenant, ALICE, "The parcel was damaged in the warehouse", attribute="order_problem", value="damaged",
            category="fact", edges=(Edge(kind="FOLLOWS", target_kind="memory", target_id=shoes.memory_id),),
        ),
        said(tenant, ALICE, "The user lived in Hamburg", attribute="city", value="Hamburg", category="identity",
             status="superseded"),
        said(tenant, ALICE, "The user wants an appointment on Friday", attribute="appointment", value="Friday",
             category="episodic", status="tentative"),
        said(tenant, ALICE, "The user will call back on Monday", attribute="plan", value="call", category="episodic",
             expires_at_ms=NOW_MS - 1),
        said(tenant, ZHANG, "用户的名字是张三", attribute="name", value="张三", category="identity"),
        said(tenant, ZHANG, "用户喜欢爬山", attribute="likes", value="爬山"),
        said(tenant, ZHANG, "用户不喜欢香菜", attribute="dislikes", value="香菜"),
        said(tenant, ZHANG, "用户的母亲喜欢兰花", attribute="likes", value="兰花", subject="person:mother"),
        said(tenant, ZHANG, "订单20250712的问题是包裹破损", attribute="order_problem", value="包裹破损", category="fact",
             entity_type="order", entity_id="20250712"),
        said(tenant, ZHANG, "用户住在深圳", attribute="city", value="深圳", category="identity"),
    ]  # fmt: skip


@pytest.fixture(scope="session")
def embedder() -> Embedder:
    return load_embedder("use")


@pytest.fixture
async def deps(settings: Settings, embedder: Embedder) -> AsyncIterator[Deps]:
    """Two tenants with the same story, in Postgres and in both stores."""
    memories = story("one") + story("two")
    vectors = embedder.embed([mask(memory.content) for memory in memories])
    world = World(
        tuple(
            MemoryUpdated(
                event_id=str(uuid.uuid4()),
                memory_id=memory.memory_id,
                tenant_id=memory.tenant_id,
                user_id=memory.user_id,
                op="created",
                status=memory.status,
                version=memory.version,
                content_hash=memory.content_hash,
                occurred_at_ms=NOW_MS,
                cause="test",
                memory=memory,
                vectors=(Vector(embedder.revision, values),),
            )
            for memory, values in zip(memories, vectors, strict=True)
        ),
        (),
    )
    insert(settings, world)
    detail = Detail(embedder.revision, embedder.dimension)
    connection = await connect(settings, PROJECTOR, autocommit=True)
    await ensure_first(connection, "milvus", detail, NOW_MS)
    await ensure_first(connection, "neo4j", Detail(), NOW_MS)
    await connection.close()
    milvus, neo4j = MilvusDoor(settings), Neo4jDoor(settings)
    generations = {
        milvus: Generation("milvus", 1, "live", embedder.revision, embedder.dimension),
        neo4j: Generation("neo4j", 1),
    }
    for door, generation in generations.items():
        await door.prepare(generation)
        await project(door, generation, world)
    async with opened(settings, embedder) as found:
        yield replace(found, now_ms=lambda: NOW_MS)
    for door, generation in generations.items():
        await door.drop(generation)
        await door.close()


async def ask(deps: Deps, question: str, user: str = ALICE, **fields: object) -> RecallResponse:
    request = msgspec.convert(
        {"tenant_id": "one", "user_id": user, "question": question, "deadline_seconds": 10.0} | fields, RecallRequest
    )
    return await recall(request, deps)


def shown(response: RecallResponse) -> list[str]:
    return [msgspec.json.decode(hit.value) for hit in response.hits]


@pytest.mark.parametrize(
    ("user", "question", "first"),
    [
        (ALICE, "What is my name?", "Alice"),
        (ALICE, "Where do I live?", "Berlin"),
        (ALICE, "What do I like?", "hiking"),
        (ALICE, "What does Alice like?", "hiking"),
        (ALICE, "What do I dislike?", "coriander"),
        (ALICE, "What does my mother like?", "orchids"),
        (ALICE, "Where is order 20250712?", "running shoes"),
        (ALICE, "我叫什么名字", "Alice"),
        (ZHANG, "我叫什么名字？", "张三"),
        (ZHANG, "What is my name?", "张三"),
        (ZHANG, "我喜欢什么？", "爬山"),
        (ZHANG, "张三喜欢什么？", "爬山"),
        (ZHANG, "What does 张三 like?", "爬山"),
        (ZHANG, "我不喜欢什么", "香菜"),
        (ZHANG, "我妈妈喜欢什么", "兰花"),
        (ZHANG, "订单20250712怎么样了", "包裹破损"),
        (ZHANG, "我住在哪里", "深圳"),
    ],
)
async def test_first_hit(deps: Deps, user: str, question: str, first: str) -> None:
    response = await ask(deps, question, user)
    assert response.complete
    assert shown(response)[0] == first
    assert response.hits[0].memory_id in {memory.memory_id for memory in await _own(deps, "one", user)}


async def _own(deps: Deps, tenant: str, user: str) -> list[object]:
    return list(await Reader(deps.pool, tenant, user).listed())


async def test_trace_adds_up(deps: Deps) -> None:
    for hit in (await ask(deps, "Which sport do I do in my free time?")).hits:
        score = hit.score
        assert score.value == pytest.approx(0.7 * score.similarity + 0.3 * score.importance)
        assert score.similarity == pytest.approx(max(part.similarity for part in score.parts))


async def test_graph_brings_the_neighbour(deps: Deps) -> None:
    near = await ask(deps, "Where is order 20250712?")
    damaged = next(hit for hit in near.hits if hit.attribute == "order_problem")
    assert any(part.arm == "graph" and "FOLLOWS" in part.reason for part in damaged.score.parts)
    assert near.generations == {"milvus": 1, "neo4j": 1}
    far = await ask(deps, "Where is order 20250712?", max_hops=0)
    assert not any(part.arm == "graph" for hit in far.hits for part in hit.score.parts)


async def test_truth_decides(settings: Settings, deps: Deps) -> None:
    everything = {"limit": 100}
    values = shown(await ask(deps, "Where do I live?", **everything))
    assert "Berlin" in values
    assert not {"Hamburg", "Friday", "call"} & set(values)
    assert "Friday" in shown(await ask(deps, "appointment on Friday", include_tentative=True, **everything))
    assert "Hamburg" in shown(await ask(deps, "Where do I live?", include_superseded=True, **everything))
    # The stores have not followed yet: they still show content, the row does not.
    with admin(settings) as connection:
        connection.execute(
            "UPDATE memories SET status = 'deleted' WHERE value = '\"hiking\"'::jsonb AND tenant_id = 'one'"
        )
    later = await ask(deps, "What do I like?", **everything)
    assert "hiking" not in shown(later)
    assert later.dropped.get("deleted") == 1


async def test_filters(deps: Deps) -> None:
    facts = await ask(deps, "What about my order and my hobbies?", categories=("fact",), limit=100)
    assert {hit.category for hit in facts.hits} == {"fact"}
    sport = await ask(deps, "What do I like?", tags=("sport",), limit=100)
    assert shown(sport) == ["hiking"]
    assert not (await ask(deps, "What do I like?", max_age_hours=1.0)).hits
    assert len((await ask(deps, "What do I like?", limit=2)).hits) == 2


async def test_same_story_in_two_tenants_stays_apart(deps: Deps) -> None:
    own = {
        tenant: {m.memory_id for m in await Reader(deps.pool, tenant, ALICE).listed(limit=1000)}
        for tenant in ("one", "two")
    }
    assert not own["one"] & own["two"]
    for question in ("What is my name?", "order 20250712", "hiking", "我喜欢什么"):
        for tenant in ("one", "two"):
            response = await ask(deps, question, tenant_id=tenant, include_tentative=True, limit=100)
            assert {hit.memory_id for hit in response.hits} <= own[tenant]
            assert response.hits
    reader = Reader(deps.pool, "one", ALICE)
    foreign = next(iter(own["two"]))
    assert await reader.live([foreign, "not an id"]) == {}
    with pytest.raises(Rejected, match="has no memory"):
        await reader.memory(foreign)
    assert not (await ask(deps, "What is my name?", user="nobody")).hits


@pytest.mark.parametrize("bad", ['a" or user_id != "', "a' OR '1'='1", "", "用户", "a" * 129, "a/b", "x\n"])
async def test_ids_with_quotes_and_operators_are_refused(deps: Deps, bad: str) -> None:
    with pytest.raises(Rejected):
        await ask(deps, "What is my name?", user=bad)
    with pytest.raises(Rejected):
        await ask(deps, "What is my name?", tenant_id=bad)


async def test_filter_values_with_quotes_are_refused(deps: Deps) -> None:
    with pytest.raises(Rejected):
        await ask(deps, "What is my name?", categories=('x" or tenant_id != "',))


async def test_a_dead_store_costs_its_arm_only(settings: Settings, deps: Deps) -> None:
    gone = settings.model_copy(
        update={"neo4j_uri": "bolt://127.0.0.1:9", "milvus_uri": "http://127.0.0.1:9", "store_timeout_seconds": 1.0}
    )
    graph, vectors = Neo4jDoor(gone), MilvusDoor(gone)
    without_graph = await ask(replace(deps, graph=graph), "What is my name?")
    assert shown(without_graph)[0] == "Alice"
    assert {arm.arm: arm.state for arm in without_graph.arms}["graph"] in ("failed", "late")
    assert not without_graph.complete
    begun = time.monotonic()
    without_both = await ask(replace(deps, graph=graph, vectors=vectors), "order 20250712", deadline_seconds=2.0)
    assert time.monotonic() - begun < 3.0
    assert shown(without_both)[0] == "running shoes"
    assert {arm.arm for arm in without_both.arms if arm.state in ("failed", "late")} == {"graph", "vector"}
    await graph.close()
    await vectors.close()


async def test_without_postgres_there_is_no_answer(settings: Settings, deps: Deps, embedder: Embedder) -> None:
    away = settings.model_copy(update={"postgres_port": 9, "postgres_connect_timeout_seconds": 1.0})
    with pytest.raises(Retryable, match="Postgres does not answer"):
        async with opened(away, embedder):
            pass
    await deps.pool.close()
    with pytest.raises(Retryable, match="Postgres"):
        await ask(deps, "What is my name?")


async def test_another_model_is_an_error(deps: Deps, embedder: Embedder) -> None:
    class Other:
        revision, dimension = "other-1", embedder.dimension
        similar_threshold = duplicate_threshold = 0.9

        def embed(self, texts: list[str]) -> list[bytes]:
            return embedder.embed(texts)

    with pytest.raises(Rejected, match="embedded with other-1"):
        await ask(replace(deps, embedder=Other()), "What is my name?")


async def test_questions_side_by_side(deps: Deps) -> None:
    answers = await asyncio.gather(*(ask(deps, "What is my name?", user) for user in (ALICE, ZHANG) * 10))
    assert [shown(answer)[0] for answer in answers] == ["Alice", "张三"] * 10
    with pytest.raises(Rejected):
        await ask(deps, "  ")
    assert ROLE == "engram_reader"
