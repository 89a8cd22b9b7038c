"""What a command makes live meets everything it cannot stand beside, and what was forgotten does not come back by approval."""

import msgspec
import pytest
from truth_bench import Bench, opened
from truth_world import POLICY, START_MS, World, asked, candidate, said

from schemas.candidates import Refusal
from schemas.memories import Memory, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.settings import Settings
from streams.changes import DecodedProposal
from streams.decision_state import dedupe_key

BIRTHDAYS = [('"1990-05-03"', '"2004-05-03"'), ('"1990年5月3日"', '"2004年5月3日"')]
DRINKS = [('"tea"', '"coffee"'), ('"茶"', '"咖啡"')]


def refusal(outcome: str = "quarantine") -> Refusal:
    return Refusal(gate="gate0", rule_id="r", gate_version="1", outcome=outcome, side="user", excerpt="***")


@pytest.mark.parametrize(("known", "jump"), BIRTHDAYS)
def test_forgetting_closes_the_reviews_of_that_key(known: str, jump: str) -> None:
    world = World()
    world.apply(said(1, candidate("birthday", known), candidate("city", '"深圳"')))
    world.apply(said(2, candidate("birthday", jump)))
    (review,) = world.reviews()
    born = next(m for m in world.memories("active") if m.attribute == "birthday")
    assert world.outcome(asked(3, "forget", born.memory_id)).outcome == "accepted"
    assert world.reviews() == []
    assert world.outcome(asked(4, "approve", review.entry_id)).outcome == "refused"
    assert world.values() == ['"深圳"']


@pytest.mark.parametrize(("known", "claimed"), [('"小明"', '"小红"'), ('"Ann"', '"Bob"')])
def test_a_memory_under_review_is_forgotten_with_its_key(known: str, claimed: str) -> None:
    world = World()
    world.apply(said(1, candidate("name", known)))
    world.apply(said(2, candidate("name", claimed, source="assistant")))
    beside = world.only("review")
    world.apply(asked(3, "forget", world.only("active").memory_id))
    assert [m.status for m in world.memories()] == ["deleted", "deleted"]
    for kind, name in (("approve", beside.memory_id), ("confirm", beside.memory_id)):
        assert world.outcome(asked(4, kind, name)).outcome == "refused"


def test_forgetting_a_user_closes_everything_that_waits() -> None:
    world = World()
    world.apply(said(1, candidate("birthday", BIRTHDAYS[0][0]), candidate("job", '"cook"', confidence=0.4)))
    world.apply(said(2, candidate("birthday", BIRTHDAYS[0][1]), refusals=(refusal(), refusal("reject"))))
    waiting = [b.entry_id for b in world.records.values() if isinstance(b, PendingEntry | ReviewEntry)]
    refused = [b for b in world.records.values() if isinstance(b, QuarantineEntry)]
    world.apply(asked(3, "forget", whole_user=True))
    states = {b.entry_id: b.state for b in world.records.values() if hasattr(b, "entry_id")}
    assert {states[name] for name in waiting} == {"forgotten"}
    assert sorted(states[entry.entry_id] for entry in refused) == ["forgotten", "rejected"]
    for number, name in enumerate([*waiting, *(entry.entry_id for entry in refused)], start=4):
        assert world.outcome(asked(number, "approve", name)).outcome == "refused"
    assert world.values("active", "tentative", "review") == []


def test_an_entry_older_than_the_mark_is_refused_even_where_it_still_waits() -> None:
    """A log written before reviews were closed still holds them waiting."""
    world = World()
    world.apply(said(1, candidate("birthday", BIRTHDAYS[0][0]), candidate("job", '"cook"', confidence=0.4)))
    world.apply(said(2, candidate("birthday", BIRTHDAYS[0][1]), refusals=(refusal(),)))
    old = {name: body for name, body in world.records.items() if hasattr(body, "entry_id")}
    world.apply(asked(3, "forget", whole_user=True))
    world.records |= old
    for number, (_, name) in enumerate(old, start=4):
        outcome = world.outcome(asked(number, "approve", name))
        assert (outcome.outcome, "forgotten" in outcome.reason) == ("refused", True)
        assert world.outcome(asked(number, "reject", name)).outcome == "accepted"
    # What is said after the click is new, and waits like anything else.
    world.apply(said(20, candidate("job", '"cook"', confidence=0.4)))
    (entry,) = world.waiting()
    world.apply(asked(21, "approve", entry.entry_id))
    assert world.values() == ['"cook"']


@pytest.mark.parametrize(("old", "new"), DRINKS)
def test_an_edited_value_has_the_key_of_what_it_says_now(old: str, new: str) -> None:
    world = World()
    world.apply(said(1, candidate("likes", old)))
    first = world.only("active")
    world.apply(asked(2, "edit", first.memory_id, value=new))
    edited = world.only("active")
    assert (edited.memory_id, edited.dedupe_key) == (first.memory_id, dedupe_key(edited, edited.user_id, POLICY))
    world.apply(said(3, candidate("likes", new)))
    assert (world.values(), world.only("active").confirmations) == ([new], 1)
    world.apply(said(4, candidate("likes", old)))
    assert world.values() == sorted((old, new))
    world.apply(asked(5, "edit", edited.memory_id, content="only the words"))
    assert world.values() == sorted((old, new))


@pytest.mark.parametrize(("old", "new"), DRINKS)
def test_an_edit_to_what_is_known_already_leaves_one_memory(old: str, new: str) -> None:
    world = World()
    world.apply(said(1, candidate("likes", old, tentative=True)))
    world.apply(said(2, candidate("likes", new)))
    known, edited = world.only("active"), world.only("tentative")
    world.apply(asked(3, "edit", edited.memory_id, value=new))
    (left,) = world.memories("active", "tentative")
    assert (left.memory_id, left.value, left.status) == (edited.memory_id, new, "active")
    assert left.supersedes == (known.memory_id,)
    assert world.only("superseded").memory_id == known.memory_id


@pytest.mark.parametrize(("old", "new"), DRINKS)
def test_an_edit_ends_the_opposite(old: str, new: str) -> None:
    world = World()
    world.apply(said(1, candidate("likes", old), candidate("dislikes", new)))
    liked = next(m for m in world.memories("active") if m.attribute == "likes")
    world.apply(asked(2, "edit", liked.memory_id, value=new))
    assert [(m.attribute, m.value) for m in world.memories("active")] == [("likes", new)]


@pytest.mark.parametrize(("old", "new"), DRINKS)
def test_rolling_back_a_value_goes_back_to_its_key(old: str, new: str) -> None:
    world = World()
    world.apply(said(1, candidate("likes", old)))
    first = world.only("active")
    world.apply(asked(2, "edit", first.memory_id, value=new))
    world.apply(said(3, candidate("likes", old)))
    world.apply(asked(4, "rollback", first.memory_id, to_version=1))
    left = world.only("active")
    assert (left.memory_id, left.value, left.dedupe_key) == (first.memory_id, old, first.dedupe_key)


def test_a_value_said_otherwise_keeps_its_key() -> None:
    world = World()
    world.apply(said(1, candidate("city", '"深圳"'), candidate("likes", '"Tea"')))
    for number, (memory, value) in enumerate(zip(world.memories(), ('"Shenzhen"', '"tea"'), strict=True), start=2):
        world.apply(asked(number, "edit", memory.memory_id, value=value))
        edited = world.records["memory", memory.memory_id]
        assert isinstance(edited, Memory)
        assert (edited.dedupe_key, edited.value) == (memory.dedupe_key, value)


@pytest.mark.stack
async def test_in_postgres_what_is_approved_ends_its_opposite_and_flags_its_group(settings: Settings) -> None:
    async with opened(settings) as bench:
        for number, value in enumerate(('"coffee"', '"咖啡因"')):
            user, at = f"user-{number}", number * 10
            disliked = candidate("dislikes", value, link_group="trip")
            cup = candidate("cup_size", '"small"', link_group="trip")
            await bench.apply(said(1, disliked, cup, user_id=user, proposal_id=f"{user}-1"), at)
            doubtful = candidate("likes", value, confidence=0.4)
            # The neighbours in time are loaded anyway; these stand between.
            others = [candidate("owns", f'"{thing}"') for thing in ("a bike", "伞", "a lamp")]
            await bench.apply(said(2, doubtful, *others, user_id=user, proposal_id=f"{user}-2"), at + 1)
            ((entry_id,),) = await bench.rows("SELECT entry_id::text FROM pending WHERE user_id = %s", user)
            assert (await bench.apply(_by(user, 3, "approve", entry_id), at + 2)).status == "decided"
            stored = (await bench.memories(user_id=user)).values()
            found = {m.attribute: m for m in stored if m.attribute != "owns"}
            assert {name: m.status for name, m in found.items()} == {
                "likes": "active", "dislikes": "superseded", "cup_size": "active",
            }  # fmt: skip
            assert found["cup_size"].needs_check == found["likes"].memory_id


@pytest.mark.stack
async def test_in_postgres_an_edit_rollback_or_restore_meets_the_rival(settings: Settings) -> None:
    async with opened(settings) as bench:
        for number, (old, new) in enumerate(DRINKS):
            user, at = f"user-{number}", number * 20
            facts = (candidate("likes", old), candidate("likes", new), candidate("dislikes", '"可乐"'))
            await bench.apply(said(1, *facts, user_id=user, proposal_id=f"{user}-1"), at)
            named = {m.value: m.memory_id for m in (await bench.memories(user_id=user)).values()}
            await bench.apply(_by(user, 2, "edit", named[old], value=new), at + 1)
            assert await _live(bench, user) == {(named[old], new), (named['"可乐"'], '"可乐"')}
            await bench.apply(said(3, candidate("likes", old), user_id=user, proposal_id=f"{user}-3"), at + 2)
            await bench.apply(_by(user, 4, "rollback", named[old], to_version=1), at + 3)
            assert await _live(bench, user) == {(named[old], old), (named['"可乐"'], '"可乐"')}
            await bench.apply(_by(user, 5, "edit", named[old], value='"可乐"'), at + 4)
            assert await _live(bench, user) == {(named[old], '"可乐"')}
            await bench.apply(_by(user, 6, "forget", named[old]), at + 5)
            late = said(7, candidate("dislikes", '"可乐"'), user_id=user, proposal_id=f"{user}-7")
            await bench.apply(late, at + 6)
            assert (await bench.apply(_by(user, 8, "restore", named[old]), at + 7)).status == "refused"


@pytest.mark.stack
async def test_in_postgres_forgetting_takes_along_what_waits(settings: Settings) -> None:
    async with opened(settings) as bench:
        world = World()
        for offset, proposal in enumerate(
            (
                said(1, candidate("name", '"小明"'), candidate("city", '"Shenzhen"')),
                said(2, candidate("name", '"Bob"', source="assistant"), refusals=(refusal(),)),
                said(3, candidate("birthday", BIRTHDAYS[1][0])),
                said(4, candidate("birthday", BIRTHDAYS[1][1])),
            )
        ):
            await bench.apply(proposal, offset)
            world.apply(proposal)
        name = next(m for m in world.memories("active") if m.attribute == "name")
        for offset, command in enumerate(
            (asked(5, "forget", name.memory_id), asked(6, "forget", whole_user=True, before_ms=START_MS + 10**9)),
            start=4,
        ):
            await bench.apply(command, offset)
            world.apply(command)
            assert await bench.memories() == {m.memory_id: m for m in world.memories()}
        for table in ("review", "quarantine"):
            assert set(await bench.rows(f"SELECT state FROM {table}")) == {("forgotten",)}


def _by(user: str, number: int, kind: str, *names: str, **fields: object) -> DecodedProposal:
    """Return the command of one of several users."""
    command = asked(number, kind, *names, **fields)
    envelope = msgspec.structs.replace(command.envelope, user_id=user, proposal_id=f"{user}-c{number}")
    return DecodedProposal(envelope, command.body)


async def _live(bench: Bench, user: str) -> set[tuple[str, str]]:
    found = await bench.memories(user_id=user)
    return {(m.memory_id, m.value) for m in found.values() if m.status in ("active", "tentative")}
