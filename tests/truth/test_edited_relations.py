"""An edited value takes the relations along that said the old one."""

import pytest
from truth_world import World, asked, candidate, said

from schemas.candidates import Relation


def lives_in(place: str) -> Relation:
    return Relation(subject_type="user", subject_id="self", predicate="LIVES_IN", object_type="place", object_id=place)


def in_china(subject: str) -> Relation:
    return Relation(
        subject_type="place", subject_id=subject, predicate="PART_OF", object_type="place", object_id="China"
    )


@pytest.mark.parametrize(("old", "new"), [("北京", "上海"), ("Beijing", "Shanghai")])
def test_a_relation_follows_the_edited_value_and_others_stay(old: str, new: str) -> None:
    world = World()
    world.apply(said(1, candidate("city", f'"{old}"', relations=(lives_in(old), in_china("north")))))
    memory = world.only("active")
    world.apply(asked(2, "edit", memory.memory_id, content="only other words"))
    assert world.only("active").relations == memory.relations
    world.apply(asked(3, "edit", memory.memory_id, value=f'"{new}"'))
    edited = world.only("active")
    assert [r.object_id for r in edited.relations] == [new, "China"]
    assert edited.content_hash != memory.content_hash


@pytest.mark.parametrize("value", ["7", "null", '""', '["a", "b"]', f'"{"x" * 2_000}"'])
def test_a_value_that_names_nothing_has_no_relation(value: str) -> None:
    world = World()
    world.apply(said(1, candidate("city", '"Leeds"', relations=(lives_in("Leeds"), in_china("north")))))
    world.apply(asked(2, "edit", world.only("active").memory_id, value=value))
    assert [r.object_id for r in world.only("active").relations] == ["China"]
