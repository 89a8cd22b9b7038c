"""What ``remember`` and its truth promise: one suite, run on the tables in memory and on the real Postgres."""

from collections.abc import AsyncIterator

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from model_inputs import REFUSAL, relation
from model_system import CODEC, REVISION, SETTINGS
from test_decide_properties import Step, lives, proposals
from truth_world import USER, World, asked, candidate, said, vector
from truths import Stored, Truth, TruthInMemory, handle, sealed, truth_in_postgres

from schemas.candidates import Candidate
from schemas.proposals import Proposal
from schemas.settings import Settings
from streams.changes import DecodedProposal
from streams.content_hash import content_hash

KINDS = [pytest.param("memory", id="memory"), pytest.param("postgres", id="postgres", marks=pytest.mark.stack)]


@pytest.fixture(params=KINDS)
async def truth(request: pytest.FixtureRequest) -> AsyncIterator[Truth]:
    if request.param == "memory":
        yield TruthInMemory(SETTINGS)
        return
    real: Settings = request.getfixturevalue("settings")
    async with truth_in_postgres(real) as opened:
        yield opened


def in_city(city: str) -> Candidate:
    return candidate("city", city, vectors=(vector(1, 0, 0, 0, revision=REVISION),), relations=(relation(city),))


def moved_in(number: int, city: str, user_id: str = USER) -> DecodedProposal:
    return said(number, in_city(city), user_id=user_id)


async def test_a_decision_is_stored_whole(truth: Truth) -> None:
    turn = said(1, in_city('"深圳"'), candidate("job", '"cook"', confidence=0.4), refusals=(REFUSAL,))
    (outcome,) = await handle(truth, (turn, 7))
    stored = await truth.stored()
    world = World()
    world.apply(turn)
    assert outcome.status == "decided"
    assert stored.memories == {memory.memory_id: memory for memory in world.memories()}
    assert [row[1:] for row in stored.versions] == [(1, "created")]
    assert stored.vectors == {name: (vector(1, 0, 0, 0, revision=REVISION),) for name in stored.memories}
    assert stored.relations == {(name, "深圳") for name in stored.memories}
    assert sorted(stored.waiting.values()) == ["waiting", "waiting"]
    assert stored.outcomes == {"proposal-1": "accepted"}
    assert [row[3] for row in stored.outbox] == [
        "memory.created",
        "vectors.revectored",
        "quarantine.filed",
        "pending.filed",
        "command.candidates",
    ]
    assert (stored.user_position, await truth.positions()) == ((0, 1), {0: 7})


async def test_what_is_delivered_again_changes_nothing(truth: Truth) -> None:
    turn = moved_in(1, '"深圳"')
    await handle(truth, (turn, 5))
    before = await truth.stored()
    outcomes = [
        *await handle(truth, (turn, 5)),
        *await handle(truth, (moved_in(9, '"Berlin"'), 4)),
        *await handle(truth, (turn, 6)),
    ]
    assert [outcome.status for outcome in outcomes] == ["duplicate"] * 3
    assert await truth.stored() == before
    assert await truth.positions() == {0: 6}


async def test_two_copies_that_come_together_count_once(truth: Truth) -> None:
    turn = moved_in(1, '"深圳"')
    outcomes = await handle(truth, (turn, 0), (turn, 1), (moved_in(2, '"Berlin"'), 1), (moved_in(3, '"Berlin"'), 2))
    assert [outcome.status for outcome in outcomes] == ["decided", "duplicate", "duplicate", "decided"]
    stored = await truth.stored()
    assert sorted(memory.value for memory in stored.memories.values()) == ['"Berlin"', '"深圳"']
    assert stored.outcomes.keys() == {"proposal-1", "proposal-3"}


async def test_what_is_rejected_moves_the_position_and_changes_nothing_else(truth: Truth) -> None:
    erased = await sealed(truth, moved_in(1, '"深圳"'))
    body = _envelope(erased).body
    assert body is not None
    await truth.keys.destroy_keys("acme", "alice", [body.key_id])
    outcomes = await handle(truth, (b"\x00nonsense", 3), (erased, 4), (moved_in(2, '"Berlin"'), 5))
    assert [outcome.status for outcome in outcomes] == ["rejected", "rejected", "decided"]
    stored = await truth.stored()
    assert [memory.value for memory in stored.memories.values()] == ['"Berlin"']
    assert stored.outcomes == {"proposal-1": "rejected", "proposal-2": "accepted"}
    assert (stored.user_position, await truth.positions()) == ((0, 2), {0: 5})


def _envelope(message: bytes) -> Proposal:
    return CODEC.decode(message, Proposal)


async def test_every_user_has_its_own_order(truth: Truth) -> None:
    cities = ('"深圳"', '"Berlin"', '"北京"')
    turns = [moved_in(number, city, user_id=user) for number, city in enumerate(cities) for user in ("alice", "bob")]
    renamed = [_named(turn, f"{turn.envelope.user_id}-{turn.envelope.proposal_id}") for turn in turns]
    await handle(truth, *((turn, offset) for offset, turn in enumerate(renamed)))
    for user in ("alice", "bob"):
        stored = await truth.stored(user)
        world = World()
        expected = [
            change.event_id(turn.envelope.proposal_id)
            for turn in renamed
            if turn.envelope.user_id == user
            for change in world.apply(turn)
        ]
        assert [row[0] for row in stored.outbox] == expected
        assert stored.memories == {memory.memory_id: memory for memory in world.memories()}


def _named(proposal: DecodedProposal, proposal_id: str) -> DecodedProposal:
    return DecodedProposal(msgspec.structs.replace(proposal.envelope, proposal_id=proposal_id), proposal.body)


@pytest.mark.parametrize("ending", ["forget", "deny", "edit", "another_city"])
async def test_an_input_that_is_embedded_again_is_not_decided_again(truth: Truth, ending: str) -> None:
    turn = moved_in(1, '"深圳"')
    await handle(truth, (turn, 0))
    (name,) = (await truth.stored()).memories
    ended = moved_in(2, '"Berlin"') if ending == "another_city" else asked(2, ending, name, value='"广州"', before_ms=1)
    await handle(truth, (ended, 1))
    before = (await truth.stored()).memories
    (outcome,) = await handle(truth, (_named(turn, "again"), 2))
    assert outcome.status == "nothing"
    assert (await truth.stored()).memories == before


async def test_a_superseded_memory_that_is_forgotten_states_nothing(truth: Truth) -> None:
    await handle(truth, (moved_in(1, '"深圳"'), 0), (moved_in(2, '"Berlin"'), 1))
    stored = await truth.stored()
    (old,) = [name for name, memory in stored.memories.items() if memory.status == "superseded"]
    assert len(stored.relations) == 2
    await handle(truth, (asked(3, "forget", old), 2))
    assert {name for name, _ in (await truth.stored()).relations} == stored.memories.keys() - {old}


@hypothesis_settings(max_examples=60, phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck))
@given(lives())
async def test_the_part_that_is_loaded_decides_like_the_whole(steps: list[Step]) -> None:
    """The tables in memory hand out the same part of a user's memory as Postgres; the real ones are asked elsewhere."""
    world, truth = World(), TruthInMemory(SETTINGS)
    for offset, proposal in enumerate(proposals(world, steps)):
        await handle(truth, (proposal, offset))
    stored: Stored = await truth.stored()
    assert stored.memories == {memory.memory_id: memory for memory in world.memories()}
    assert all(m.content_hash == content_hash(m, world.policy.hash_key) for m in stored.memories.values())
