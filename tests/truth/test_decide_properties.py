"""Laws that hold for any life of a user, whatever is said or asked."""

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from truth_world import DAY_MS, POLICY, START_MS, World, asked, candidate, fold, said, vector

from schemas.candidates import Candidate
from schemas.memories import Memory
from streams.changes import Body, DecodedProposal
from streams.content_hash import content_hash
from streams.decide import decide
from streams.decision_state import chain_key, dedupe_key, in_chain

VALUES = (
    '"深圳"',
    '"北京"',
    '"Shenzhen"',
    '"深圳南山"',
    '"tea"',
    '"绿茶"',
    '"green tea"',
    "null",
    "3",
    '{"a":1}',
    '{"a":1,"b":2}',
)


@st.composite
def candidates(draw: st.DrawFn) -> Candidate:
    return candidate(
        draw(st.sampled_from(("city", "name", "birthday", "likes", "dislikes", "order_status", "unheard_of"))),
        draw(st.sampled_from(VALUES)),
        confidence=draw(st.sampled_from((0.3, 0.5, 0.6, 0.85, 0.95))),
        source=draw(
            st.sampled_from(("official_id", "business_record", "user_statement", "assistant", "inferred", "?"))
        ),
        intent=draw(st.sampled_from(("inform", "correct", "cancel"))),
        negated=draw(st.sampled_from((False, False, False, True))),
        tentative=draw(st.sampled_from((False, False, True))),
        valid_from_ms=draw(st.sampled_from((None, None, START_MS - 100 * DAY_MS, START_MS + DAY_MS))),
        link_group=draw(st.sampled_from(("", "group"))),
        vectors=draw(
            st.sampled_from(((), (vector(1, 0),), (vector(0.9, 0.1),), (vector(0, 1), vector(1, 1, 1, revision="b"))))
        ),
        causes=draw(st.sampled_from(((), (0,), (1,)))),
    )


Step = tuple[str, object]


@st.composite
def lives(draw: st.DrawFn) -> list[Step]:
    turns = st.tuples(st.just("said"), st.tuples(st.lists(candidates(), max_size=3), st.integers(-3, 0)))
    kinds = ("forget", "restore", "edit", "confirm", "deny", "rollback", "approve", "reject", "nonsense")
    commands = st.tuples(st.sampled_from(kinds), st.integers(0, 30))
    return draw(st.lists(st.one_of(turns, turns, commands), min_size=1, max_size=14))


def proposals(world: World, steps: list[Step]) -> list[DecodedProposal]:
    """Apply ``steps``, commands aimed at whatever exists by then; return what was applied."""
    applied = []
    for number, (kind, what) in enumerate(steps, start=1):
        if kind == "said":
            facts, late = what  # type: ignore[misc]
            proposal = said(number, *facts, stated_at_ms=START_MS + (number + late) * 60_000)
        else:
            names = [m.memory_id for m in world.memories()] + [e.entry_id for e in (*world.waiting(), *world.reviews())]
            chosen = (sorted(names)[int(what) % len(names)],) if names else ()  # type: ignore[call-overload]
            proposal = asked(number, kind, *chosen, value='"新"', to_version=1)
        world.apply(proposal)
        applied.append(proposal)
    return applied


@settings(max_examples=300, deadline=None)
@given(lives())
def test_laws_of_memory(steps: list[Step]) -> None:
    world = World()
    proposals(world, steps)
    memories = world.memories()
    live = Counter((m.dedupe_key, m.status) for m in memories if m.status in ("active", "tentative"))
    assert all(count == 1 for count in live.values()), "one key says two things"
    for memory in memories:
        assert memory.dedupe_key == dedupe_key(memory, memory.user_id, POLICY), "the key is that of another value"
        assert memory.content_hash == content_hash(memory, POLICY.hash_key)
        assert 0 <= memory.confidence <= 1
        assert memory.tenant_id == "acme"
        assert memory.user_id == "alice"
        assert 1 <= memory.body_version <= memory.version
        if memory.status == "superseded":
            assert memory.superseded_at_ms is not None
    chain = sorted((m for m in memories if in_chain(m)), key=chain_key)
    expected = {m.memory_id: before.memory_id for before, m in pairwise(chain)}
    assert {m.memory_id: world.follows(m.memory_id) for m in memories if world.follows(m.memory_id)} == expected
    known = {m.memory_id for m in memories}
    targets = {e.target_id for m in memories for e in m.edges if e.target_kind == "memory"}
    assert targets <= known


@settings(max_examples=100, deadline=None)
@given(lives())
def test_versions_have_no_gap_and_the_fold_of_the_log_is_the_memory(steps: list[Step]) -> None:
    world = World()
    proposals(world, steps)
    versions: dict[str, list[int]] = {}
    for change in world.log:
        if change.kind == "memory":
            versions.setdefault(change.aggregate_id, []).append(change.version)
    assert all(found == list(range(1, len(found) + 1)) for found in versions.values())
    again: dict[tuple[str, str], Body] = {}
    fold(again, world.log)
    assert again == world.records
    fold(again, [change for change in world.log if change.kind == "memory"])
    assert {k: v for k, v in again.items() if k[0] == "memory"} == {
        k: v for k, v in world.records.items() if k[0] == "memory"
    }


@settings(max_examples=100, deadline=None)
@given(lives())
def test_deciding_again_gives_the_same(steps: list[Step]) -> None:
    first = World()
    applied = proposals(first, steps)
    second = World()
    for proposal in applied:
        assert decide(second.state(), proposal, POLICY) == decide(second.state(), proposal, POLICY)
        second.apply(proposal)
    assert second.log == first.log


@settings(max_examples=100, deadline=None)
@given(lives(), st.lists(candidates(), min_size=1, max_size=3))
def test_the_same_turn_twice_changes_no_memory_the_second_time(steps: list[Step], facts: list[Candidate]) -> None:
    world = World()
    proposals(world, steps)
    world.apply(said(90, *(c for c in facts if not c.negated)))
    before = {k: v for k, v in world.records.items() if isinstance(v, Memory) and "event-90" in v.source_event_ids}
    world.apply(said(90, *(c for c in facts if not c.negated), proposal_id="copy"))
    after = {k: world.records[k] for k in before}
    assert {k: (v.value, v.status) for k, v in after.items() if isinstance(v, Memory)} == {
        k: (v.value, v.status) for k, v in before.items()
    }
