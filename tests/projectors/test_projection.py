"""The mapping: what goes into each store, and what never does."""

import numpy as np
import pytest
from projector_samples import DIMENSION, REVISION, belongs, event, follows, relation, update, vector

from projectors.entries import Generation
from projectors.names import collection_name, database_name, graph_mark, group_name
from projectors.projection import (
    edge_type,
    edges_digest,
    entity_of,
    entity_target,
    influx_point,
    milvus_fingerprint,
    milvus_row,
    neo4j_fingerprint,
    neo4j_node,
    unit_vector,
)
from schemas.candidates import Vector
from schemas.digests import vector_digest
from schemas.errors import Rejected
from schemas.memories import STATUSES, Edge
from schemas.working import WorkingPayload


def test_an_active_memory_has_its_vector_in_milvus() -> None:
    row = milvus_row(update(1, tags=("a", "b")), REVISION, DIMENSION)
    assert not row.tombstone
    assert row.vector.tobytes() == vector(1).values
    assert row.fingerprint == (1, update(1, tags=("a", "b")).content_hash, REVISION, vector_digest(vector(1).values))
    assert row.tags == ("a", "b")


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "active"])
def test_every_other_status_is_a_tombstone_in_milvus(status: str) -> None:
    row = milvus_row(update(1, status=status, tags=("secret",)), REVISION, DIMENSION)
    assert row.tombstone
    assert np.array_equal(row.vector, unit_vector(DIMENSION))
    assert (row.status, row.category, row.tags, row.fingerprint.digest) == (status, "", (), "")
    assert row.fingerprint == milvus_fingerprint(1, row.fingerprint.content_hash, status, REVISION, "d")


def test_a_memory_without_a_vector_of_the_revision_is_a_tombstone() -> None:
    row = milvus_row(update(1, vectors=[vector(1, "other-2")]), REVISION, DIMENSION)
    assert row.tombstone
    assert row.status == "active"


def test_the_collections_own_revision_is_chosen() -> None:
    row = milvus_row(update(1, vectors=[vector(1, "other-2"), vector(2)]), REVISION, DIMENSION)
    assert row.vector.tobytes() == vector(2).values


@pytest.mark.parametrize(
    ("values", "code"),
    [(b"\0" * 12, "bad_vector"), (np.full(DIMENSION, np.nan, "<f4").tobytes(), "bad_vector")],
)
def test_a_vector_that_does_not_fit_is_refused(values: bytes, code: str) -> None:
    with pytest.raises(Rejected) as raised:
        milvus_row(update(1, vectors=[Vector(REVISION, values)]), REVISION, DIMENSION)
    assert raised.value.code == code


@pytest.mark.parametrize("user_id", ["", 'a" or user_id != "', "x" * 129, "名字"])
def test_ids_outside_the_pattern_are_refused_for_every_store(user_id: str) -> None:
    with pytest.raises(Rejected):
        milvus_row(update(1, user_id=user_id), REVISION, DIMENSION)
    with pytest.raises(Rejected):
        neo4j_node(update(1, user_id=user_id))
    with pytest.raises(Rejected):
        influx_point(event(1, user_id=user_id), None)


def test_no_text_of_a_memory_goes_to_milvus_or_neo4j() -> None:
    told = update(1, content="对花生过敏 allergic to peanuts")
    assert "花生" not in repr(milvus_row(told, REVISION, DIMENSION))
    assert "花生" not in repr(neo4j_node(told))


def test_a_gone_memory_is_a_node_without_edges() -> None:
    node = neo4j_node(update(1, status="erased", edges=[follows(2)]))
    assert node.tombstone
    assert (node.properties, node.edges, node.relations) == ({}, (), ())


@pytest.mark.parametrize(
    "edge",
    [
        Edge(kind="", target_kind="memory", target_id="m"),
        Edge(kind="!?", target_kind="memory", target_id="m"),
        Edge(kind="FOLLOWS", target_kind="planet", target_id="m"),
    ],
)
def test_an_edge_that_cannot_stand_in_the_graph_is_refused(edge: Edge) -> None:
    with pytest.raises(Rejected):
        neo4j_node(update(1, edges=[edge]))


def test_edge_types_are_words() -> None:
    assert edge_type("works_for") == "WORKS_FOR"
    assert edge_type("allergic to") == "ALLERGIC_TO"
    assert edge_type("购买") == "购买"


def test_the_digest_of_edges_ignores_their_order_and_nothing_else() -> None:
    edges, relations = [belongs("a:b"), follows(2)], [relation("a:b", "likes", "c:d"), relation("a:b", "likes", "c:e")]
    digest = edges_digest(edges, relations)
    assert digest == edges_digest(edges[::-1], relations[::-1])
    others = [
        edges_digest(edges[:1], relations),
        edges_digest(edges, relations[:1]),
        edges_digest([belongs("a:b", 0.5), follows(2)], relations),
        edges_digest(edges, [relation("a:b", "hates", "c:d"), relations[1]]),
    ]
    assert len({digest, *others}) == 5
    assert edges_digest([], []) == ""
    assert neo4j_fingerprint(2, "h", "deleted", edges, relations).digest == ""


@pytest.mark.parametrize("target", ["person:张总", "order:A:1", "noType", ":x", "x:"])
def test_an_entity_target_is_read_back_as_it_was(target: str) -> None:
    assert entity_target(*entity_of(target)) == target


def test_a_point_stands_at_its_own_nanosecond() -> None:
    points = [influx_point(event(sequence, occurred_at_ms=5), None) for sequence in (1, 2)]
    assert [point.time_ns for point in points] == [5_000_001, 5_000_002]
    with pytest.raises(Rejected):
        influx_point(event(1_000_000), None)


def test_a_point_without_payload_has_every_field_empty() -> None:
    shown = influx_point(event(1), WorkingPayload(masked_input="hi", fields={"b": "2", "a": "1"}))
    assert (shown.masked_input, shown.fields) == ("hi", '{"a":"1","b":"2"}')
    hidden = influx_point(event(1), None)
    assert (hidden.masked_input, hidden.fields) == ("", "{}")
    assert hidden.key == shown.key


def test_an_orphaned_event_is_a_delete() -> None:
    point = influx_point(event(1, event_type="orphaned", session_id="", event_id="e9"), None)
    assert point.delete
    assert point.key == ("t1", "u1", "e9")


def test_names_belong_to_prefix_and_generation() -> None:
    generation = Generation("milvus", 7, "live", "use-3/v1", 512)
    assert collection_name("", generation) == "memories_use_3_v1_g7"
    assert collection_name("t1.", generation) == "t1_memories_use_3_v1_g7"
    assert database_name("", generation) == "engram_g7"
    assert graph_mark("t1.", generation) == "t1_g7"
    assert group_name("t1.", generation) == "t1.projector.milvus.g7"
