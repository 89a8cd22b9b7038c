"""What the machine found once, each in its shortest form."""

from collections.abc import Iterator

import msgspec
import pytest
from model_fold import Oracle
from model_inputs import relation
from model_laws import check
from model_system import REVISION, System
from truth_world import asked, candidate, said, vector

from schemas.ids import derived_id
from streams.changes import DecodedProposal


@pytest.fixture
def system() -> Iterator[System]:
    made = System()
    yield made
    made.close()


def settled(system: System) -> None:
    system.run(system.drain())
    system.run(check(system, Oracle(), set()))


def with_other_embedder(proposal: DecodedProposal) -> DecodedProposal:
    """The same input, embedded again after the embedder changed: another proposal of the same event."""
    envelope = proposal.envelope
    again = derived_id("again", envelope.proposal_id)
    return DecodedProposal(msgspec.structs.replace(envelope, proposal_id=again), proposal.body)


def test_a_rollback_to_what_a_memory_says_already_keeps_its_vectors(system: System) -> None:
    system.say(said(1, candidate("city", '"深圳"', vectors=(vector(1, 0, 0, 0, revision=REVISION),))))
    system.run(system.drain())
    ((_, _, name),) = system.pool.tables.memories
    system.propose(asked(2, "rollback", name, to_version=1))
    settled(system)
    assert system.pool.tables.vectors


@pytest.mark.parametrize("ending", ["forget", "another_city"])
def test_a_turn_that_is_embedded_again_makes_no_second_first_version(system: System, ending: str) -> None:
    turn = said(1, candidate("city", '"深圳"'))
    system.say(turn)
    system.run(system.drain())
    ((_, _, name),) = system.pool.tables.memories
    if ending == "forget":
        system.propose(asked(2, "forget", name, before_ms=1))
    else:
        system.say(said(2, candidate("city", '"Berlin"')))
    system.say(with_other_embedder(turn))
    settled(system)


def test_a_turn_that_is_embedded_again_does_not_give_way_to_itself(system: System) -> None:
    turn = said(1, *(candidate("city", value) for value in ('"北京"', '"北京"', '"深圳"')))
    system.say(turn)
    system.say(with_other_embedder(turn))
    settled(system)
    memories = [system.pool.tables.memory(name) for name in system.pool.tables.memories]
    assert [memory.value for memory in memories if memory.status == "active"] == ['"深圳"']


def test_a_superseded_memory_that_is_forgotten_states_no_relation_any_more(system: System) -> None:
    system.say(said(1, candidate("city", '"深圳"', relations=(relation('"深圳"'),))))
    system.run(system.drain())
    ((_, _, name),) = system.pool.tables.memories
    system.say(said(2, candidate("city", '"Berlin"')))
    system.run(system.drain())
    system.propose(asked(3, "forget", name))
    settled(system)
    assert not system.pool.tables.relations
