"""Proposals that come together lead to what they lead to one by one, whatever stands among them."""

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from truth_bench import CODEC, Bench, opened
from truth_world import POLICY, TENANT, asked, candidate, said, vector

from schemas.candidates import Refusal, Relation
from schemas.errors import Broken
from schemas.inputs import Origin
from schemas.memories import MemoryChanged, MemoryVectors
from schemas.routing import partition_of
from schemas.settings import Settings
from streams.changes import DecodedProposal
from streams.decision_state import Needs
from streams.postgres import connect, transaction
from streams.postgres_truth import load
from streams.remember import Outcome
from streams.stage import Input

pytestmark = pytest.mark.stack

# What chance puts into a row (keys, ciphertexts, times of the server) is left out.
SAME = {
    "memories": "to_jsonb(t) - 'key_id'",
    "memory_history": "to_jsonb(t)",
    "memory_edges": "to_jsonb(t)",
    "relations": "to_jsonb(t)",
    "entities": "to_jsonb(t)",
    "memory_vectors": "to_jsonb(t)",
    "pending": "to_jsonb(t) - 'key_id'",
    "review": "to_jsonb(t) - 'key_id'",
    "quarantine": "to_jsonb(t) - 'key_id'",
    "before_marks": "to_jsonb(t)",
    "command_outcomes": "to_jsonb(t)",
    "user_positions": "to_jsonb(t)",
    "positions": "to_jsonb(t)",
}
USERS = ("alice", "bob", "小明".encode().hex(), "user-4", "user-5")
VALUES = ('"深圳"', '"Shenzhen"', '"北京"', '"a bike"', '"茶"', '"tea"')
# Longer than an entry of an index may be: Postgres refuses it, nobody before.
TOO_LONG = "".join(chr(0x4E00 + n % 9000) for n in range(20_000))


def _facts(chance: random.Random, number: int) -> DecodedProposal:
    facts = []
    for place in range(chance.randint(0, 3)):
        value = chance.choice(VALUES)
        likes = Relation(
            subject_type="user", subject_id="self", predicate="likes", object_type="thing", object_id=f"{number % 7}"
        )
        facts.append(
            candidate(
                chance.choice(("city", "likes", "dislikes", "job", "birthday")),
                value,
                confidence=chance.choice((0.4, 0.85, 0.9)),
                source=chance.choice(("user_statement", "assistant", "business_record")),
                link_group=chance.choice(("", "trip")),
                relations=(likes,) if chance.random() < 0.5 else (),
                vectors=(vector(chance.random(), chance.random(), 0.1),) if chance.random() < 0.7 else (),
                causes=(0,) if place else (),
            )
        )
    refusals = (Refusal(gate="gate0", rule_id="r", gate_version="1", outcome="quarantine", side="user", excerpt="*"),)
    return said(number, *facts, refusals=refusals if chance.random() < 0.2 else ())


def _proposal(chance: random.Random, number: int, user: str, known: Sequence[str]) -> DecodedProposal:
    """Return a statement, a command on something of the user, or vectors."""
    if known and chance.random() < 0.3:
        kind = chance.choice(("forget", "restore", "confirm", "edit", "erase", "rollback", "plan", "vectors"))
        name = chance.choice(known)
        command = asked(number, kind, name, **({"value": '"说茶"'} if kind == "edit" else {}), to_version=1)
        body = MemoryVectors(memory_id=name, vectors=(vector(1, 2, 3),)) if kind == "vectors" else command.body
        proposal = DecodedProposal(command.envelope, body)
    else:
        proposal = _facts(chance, number)
    named = msgspec.structs.replace(proposal.envelope, user_id=user, proposal_id=f"{user}-{number}")
    return DecodedProposal(named, proposal.body)


async def _lived(bench: Bench, seed: int, count: int) -> tuple[list[Input], list[Outcome]]:
    """Make messages of several users on four partitions, each handled on its own; return them and what became of them.

    Some come twice, some are junk, one Postgres alone refuses; commands aim at what their user has by then.
    """
    chance = random.Random(seed)  # noqa: S311 - a mix that can be made again
    offsets: dict[int, int] = {}
    inputs: list[Input] = []
    outcomes: list[Outcome] = []
    for number in range(count):
        user = chance.choice(USERS)
        rows = await bench.rows("SELECT memory_id::text FROM memories WHERE user_id = %s ORDER BY 1", user)
        rows += await bench.rows("SELECT entry_id::text FROM pending WHERE user_id = %s ORDER BY 1", user)
        proposal = _proposal(chance, number, user, [row[0] for row in rows])
        refused = number == count // 2
        if refused:
            proposal = said(number, candidate("city", '"x"', entity_id=TOO_LONG), user_id=user, proposal_id="too-long")
        message = b"junk" if chance.random() < 0.05 and not refused else await bench.encode(proposal)
        partition = partition_of(TENANT, user, 4)
        for _ in range(2 if chance.random() < 0.15 else 1):
            offsets[partition] = offsets.get(partition, -1) + 1
            inputs.append(Input(message, Origin(partition, offsets[partition])))
            outcomes += await bench.remember.handle(inputs[-1:])
    return inputs, outcomes


async def _rows(bench: Bench) -> dict[str, list[tuple[object, ...]]]:
    found = {
        table: await bench.rows(f"SELECT {what}::text FROM {table} AS t ORDER BY 1") for table, what in SAME.items()
    }
    outbox = await bench.rows("SELECT user_id, event_id::text, shard, payload FROM memory_outbox ORDER BY outbox_id")
    changed = [
        (user, event, shard, CODEC.decode(bytes(payload), MemoryChanged)) for user, event, shard, payload in outbox
    ]
    # Users have no order among each other.
    changed.sort(key=lambda row: row[0])
    found["memory_outbox"] = [
        (user, event, shard, msgspec.structs.replace(c, body=None), c.body is None) for user, event, shard, c in changed
    ]
    return found


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
        inputs, outcomes = await _lived(bench, seed, 70)
        told, expected = _told(outcomes), await _rows(bench)
        assert {status for status, _, _ in told} >= {"decided", "rejected", "duplicate"}
        assert {code for _, _, code in told} >= {"bad_avro", "bad_value"}
        for size in (1, 7, len(inputs)):
            await _anew(bench)
            assert _told(await _in_batches(bench, inputs, size)) == told
            assert await _rows(bench) == expected
            # Redelivered with another cut: nothing changes.
            again = await _in_batches(bench, inputs[len(inputs) // 3 :], 11)
            assert {outcome.status for outcome in again} <= {"duplicate", "rejected"}
            assert await _rows(bench) == expected


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
