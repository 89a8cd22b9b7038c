"""The guard: the table of verdicts, and the fold of a batch over it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectors.batch import Change, plan_guarded, plan_unguarded
from projectors.entries import Entry, Fingerprint, Generation
from projectors.guard import TABLE, Verdict, judge
from schemas.memories import Repair

GENERATION = Generation("milvus", 3, "live", "r1", 4)
EVENT = Fingerprint(5, "h5", "r1", "d1")


@pytest.mark.parametrize(
    ("event", "stored", "verdict"),
    [
        (EVENT, None, Verdict.APPLY),
        (EVENT, EVENT._replace(version=4), Verdict.APPLY),
        (EVENT, EVENT._replace(version=6), Verdict.OLDER),
        (EVENT, EVENT, Verdict.NOTHING),
        (EVENT, EVENT._replace(content_hash="other"), Verdict.CONFLICT),
        (EVENT, EVENT._replace(digest="other"), Verdict.VECTOR_ONLY),
        (EVENT, EVENT._replace(digest=""), Verdict.VECTOR_ONLY),
        (EVENT, EVENT._replace(revision="r0"), Verdict.VECTOR_ONLY),
        (EVENT._replace(digest=""), EVENT, Verdict.NOTHING),
        (EVENT._replace(version=6, digest=""), EVENT, Verdict.APPLY),
    ],
)
def test_the_table(event: Fingerprint, stored: Fingerprint | None, verdict: Verdict) -> None:
    assert judge(event, stored) is verdict


def repair(stored: Fingerprint | None, *, store: str = "milvus", generation: int = 3) -> Repair:
    if stored is None:
        return Repair(store=store, generation=generation, observed_version=-1)
    return Repair(
        store=store,
        generation=generation,
        observed_version=stored.version,
        observed_hash=stored.content_hash,
        observed_digest=stored.digest,
    )


@pytest.mark.parametrize("stored", [None, EVENT, EVENT._replace(version=99), EVENT._replace(content_hash="x")])
def test_a_repair_applies_where_the_store_shows_what_it_names(stored: Fingerprint | None) -> None:
    assert judge(EVENT, stored, repair(stored), "milvus", 3) is Verdict.APPLY


@pytest.mark.parametrize("header", [repair(EVENT, store="neo4j"), repair(EVENT, generation=2)])
def test_a_repair_for_somebody_else_is_an_ordinary_snapshot(header: Repair) -> None:
    assert judge(EVENT, EVENT, header, "milvus", 3) is Verdict.NOTHING


def test_a_repair_that_names_what_is_no_longer_there_is_an_ordinary_snapshot() -> None:
    newer = EVENT._replace(version=7)
    assert judge(EVENT, newer, repair(EVENT), "milvus", 3) is Verdict.OLDER
    assert judge(EVENT, EVENT, repair(None), "milvus", 3) is Verdict.NOTHING


fingerprints = st.builds(
    Fingerprint, st.integers(1, 3), st.sampled_from("ab"), st.sampled_from(["r1"]), st.sampled_from(["", "d1", "d2"])
)


@given(fingerprints, st.none() | fingerprints)
def test_without_a_repair_no_version_goes_down_and_no_hash_is_overwritten(
    event: Fingerprint, stored: Fingerprint | None
) -> None:
    verdict = judge(event, stored)
    assert verdict in TABLE.values()
    if verdict in (Verdict.APPLY, Verdict.VECTOR_ONLY) and stored is not None:
        assert event.version > stored.version or event[:2] == stored[:2]


def change(fingerprint: Fingerprint, *, header: Repair | None = None, user_id: str = "u1") -> Change[str]:
    return Change(("m1",), "t1", user_id, fingerprint, f"item {fingerprint.version}{fingerprint.digest}", header)


def stored_as(fingerprint: Fingerprint) -> dict[tuple[str | int, ...], Entry]:
    return {("m1",): Entry(("m1",), "t1", "u1", fingerprint)}


def test_a_batch_is_judged_in_order_and_written_once() -> None:
    versions = [EVENT._replace(version=number, content_hash=f"h{number}") for number in (6, 8, 7, 8)]
    plan = plan_guarded([change(one) for one in versions], GENERATION, stored_as(EVENT), {})
    assert plan.items == {("m1",): "item 8d1"}
    assert plan.verdicts == {"apply": 2, "older": 1, "nothing": 1}


def test_a_conflict_is_kept_and_writes_nothing() -> None:
    plan = plan_guarded([change(EVENT)], GENERATION, stored_as(EVENT._replace(content_hash="x")), {})
    assert (plan.items, plan.forced) == ({}, {})
    (conflict,) = plan.conflicts
    assert msgspec.structs.asdict(conflict) == {
        "store": "milvus",
        "generation": 3,
        "tenant_id": "t1",
        "user_id": "u1",
        "aggregate_id": "m1",
        "version": 5,
        "event_hash": "h5",
        "stored_version": 5,
        "stored_hash": "x",
    }


def test_a_key_that_is_another_users_is_a_conflict() -> None:
    plan = plan_guarded([change(EVENT._replace(version=9), user_id="u2")], GENERATION, stored_as(EVENT), {})
    assert plan.items == {}
    assert plan.conflicts[0].user_id == "u2"


def test_after_a_repair_later_events_of_the_batch_are_forced_too() -> None:
    wrong = EVENT._replace(version=99)
    later = EVENT._replace(version=6, content_hash="h6")
    plan = plan_guarded([change(EVENT, header=repair(wrong)), change(later)], GENERATION, stored_as(wrong), {})
    assert (plan.items, plan.forced) == ({}, {("m1",): "item 6d1"})


def test_a_repair_may_name_what_a_deep_look_saw() -> None:
    deep = EVENT._replace(digest="corrupt")
    plan = plan_guarded([change(EVENT, header=repair(deep))], GENERATION, stored_as(EVENT), stored_as(deep))
    assert plan.forced == {("m1",): "item 5d1"}


def test_a_repair_may_name_what_a_shallow_look_saw() -> None:
    deep = EVENT._replace(digest="corrupt")
    plan = plan_guarded([change(EVENT, header=repair(EVENT))], GENERATION, stored_as(EVENT), stored_as(deep))
    assert plan.forced == {("m1",): "item 5d1"}


def test_without_a_guard_every_event_is_written_and_repairs_are_forced() -> None:
    generation = Generation("influx", 1)
    header = repair(None, store="influx", generation=1)
    plan = plan_unguarded([change(EVENT), change(EVENT._replace(version=1))], generation)
    assert (plan.items, plan.forced) == ({("m1",): "item 1d1"}, {})
    plan = plan_unguarded([change(EVENT), change(EVENT, header=header)], generation)
    assert (plan.items, plan.forced) == ({}, {("m1",): "item 5d1"})
