"""Milvus itself: filters, isolation, and vectors read back."""

from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest
from projector_samples import DIMENSION, REVISION, memory_id, update, vector

from projectors.entries import Generation
from projectors.milvus import MilvusDoor
from projectors.projection import milvus_row
from projectors.vector_search import VectorFilters, VectorQuery, expression
from schemas.digests import vector_digest
from schemas.errors import Rejected, Retryable
from schemas.settings import Settings

GENERATION = Generation("milvus", 1, "live", REVISION, DIMENSION)


def query(number: int, **changes: object) -> VectorQuery:
    return replace(VectorQuery("t1", "u1", REVISION, vector(number).values, limit=5), **changes)


@pytest.mark.parametrize("user_id", ['a" or user_id != "', "", "a b", "a\\"])
def test_ids_that_could_leave_their_quotes_are_refused(user_id: str) -> None:
    with pytest.raises(Rejected):
        expression(query(1, user_id=user_id))
    with pytest.raises(Rejected):
        expression(query(1, tenant_id=user_id))


@pytest.mark.parametrize("name", ['x"', "x\\", "a\nb", "", "y" * 257])
def test_names_that_could_leave_their_quotes_are_refused(name: str) -> None:
    with pytest.raises(Rejected):
        expression(query(1, filters=VectorFilters(tags=(name,))))
    with pytest.raises(Rejected):
        expression(query(1, filters=VectorFilters(categories=(name,))))


def test_tenant_and_user_stand_in_every_filter() -> None:
    assert expression(query(1)) == (
        'tenant_id == "t1" and user_id == "u1" and status == "active" and tombstone == false'
    )


@pytest.fixture
async def door(settings: Settings) -> AsyncIterator[MilvusDoor]:
    opened = MilvusDoor(settings)
    await opened.prepare(GENERATION)
    yield opened
    await opened.drop(GENERATION)
    await opened.close()


async def fill(door: MilvusDoor) -> None:
    snapshots = [
        update(1, category="preference", tags=("food",)),
        update(2, category="identity", tags=("name", "食物")),
        update(3, user_id="u2"),
        update(4, tenant_id="t2"),
        update(5, version=2, status="deleted"),
        update(6, status="tentative"),
    ]
    await door.write(GENERATION, [milvus_row(one, REVISION, DIMENSION) for one in snapshots])


@pytest.mark.stack
async def test_a_search_finds_the_users_own_active_memories(door: MilvusDoor) -> None:
    await fill(door)
    for flushed in (False, True):
        if flushed:
            await door.flush(GENERATION)
        hits = await door.search(GENERATION, query(1))
        assert [hit.memory_id for hit in hits] == [memory_id(1), memory_id(2)]
        assert hits[0].score == pytest.approx(1.0, abs=1e-5)
        assert hits[0].version == 1
        assert [hit.memory_id for hit in await door.search(GENERATION, query(1, user_id="u2"))] == [memory_id(3)]
        assert [hit.memory_id for hit in await door.search(GENERATION, query(1, tenant_id="t2"))] == [memory_id(4)]
        assert await door.search(GENERATION, query(1, tenant_id="t2", user_id="u2")) == []


@pytest.mark.stack
@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (VectorFilters(categories=("identity",)), [2]),
        (VectorFilters(categories=("identity", "preference")), [1, 2]),
        (VectorFilters(tags=("食物",)), [2]),
        (VectorFilters(tags=("food", "食物")), [1, 2]),
        (VectorFilters(tags=("none",)), []),
        (VectorFilters(event_time_from_ms=1_790_000_000_002), [2]),
        (VectorFilters(event_time_to_ms=1_790_000_000_002), [1]),
    ],
)
async def test_filters_narrow_a_search(door: MilvusDoor, filters: VectorFilters, found: list[int]) -> None:
    await fill(door)
    hits = await door.search(GENERATION, query(1, filters=filters))
    assert sorted(hit.memory_id for hit in hits) == sorted(memory_id(number) for number in found)


@pytest.mark.stack
async def test_a_query_of_another_model_is_an_error(door: MilvusDoor) -> None:
    with pytest.raises(Rejected) as raised:
        await door.search(GENERATION, query(1, revision="other-2"))
    assert raised.value.code == "wrong_revision"
    with pytest.raises(Rejected) as raised:
        await door.search(GENERATION, query(1, vector=b"\0" * 8))
    assert raised.value.code == "bad_vector"


@pytest.mark.stack
async def test_a_deep_read_sees_a_vector_that_was_changed_behind_its_digest(door: MilvusDoor) -> None:
    row = milvus_row(update(1), REVISION, DIMENSION)
    forged = np.frombuffer(vector(9).values, "<f4")
    await door.write(GENERATION, [replace(row, vector=forged)])
    key = (row.memory_id,)
    shallow = (await door.fingerprints_of(GENERATION, [key]))[key]
    deep = (await door.fingerprints_of(GENERATION, [key], deep=True))[key]
    assert shallow.fingerprint.digest == vector_digest(vector(1).values)
    assert deep.fingerprint.digest == vector_digest(vector(9).values)
    assert [entry async for entry in door.fingerprints(GENERATION, deep=True)] == [deep]


@pytest.mark.stack
async def test_a_deep_read_sees_content_in_a_tombstone(door: MilvusDoor) -> None:
    row = milvus_row(update(1, status="deleted"), REVISION, DIMENSION)
    await door.write(GENERATION, [replace(row, vector=np.frombuffer(vector(1).values, "<f4"))])
    (entry,) = [entry async for entry in door.fingerprints(GENERATION, deep=True)]
    assert entry.fingerprint.digest == vector_digest(vector(1).values)


@pytest.mark.stack
async def test_a_missing_collection_and_a_missing_server_can_be_tried_again(settings: Settings) -> None:
    door = MilvusDoor(settings)
    with pytest.raises(Retryable):
        await door.search(GENERATION, query(1))
    await door.close()
    nowhere = MilvusDoor(settings.model_copy(update={"milvus_uri": "http://127.0.0.1:1", "store_timeout_seconds": 1.0}))
    with pytest.raises(Retryable):
        await nowhere.healthy()
