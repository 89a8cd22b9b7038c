"""What one user's memory becomes, statement by statement, in Chinese and English."""

import pytest
from truth_world import DAY_MS, POLICY, START_MS, World, asked, candidate, said, vector

from schemas.candidates import Refusal, Relation
from schemas.memories import Edge
from streams import vocabulary
from streams.decision_rules import ACTIONS, is_big_jump, relation_of


def test_every_combination_of_the_table_is_decided() -> None:
    relations, times, ranks = ("same", "narrower", "broader", "other"), ("now", "earlier"), ("lower", "equal", "higher")
    assert set(ACTIONS) == {(r, t, k) for r in relations for t in times for k in ranks}


@pytest.mark.parametrize(
    ("attribute", "new", "known", "expected"),
    [
        ("city", '"深圳"', '"深圳市"', "same"),
        ("city", '"Shenzhen"', '"深圳"', "same"),
        ("address", '"深圳南山区科技园"', '"深圳南山区"', "narrower"),
        ("address", '"深圳南山区"', '"深圳南山区科技园"', "broader"),
        ("job", '"backend engineer"', '"engineer"', "narrower"),
        ("job", '"engineer"', '"backend engineer"', "broader"),
        ("job", '"engineering manager"', '"engineer"', "other"),
        ("job", '"not an engineer"', '"engineer"', "other"),
        ("job", '"前工程师不再"', '"工程师"', "other"),
        ("major", '"数学"', '"数"', "other"),
        ("age", "15", "5", "other"),
        ("order_status", '{"stage":"shipped","day":3}', '{"stage":"shipped"}', "narrower"),
        ("order_status", '{"stage":"lost"}', '{"stage":"shipped"}', "other"),
    ],
)
def test_how_two_values_relate(attribute: str, new: str, known: str, expected: str) -> None:
    assert relation_of(vocabulary, attribute, new, known) == expected


@pytest.mark.parametrize(
    ("attribute", "new", "known", "jumps"),
    [
        ("birthday", '"1990-05-01"', '"1991-05-01"', False),
        ("birthday", '"1980-05-01"', '"1991-05-01"', True),
        ("age", "36", "30", True),
        ("age", "31", "30", False),
        ("name", '"小红"', '"小明"', False),
        ("name", '"Bob"', '"Alice"', True),
        ("name", '"Alice Smith"', '"Alice Jones"', False),
        ("address", '"Beijing"', '"Shenzhen"', False),
        ("phone", '"13800138000"', '"13900139000"', False),
    ],
)
def test_what_is_a_big_jump(attribute: str, new: str, known: str, jumps: bool) -> None:
    assert is_big_jump(vocabulary, attribute, new, known, 5) is jumps


@pytest.mark.parametrize(("first", "again"), [('"深圳"', '"深圳市"'), ('"Berlin"', '"berlin "')])
def test_the_same_value_confirms_and_makes_no_second_memory(first: str, again: str) -> None:
    world = World()
    world.apply(said(1, candidate("city", first)))
    world.apply(said(2, candidate("city", again)))
    memory = world.only()
    assert (memory.version, memory.body_version, memory.confirmations) == (2, 1, 1)
    assert memory.confidence > 0.85
    assert memory.last_confirmed_at_ms == START_MS + 120_000
    assert memory.source_event_ids == ("event-1", "event-2")


def test_the_same_event_never_confirms_itself() -> None:
    world = World()
    world.apply(said(1, candidate("city", '"深圳"'), candidate("city", '"深圳"')))
    assert world.only().version == 1
    world.apply(said(1, candidate("city", '"深圳"'), proposal_id="copy"))
    assert world.only().version == 1


def test_a_more_specific_value_is_the_next_version_of_the_same_memory() -> None:
    world = World()
    world.apply(said(1, candidate("job", '"engineer"', vectors=(vector(1, 0),))))
    first = world.only().memory_id
    world.apply(said(2, candidate("job", '"backend engineer"', vectors=(vector(0, 1),))))
    memory = world.only()
    assert (memory.memory_id, memory.version, memory.body_version) == (first, 2, 2)
    assert memory.value == '"backend engineer"'
    assert world.vectors_of(first) == (vector(0, 1),)


@pytest.mark.parametrize(("old", "new"), [('"深圳"', '"北京"'), ('"Berlin"', '"Paris"')])
def test_the_newest_user_statement_wins_and_leaves_a_trail(old: str, new: str) -> None:
    world = World()
    world.apply(said(1, candidate("city", old, confidence=0.95)))
    world.apply(said(2, candidate("city", new, confidence=0.65)))
    current, before = world.only("active"), world.only("superseded")
    assert (current.value, current.supersedes) == (new, (before.memory_id,))
    assert (before.value, before.version, before.superseded_at_ms) == (old, 2, START_MS + 120_000)
    assert before.valid_to_ms == START_MS + 120_000


def test_a_statement_that_arrives_late_becomes_history() -> None:
    world = World()
    world.apply(said(5, candidate("city", '"北京"')))
    world.apply(said(6, candidate("city", '"深圳"'), stated_at_ms=START_MS))
    assert world.values("active") == ['"北京"']
    past = world.only("historical")
    assert (past.value, past.stated_at_ms) == ('"深圳"', START_MS)


@pytest.mark.parametrize(("now", "then"), [('"北京"', '"深圳"'), ('"Paris"', '"Berlin"')])
def test_a_statement_about_an_earlier_time_becomes_history(now: str, then: str) -> None:
    world = World()
    world.apply(said(1, candidate("city", now)))
    earlier = START_MS - 3000 * DAY_MS
    world.apply(said(2, candidate("city", then, valid_from_ms=earlier)))
    world.apply(said(3, candidate("city", then, valid_from_ms=earlier)))
    past = world.only("historical")
    assert world.values("active") == [now]
    assert (past.value, past.valid_from_ms, past.valid_to_ms) == (then, earlier, START_MS + 60_000)
    assert past.confirmations == 1


def test_a_superseded_value_can_be_stated_again() -> None:
    world = World()
    for number, value in enumerate(('"深圳"', '"北京"', '"深圳"'), start=1):
        world.apply(said(number, candidate("city", value)))
    assert world.values("active") == ['"深圳"']
    assert world.values("superseded") == ['"北京"', '"深圳"']


@pytest.mark.parametrize(("one", "two"), [('"花生"', '"海鲜"'), ('"peanuts"', '"shellfish"')])
def test_a_second_allergy_never_ends_the_first(one: str, two: str) -> None:
    world = World()
    world.apply(said(1, candidate("allergic_to", one)))
    world.apply(said(2, candidate("allergic_to", two)))
    assert world.values() == sorted([one, two])


def test_a_negation_ends_only_the_value_it_names() -> None:
    world = World()
    world.apply(said(1, candidate("allergic_to", '"花生"'), candidate("allergic_to", '"海鲜"')))
    world.apply(said(2, candidate("allergic_to", '"花生"', negated=True)))
    assert world.values("active") == ['"海鲜"']
    assert world.values("historical") == ['"花生"']
    world.apply(said(3, candidate("city", '"深圳"')))
    world.apply(said(4, candidate("city", '"北京"', negated=True)))
    assert '"深圳"' in world.values("active")
    world.apply(said(5, candidate("city", '"深圳"', negated=True)))
    assert '"深圳"' not in world.values("active")


def test_liking_what_was_disliked_ends_the_dislike() -> None:
    world = World()
    world.apply(said(1, candidate("dislikes", '"香菜"')))
    world.apply(said(2, candidate("likes", '"香菜"')))
    assert [m.attribute for m in world.memories("active")] == ["likes"]
    assert world.only("active").supersedes == (world.only("superseded").memory_id,)


def test_a_lower_source_never_replaces_a_higher_one() -> None:
    world = World()
    world.apply(said(1, candidate("order_status", '"shipped"', source="business_record", confidence=0.95)))
    world.apply(said(2, candidate("order_status", '"lost"', confidence=0.9)))
    assert world.values("active") == ['"shipped"']
    beside = world.only("review")
    assert (beside.value, beside.confidence) == ('"lost"', 0.7)
    (entry,) = world.reviews()
    assert (entry.reason, entry.memory_id, entry.other_memory_id) == (
        "lower_source",
        world.only("active").memory_id,
        beside.memory_id,
    )
    world.apply(said(3, candidate("order_status", '"lost"', confidence=0.9)))
    assert len(world.reviews()) == 1
    assert world.only("review").confirmations == 1


def test_a_higher_source_replaces_a_lower_one_even_by_a_jump() -> None:
    world = World()
    world.apply(said(1, candidate("birthday", '"1990-01-01"')))
    world.apply(said(2, candidate("birthday", '"1960-01-01"', source="official_id", confidence=0.95)))
    assert world.values("active") == ['"1960-01-01"']


def test_a_sensitive_jump_waits_for_review_and_can_be_approved_or_rejected() -> None:
    world = World()
    world.apply(said(1, candidate("birthday", '"1990-01-01"')))
    world.apply(said(2, candidate("birthday", '"1960-01-01"')))
    (entry,) = world.reviews()
    assert (world.values("active"), entry.reason) == (['"1990-01-01"'], "sensitive_jump")
    assert world.outcome(asked(3, "approve", entry.entry_id)).outcome == "accepted"
    assert (world.values("active"), world.reviews()) == (['"1960-01-01"'], [])
    world.apply(said(4, candidate("birthday", '"1990-01-01"')))
    (entry,) = world.reviews()
    world.apply(asked(5, "reject", entry.entry_id))
    assert (world.values("active"), world.reviews()) == (['"1960-01-01"'], [])


def test_an_uncertain_statement_waits_and_is_believed_the_second_time() -> None:
    world = World()
    world.apply(said(1, candidate("city", '"深圳"', confidence=0.5)))
    world.apply(said(1, candidate("city", '"深圳"', confidence=0.5), proposal_id="again"))
    (entry,) = world.waiting()
    assert world.memories() == []
    assert entry.expires_at_ms == START_MS + 60_000 + 30 * DAY_MS
    world.apply(said(2, candidate("city", '"北京"', confidence=0.5)))
    assert len(world.waiting()) == 2
    world.apply(said(3, candidate("city", '"深圳市"', confidence=0.55)))
    memory = world.only("active")
    assert (memory.value, memory.confidence) == ('"深圳市"', 0.6)
    assert [e.content for e in world.waiting()] == ['city: "北京"']


def test_a_person_may_accept_or_deny_what_waits() -> None:
    world = World()
    vectors = (vector(1, 2, 3),)
    world.apply(
        said(
            1,
            candidate("city", '"深圳"', confidence=0.5, vectors=vectors),
            candidate("job", '"teacher"', confidence=0.5),
        )
    )
    city, job = sorted(world.waiting(), key=lambda e: e.content)
    world.apply(asked(2, "confirm", city.entry_id))
    world.apply(asked(3, "deny", job.entry_id))
    memory = world.only("active")
    assert (memory.value, world.waiting()) == ('"深圳"', [])
    assert world.vectors_of(memory.memory_id) == vectors
    assert world.outcome(asked(4, "deny", job.entry_id)).outcome == "refused"


def test_an_uncertain_statement_of_the_known_value_confirms_it() -> None:
    world = World()
    world.apply(said(1, candidate("city", '"深圳"')))
    world.apply(said(2, candidate("city", '"深圳"', confidence=0.4)))
    assert (world.only().confirmations, world.waiting()) == (1, [])


def test_a_tentative_intention_becomes_active_by_confirmation() -> None:
    world = World()
    booking = {"entity_type": "appointment", "entity_id": "a1", "category": "episodic"}
    world.apply(said(1, candidate("appointment", '"周二"', tentative=True, **booking)))
    assert world.only("tentative").version == 1
    world.apply(said(2, candidate("appointment", '"周二"', source="business_record", confidence=0.95, **booking)))
    assert (world.only("active").version, world.only("active").source) == (2, "business_record")
    world.apply(said(3, candidate("appointment", '"周三"', tentative=True, source="business_record", **booking)))
    assert (world.values("active"), world.values("tentative")) == (['"周二"'], ['"周三"'])
    world.apply(asked(4, "confirm", world.only("tentative").memory_id))
    assert (world.values("active"), world.values("superseded")) == (['"周三"'], ['"周二"'])


def test_a_change_in_a_link_group_flags_the_others_once() -> None:
    world = World()
    order = {"entity_type": "order", "entity_id": "o1", "link_group": "order:o1"}
    world.apply(said(1, candidate("order_status", '"paid"', **order), candidate("order_item", '"shoes"', **order)))
    world.apply(said(2, candidate("order_status", '"cancelled"', **order)))
    item = next(m for m in world.memories("active") if m.attribute == "order_item")
    status = next(m for m in world.memories("active") if m.attribute == "order_status")
    assert (item.needs_check, item.version) == (status.memory_id, 2)
    world.apply(said(3, candidate("order_item", '"shoes"', **order)))
    item = next(m for m in world.memories("active") if m.attribute == "order_item")
    assert item.needs_check == ""


def test_refused_text_is_filed_and_makes_no_memory() -> None:
    world = World()
    refusal = Refusal(
        gate="gate1", rule_id="secret", gate_version="1", outcome="quarantine", side="user", excerpt="密码是***"
    )
    outcome = world.outcome(
        said(
            1,
            candidate("city", '"深圳"', outcome="quarantine"),
            candidate("job", '"x"', outcome="reject"),
            refusals=(refusal,),
        )
    )
    (entry,) = world.state().quarantine.values()
    assert (entry.excerpt, entry.state, world.memories(), outcome.refused) == ("密码是***", "waiting", [], 2)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"confidence": 1e15}, "bad_number 1"),
        ({"confidence": float("nan")}, "bad_number 1"),
        ({"importance": -0.1}, "bad_number 1"),
        ({"value": "{"}, "bad_value 1"),
        ({"value": "NaN"}, "bad_value 1"),
        ({"value": '"\\u0000"'}, "bad_value 1"),
        ({"content": "a\x00b"}, "bad_value 1"),
        ({"value": '"\\ud800"'}, "bad_value 1"),
        ({"entity_id": "x" * 300}, "too_long 1"),
        ({"vectors": (vector(float("nan"), 1),)}, "bad_vector 1"),
        ({"vectors": (vector(0, 0),)}, "bad_vector 1"),
    ],
)
def test_what_cannot_be_stored_is_counted_and_the_rest_goes_on(fields: dict[str, object], reason: str) -> None:
    world = World()
    bad = candidate("job", '"cook"', **({k: v for k, v in fields.items() if k != "value"}))
    if "value" in fields:
        bad = candidate("job", str(fields["value"]))
    outcome = world.outcome(said(1, bad, candidate("city", '"深圳"')))
    assert outcome.reason == reason
    assert '"深圳"' in world.values()


def test_one_turn_has_a_limit_of_facts() -> None:
    world = World()
    outcome = world.outcome(said(1, *[candidate("likes", f'"thing {i}"') for i in range(103)]))
    assert (len(world.memories()), outcome.refused, outcome.reason) == (100, 3, "too_many 3")


def test_relations_belong_to_the_memory_and_self_is_the_user() -> None:
    world = World()
    relation = Relation(subject_type="user", subject_id="self", predicate="likes", object_type="food", object_id="豆腐")
    broken = Relation(subject_type="user", subject_id="", predicate="likes", object_type="food", object_id="x")
    world.apply(said(1, candidate("likes", '"豆腐"', relations=(relation, relation, broken))))
    (kept,) = world.only().relations
    assert kept.subject_id == "alice"
    assert Edge(kind="BELONGS_TO", target_kind="entity", target_id="user:alice") in world.only().edges


def test_causes_and_similar_memories_are_linked() -> None:
    world = World()
    world.apply(
        said(
            1,
            candidate("event", '"rain"', vectors=(vector(1, 0),)),
            candidate("event", '"late"', vectors=(vector(0, 1),), causes=(0,)),
        )
    )
    rain = next(m for m in world.memories() if m.value == '"rain"')
    late = next(m for m in world.memories() if m.value == '"late"')
    assert Edge(kind="CAUSES", target_kind="memory", target_id=late.memory_id) in rain.edges
    world.apply(said(2, candidate("event", '"wet"', vectors=(vector(1, 0.1), vector(1, 0, revision="other")))))
    wet = next(m for m in world.memories() if m.value == '"wet"')
    similar = [e for e in wet.edges if e.kind == "SIMILAR_TO"]
    assert [(e.target_id, e.weight) for e in similar] == [(rain.memory_id, 0.995)]


def test_memories_follow_each_other_in_the_order_of_their_time() -> None:
    world = World()
    for number in (1, 2, 3):
        world.apply(said(number, candidate("event", f'"{number}"')))
    one, two, three = sorted(world.memories(), key=lambda m: m.value)
    assert [world.follows(m.memory_id) for m in (one, two, three)] == ["", one.memory_id, two.memory_id]
    assert [m.version for m in (one, two, three)] == [1, 1, 1]
    world.apply(said(4, candidate("event", '"1.5"', valid_from_ms=one.stated_at_ms + 1)))
    between = next(m for m in world.memories() if m.value == '"1.5"')
    assert world.follows(between.memory_id) == one.memory_id
    assert world.follows(two.memory_id) == between.memory_id
    two = next(m for m in world.memories() if m.value == '"2"')
    assert (two.version, two.body_version) == (2, 1)
    world.apply(asked(5, "forget", between.memory_id, two.memory_id))
    assert world.follows(three.memory_id) == one.memory_id
    world.apply(asked(6, "restore", two.memory_id))
    assert (world.follows(two.memory_id), world.follows(three.memory_id)) == (one.memory_id, two.memory_id)


def test_forgetting_overtakes_turns_that_are_still_on_their_way() -> None:
    world = World()
    world.apply(said(1, candidate("city", '"深圳"')))
    world.apply(asked(10, "forget", world.only().memory_id, before_ms=START_MS + 5 * 60_000))
    late = world.outcome(said(11, candidate("city", '"深圳"'), received_at_ms=START_MS + 4 * 60_000))
    assert (late.outcome, late.reason, world.memories("active")) == ("nothing", "forgotten 1", [])
    world.apply(said(12, candidate("city", '"深圳"'), received_at_ms=START_MS + 6 * 60_000))
    assert world.values("active") == ['"深圳"']


def test_forgetting_a_user_covers_every_key() -> None:
    world = World()
    world.apply(
        said(1, candidate("city", '"深圳"'), candidate("likes", '"茶"'), candidate("job", '"x"', confidence=0.4))
    )
    world.apply(asked(2, "forget", whole_user=True))
    assert len(world.memories("deleted")) == 2
    assert world.waiting() == []
    world.apply(said(3, candidate("speaks", '"法语"'), received_at_ms=START_MS))
    assert len(world.memories()) == 2


def test_restoring_brings_back_the_status_before_unless_something_newer_stands() -> None:
    world = World()
    world.apply(said(1, candidate("city", '"深圳"')))
    memory_id = world.only().memory_id
    world.apply(asked(2, "forget", memory_id))
    world.apply(said(3, candidate("city", '"北京"')))
    refused = world.outcome(asked(4, "restore", memory_id))
    assert (refused.outcome, "newer" in refused.reason) == ("refused", True)
    world.apply(asked(5, "forget", world.only("active").memory_id))
    world.apply(asked(6, "restore", memory_id))
    assert (world.only("active").value, world.only("active").version) == ('"深圳"', 3)


def test_an_edit_checks_the_version_and_keeps_no_stale_vector() -> None:
    world = World()
    world.apply(said(1, candidate("city", '"深圳"', vectors=(vector(1, 0),))))
    memory_id = world.only().memory_id
    refused = world.outcome(asked(2, "edit", memory_id, expected={memory_id: 7}, value='"北京"', content="在北京"))
    assert (refused.outcome, world.only().version) == ("refused", 1)
    world.apply(asked(3, "edit", memory_id, expected={memory_id: 1}, value='"北京"', content="在北京"))
    memory = world.only()
    assert (memory.value, memory.content, memory.version, memory.body_version) == ('"北京"', "在北京", 2, 2)
    assert world.vectors_of(memory_id) == ()
    world.apply(asked(4, "edit", memory_id, value='"上海"', vectors=(vector(0, 1),)))
    assert world.vectors_of(memory_id) == (vector(0, 1),)
    assert world.outcome(asked(5, "edit", memory_id, value="{")).outcome == "refused"


def test_a_correction_survives_the_old_statement_said_again_by_a_lower_source() -> None:
    world = World()
    world.apply(said(1, candidate("city", '"深圳"')))
    world.apply(asked(2, "edit", world.only().memory_id, value='"北京"', content="在北京"))
    world.apply(said(3, candidate("city", '"深圳"', source="assistant", confidence=0.9)))
    assert world.values("active") == ['"北京"']


def test_rolling_back_makes_a_new_version_with_the_old_content() -> None:
    world = World()
    world.apply(said(1, candidate("job", '"engineer"')))
    world.apply(said(2, candidate("job", '"backend engineer"')))
    memory_id = world.only().memory_id
    world.apply(asked(3, "rollback", memory_id, to_version=1))
    memory = world.only()
    assert (memory.value, memory.version, memory.body_version, memory.status) == ('"engineer"', 3, 3, "active")
    assert world.outcome(asked(4, "rollback", memory_id, to_version=9)).outcome == "refused"


def test_denying_ends_a_memory_and_confirming_strengthens_it() -> None:
    world = World()
    world.apply(said(1, candidate("likes", '"茶"'), candidate("likes", '"coffee"')))
    tea = next(m for m in world.memories() if m.value == '"茶"')
    world.apply(asked(2, "deny", tea.memory_id))
    assert world.values("active") == ['"coffee"']
    coffee = world.only("active")
    world.apply(asked(3, "confirm", coffee.memory_id))
    assert world.only("active").confirmations == 1
    assert world.outcome(asked(4, "confirm", tea.memory_id)).outcome == "refused"


@pytest.mark.parametrize("kind", ["forget", "restore", "edit", "confirm", "deny", "rollback", "approve", "reject"])
def test_a_command_about_an_unknown_memory_is_refused_whole(kind: str) -> None:
    world = World()
    world.apply(said(1, candidate("city", '"深圳"')))
    before = dict(world.records)
    known, unknown = world.only().memory_id, "11111111-1111-1111-1111-111111111111"
    assert world.outcome(asked(2, kind, known, unknown, value='"x"', to_version=1)).outcome == "refused"
    assert world.outcome(asked(3, kind)).outcome == "refused"
    assert world.records == before


def test_an_unknown_kind_is_an_outcome_and_loses_nothing() -> None:
    outcome = World().outcome(asked(1, "plan", "x"))
    assert (outcome.outcome, outcome.reason) == ("refused", "unknown kind of proposal: plan")


def test_a_proposal_without_a_body_only_has_an_outcome() -> None:
    proposal = said(1)
    (change,) = World().apply(type(proposal)(proposal.envelope, None))
    assert (change.kind, change.status, change.aggregate_id) == ("command", "nothing", "event-1")


def test_people_do_not_share_keys() -> None:
    world = World()
    world.apply(said(1, candidate("allergic_to", '"花生"', subject="user"), candidate("city", '"深圳"')))
    world.apply(said(2, candidate("city", '"北京"', subject="person:mother", entity_type="person", entity_id="mother")))
    assert world.values("active") == ['"北京"', '"深圳"', '"花生"']
    assert POLICY.rank("nobody") == 0
