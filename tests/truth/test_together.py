"""Proposals that come together lead to what they lead to one by one, whatever stands among them."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from truth_bench import Bench, opened
from truth_lives import SAME, lived, rows_of_truth
from truth_world import POLICY, candidate, said

from schemas.errors import Broken
from schemas.inputs import Origin
from schemas.settings import Settings
from streams.decision_state import Needs
from streams.postgres import connect, transaction
from streams.postgres_truth import load
from streams.remember import Outcome
from streams.stage import Input

pytestmark = pytest.mark.stack


async def _in_batches(bench: Bench, inputs: Sequence[Input], size: int) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for start in range(0, len(inputs), size):
        outcomes += await bench.remember.handle(inputs[start : start + size])
    return outcomes


def _told(outcomes: Sequence[Outcome]) -> list[tuple[str, int, str]]:
    return [(o.status, o.changes, o.error.code if o.error else "") for o in outcomes]


async def _anew(bench: Bench) -> None:
    for table in (*SAME, "memory_outbox"):
        await bench.admin.execute(f"TRUNCATE {table} CASCADE")


@pytest.mark.parametrize("seed", range(4))
async def test_together_or_one_by_one_the_rows_are_the_same(settings: Settings, seed: int) -> None:
    async with opened(settings, replace(POLICY, id_limit_characters=100_000)) as bench:
        inputs, outcomes = await lived(bench, seed, 70)
        told, expected = _told(outcomes), await rows_of_truth(bench)
        assert {status for status, _, _ in told} >= {"decided", "rejected", "duplicate"}
        assert {code for _, _, code in told} >= {"bad_avro", "bad_value"}
        for size in (1, 7, len(inputs)):
            await _anew(bench)
            assert _told(await _in_batches(bench, inputs, size)) == told
            assert await rows_of_truth(bench) == expected
            # Redelivered with another cut: nothing changes.
            again = await _in_batches(bench, inputs[len(inputs) // 3 :], 11)
            assert {outcome.status for outcome in again} <= {"duplicate", "rejected"}
            assert await rows_of_truth(bench) == expected


async def test_a_batch_that_is_known_in_part_goes_on_where_it_was(settings: Settings) -> None:
    async with opened(settings) as bench:
        inputs = [
            Input(
                await bench.encode(said(n, candidate("likes", f'"{n}"'), user_id=f"user-{n % 3}")),
                Origin(n % 2, n // 2),
            )
            for n in range(12)
        ]
        assert {o.status for o in await bench.remember.handle(inputs[:7])} == {"decided"}
        statuses = [o.status for o in await bench.remember.handle(inputs[3:])]
        assert statuses == ["duplicate"] * 4 + ["decided"] * 5
        rows = await bench.rows("SELECT role, partition, last_offset FROM positions ORDER BY partition")
        assert rows == [("remember", 0, 5), ("remember", 1, 5)]
        assert await bench.rows("SELECT count(*) FROM memories") == [(12,)]


async def test_two_writers_of_the_same_partitions_decide_each_proposal_once(settings: Settings) -> None:
    """They take the partitions in whatever order they come; neither waits for ever, and each proposal counts once."""
    async with opened(settings) as one, opened(settings) as two:
        inputs = [
            Input(
                await one.encode(said(n, candidate("likes", f'"{n % 7}"'), user_id=f"user-{n % 4}")),
                Origin(n % 4, n // 4),
            )
            for n in range(80)
        ]
        # The same partitions, begun from the other end.
        turned = [inputs[k * 8 + place] for k in range(10) for place in (3, 2, 1, 0, 7, 6, 5, 4)]
        first, second = await asyncio.gather(_in_batches(one, inputs, 8), _in_batches(two, turned, 8))
        by_place = {i.position: o.status for i, o in zip(turned, second, strict=True)}
        pairs = [{o.status, by_place[i.position]} for i, o in zip(inputs, first, strict=True)]
        assert all(pair == {"decided", "duplicate"} for pair in pairs), pairs
        versions = await one.rows("SELECT count(*), count(DISTINCT (memory_id, version)) FROM memory_history")
        assert versions[0][0] == versions[0][1]
        assert await one.rows("SELECT count(*) FROM command_outcomes") == [(80,)]


async def test_a_statement_for_one_user_runs_in_the_scope_of_that_user(settings: Settings) -> None:
    """The functions serve several users one after the other; what one may see they cannot be made to give to another."""
    async with opened(settings) as bench:
        for offset, user in enumerate(("alice", "bob")):
            await bench.apply(said(1, candidate("city", f'"{user}"'), user_id=user, proposal_id=user), offset)
        ((bobs,),) = await bench.rows("SELECT memory_id::text FROM memories WHERE user_id = 'bob'")
        writer = await connect(settings, "engram_writer")
        alice, bob = (said(2, user_id=user).envelope for user in ("alice", "bob"))
        async with transaction(writer):
            found = await load(
                writer, [(alice, Needs(memory_ids=(bobs,))), (bob, Needs(memory_ids=(bobs,)))], similar_memories=9
            )
            assert [list(one.state.memories) for one in found] == [[], [bobs]]
        stolen = {"tenant_id": "acme", "user_id": "alice", "memories": [await _foreign(bench, bobs)], "history": []}
        with pytest.raises(Broken, match="42501"):
            async with transaction(writer):
                await writer.execute("SELECT remembered(%s::json)", (json.dumps([stolen]),))
        # Outside of the functions no scope is set.
        with pytest.raises(Broken, match="42501"):
            async with transaction(writer):
                await writer.execute("SELECT count(*) FROM memories")
        await writer.close()
        assert await bench.rows("SELECT content FROM memories WHERE user_id = 'bob'") == [('city: "bob"',)]
        assert (
            await bench.rows(
                "SELECT prosecdef FROM pg_proc WHERE proname IN ('decision_states', 'remembered', 'working_sessions',"
                " 'working_written', 'positions_locked')"
            )
            == [(False,)] * 5
        )


async def _foreign(bench: Bench, memory_id: str) -> object:
    """Return the next version of somebody's memory, said anew by somebody else."""
    ((row,),) = await bench.rows("SELECT to_jsonb(m) FROM memories AS m WHERE memory_id = %s", memory_id)
    return {**row, "version": row["version"] + 1, "content": "stolen"}
