"""What a change of a memory is called on ``memory.updated`` never depends on how the relay cut its batches."""

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import msgspec
import pytest
from truth_world import TENANT, USER, World, asked, candidate, said, vector

from schemas.codec import Codec
from schemas.memories import MemoryUpdated, MemoryVectors
from streams.changes import Change, DecodedProposal
from streams.publication import OutboxRow, Snapshot, Truth, last_of_memory, messages_of

CODEC = Codec()


def rows_of(proposal: DecodedProposal, changes: Sequence[Change], first: int) -> list[OutboxRow]:
    return [
        OutboxRow(
            outbox_id=first + number,
            event_id=change.event_id(proposal.envelope.proposal_id),
            aggregate_id=change.aggregate_id,
            tenant_id=TENANT,
            user_id=USER,
            shard=0,
            aggregate_version=change.version,
            event_type=f"{change.kind}.{change.op}",
            target="memory",
            repair=None,
            payload=b"framed",
            attempts=0,
        )
        for number, change in enumerate(changes)
    ]


def cuts(rows: list[OutboxRow]) -> Iterator[list[list[OutboxRow]]]:
    """Yield the rows in every series of batches."""
    for count in range(len(rows)):
        for places in combinations(range(1, len(rows)), count):
            ends = [0, *places, len(rows)]
            yield [rows[a:b] for a, b in pairwise(ends)]


def told(batches: list[list[OutboxRow]], snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return op and event id of what a consumer keeps who drops versions that it knows, as ``engram``'s own does."""
    kept, known = [], 0
    for rows in batches:
        chosen = last_of_memory(rows)
        for row in rows:
            truth = Truth({snapshot.memory.memory_id: snapshot}, {})
            for message in messages_of(row, truth, CODEC, with_snapshot=row.outbox_id in chosen, limit_bytes=10**6)[1:]:
                update = CODEC.decode(message.value, MemoryUpdated)
                assert update.vectors == snapshot.vectors
                if update.op == "revectored" or update.version > known:
                    kept.append((update.op, update.event_id))
                known = max(known, update.version)
    return kept


def snapshot_after(world: World, proposal: DecodedProposal, changes: Sequence[Change]) -> Snapshot:
    """Return the snapshot whose version was made by ``changes``."""
    made = next(c for c in changes if c.kind == "memory")
    memory = next(m for m in world.memories() if m.memory_id == made.aggregate_id)
    event_id = made.event_id(proposal.envelope.proposal_id)
    at_ms, proposal_id = made.occurred_at_ms, proposal.envelope.proposal_id
    return Snapshot(memory, made.op, event_id, at_ms, proposal_id, world.vectors_of(memory.memory_id))


def edited(world: World) -> tuple[DecodedProposal, tuple[Change, ...]]:
    proposal = asked(2, "edit", world.only("active").memory_id, value='"北京"', vectors=(vector(0, 1),))
    return proposal, world.apply(proposal)


def rolled_back(world: World) -> tuple[DecodedProposal, tuple[Change, ...]]:
    edited(world)
    proposal = asked(3, "rollback", world.only("active").memory_id, to_version=1, vectors=(vector(1, 0),))
    return proposal, world.apply(proposal)


def specified(world: World) -> tuple[DecodedProposal, tuple[Change, ...]]:
    proposal = said(2, candidate("city", '"深圳南山"', vectors=(vector(0.9, 0.1),)))
    return proposal, world.apply(proposal)


@pytest.mark.parametrize("change_by", [edited, rolled_back, specified])
def test_new_words_with_new_vectors_are_an_update_however_they_are_batched(change_by) -> None:  # type: ignore[no-untyped-def]
    world = World()
    world.apply(said(1, candidate("city", '"深圳"', vectors=(vector(1, 0),))))
    proposal, changes = change_by(world)
    assert [c.kind for c in changes] == ["memory", "vectors", "command"]
    snapshot = snapshot_after(world, proposal, changes)
    for batches in cuts(rows_of(proposal, changes, 10)):
        assert told(batches, snapshot) == [("updated", snapshot.event_id)]


def test_other_vectors_of_the_same_version_are_a_change_of_their_own() -> None:
    world = World()
    first = said(1, candidate("city", '"深圳"', vectors=(vector(1, 0),)))
    changes = world.apply(first)
    memory_id = world.only("active").memory_id
    again = DecodedProposal(
        msgspec.structs.replace(first.envelope, proposal_id="vectors-1", kind="vectors", event_id=""),
        MemoryVectors(memory_id=memory_id, vectors=(vector(0, 1),)),
    )
    later = world.apply(again)
    snapshot = snapshot_after(world, first, changes)
    rows = [*rows_of(first, changes, 1), *rows_of(again, later, 5)]
    created, revectored = ("created", snapshot.event_id), ("revectored", rows[3].event_id)
    for batches in cuts(rows):
        # In one batch with the memory itself, the snapshot says both; afterwards it is news of its own.
        together = any(rows[0] in batch and rows[3] in batch for batch in batches)
        assert told(batches, snapshot) == ([created] if together else [created, revectored])
