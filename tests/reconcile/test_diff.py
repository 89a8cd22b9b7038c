"""The merge finds every difference and nothing else, whatever the pages' sizes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectors.entries import Entry, Fingerprint, Key
from reconcile.diff import Difference, KeyOrderMerge, Side, difference, unchanged
from reconcile.plan import check_share, rows_of
from schemas.errors import Broken, Rejected


def entry(
    key: str, *, version: int = 1, hash_: str = "h", digest: str = "d", content: bool = True, user: str = "u"
) -> Entry:
    return Entry((key,), "t", user, Fingerprint(version, hash_, "r", digest), content)


def merged(truth: list[Entry], store: list[Entry], seed: int = 0) -> tuple[int, list[Difference]]:
    sizes = random.Random(seed)  # noqa: S311 - page sizes, not secrets
    left: dict[Side, list[Entry]] = {"truth": list(truth), "store": list(store)}
    merge = KeyOrderMerge()
    found: list[Difference] = []
    while (side := merge.wants) is not None:
        count = sizes.randint(1, 5)
        page, left[side] = left[side][:count], left[side][count:]
        if page:
            merge.push(side, page)
        else:
            merge.end(side)
        found += merge.drain()
    return merge.checked, found


ENTRIES = st.dictionaries(
    st.integers(0, 30),
    st.tuples(st.integers(1, 3), st.sampled_from("ab"), st.sampled_from("xy"), st.booleans(), st.sampled_from("uv")),
    max_size=30,
)


@given(ENTRIES, ENTRIES, st.integers(0, 1000))
def test_merge_equals_the_look_by_key(truth: dict[int, tuple], store: dict[int, tuple], seed: int) -> None:  # type: ignore[type-arg]
    def entries(of: dict[int, tuple]) -> list[Entry]:  # type: ignore[type-arg]
        return [
            Entry((key,), "t", user, Fingerprint(version, hash_, "r", digest), content)
            for key, (version, hash_, digest, content, user) in sorted(of.items())
        ]

    left, right = entries(truth), entries(store)
    checked, found = merged(left, right, seed)
    by_key = [{item.key: item for item in side} for side in (left, right)]
    keys = sorted(by_key[0].keys() | by_key[1].keys())
    wanted = [difference(by_key[0].get(key), by_key[1].get(key)) for key in keys]
    assert found == [item for item in wanted if item is not None]
    assert checked == len(keys)


def test_kinds() -> None:
    truth = [
        entry("a"),
        entry("b"),
        entry("c", content=False, digest=""),
        entry("d"),
        entry("f", content=False, digest=""),
    ]
    store = [
        entry("b", version=2),
        entry("c"),
        entry("d", user="other"),
        entry("e"),
        entry("f", version=0, content=False, digest=""),
        entry("g", content=False, digest=""),
    ]
    checked, found = merged(truth, store)
    kinds = [(item.kind, item.key[0]) for item in found]
    assert kinds == [("missing", "a"), ("stale", "b"), ("orphan", "c"), ("stale", "d"), ("orphan", "e"), ("stale", "f")]
    assert checked == 7


def test_wrong_order_stops() -> None:
    merge = KeyOrderMerge()
    merge.push("truth", [entry("b")])
    with pytest.raises(Broken, match="key order"):
        merge.push("truth", [entry("a")])


def test_only_what_stayed_the_same_counts() -> None:
    _, suspects = merged([entry("a"), entry("b"), entry("c")], [entry("b", version=7)])
    moved_on: dict[Key, Entry] = {("a",): entry("a"), ("b",): entry("b"), ("c",): entry("c", version=2)}
    assert [item.key[0] for item in unchanged(suspects, moved_on, {("b",): entry("b", version=7)})] == ["a", "b"]
    assert unchanged(suspects, moved_on, {("a",): entry("a"), ("b",): entry("b", version=8)}) == ()


A, Z = "aaaaaaaa-0000-4000-8000-000000000000", "ffffffff-0000-4000-8000-000000000000"


def test_repair_rows_say_what_was_seen() -> None:
    _, found = merged([entry(A, version=4)], [entry(A, version=9, hash_="x", digest="y"), entry(Z, version=3)])
    rows = rows_of("milvus", 2, found)
    assert [row.dedupe_key for row in rows] == [f"milvus:g2:{A}:4:repair:repair", f"milvus:g2:{Z}:3:repair:repair"]
    assert (rows[0].header.observed_version, rows[0].header.observed_hash, rows[0].header.observed_digest) == (
        9,
        "x",
        "y",
    )
    assert [row.known for row in rows] == [True, False]
    _, missing = merged([entry(A)], [])
    assert rows_of("neo4j", 1, missing)[0].header.observed_version == -1


def test_two_generations_that_need_the_same_repair_each_get_it() -> None:
    _, found = merged([entry(A)], [])
    keys = {row.dedupe_key for number in (1, 2) for row in rows_of("milvus", number, found)}
    assert len(keys) == 2


def test_what_no_projector_wrote_gets_no_row() -> None:
    _, found = merged([], [entry("not an id")])
    assert rows_of("milvus", 1, found) == ()


def test_an_orphan_of_influx_is_named_by_its_place() -> None:
    fingerprint = Fingerprint(3, "h", "", "event-1")
    known = Entry(("t", "u", "s", 3, 1000), "t", "u", fingerprint)
    orphan, stale = Difference("orphan", known.key, None, known), Difference("missing", known.key, known, None)
    row = rows_of("influx", 1, [orphan])[0]
    assert (row.aggregate_id, row.target, row.header.place) == ("event-1", "working", "s/3/1000")
    assert rows_of("influx", 1, [stale])[0].header.place == ""


def test_too_many_repairs_are_refused() -> None:
    check_share(10, 12, 0.2)
    check_share(20, 100, 0.2)
    with pytest.raises(Rejected, match="21 of 100"):
        check_share(21, 100, 0.2)
