"""Remember on the real Postgres: equal to the pure model, once per proposal, fenced, and never stopped by a poison proposal."""

import asyncio
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from conftest import environment_of
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from test_decide_properties import Step, lives, proposals
from truth_bench import CODEC, Bench, opened
from truth_world import POLICY, TENANT, USER, World, asked, candidate, said, vector

from schemas.candidates import Refusal, Relation
from schemas.errors import Broken, Rejected, Retryable
from schemas.inputs import Origin
from schemas.memories import Memory, MemoryChanged, MemoryVectors, PendingEntry, QuarantineEntry, ReviewEntry
from schemas.settings import Settings
from streams.changes import DecodedProposal
from streams.content_hash import content_hash
from streams.key_store import KeyStore
from streams.postgres_truth import as_decided
from streams.remembered import wait_for
from streams.sealed_records import open_record
from streams.vector_bytes import postgres_vector

pytestmark = pytest.mark.stack

TABLES = (
    "memories",
    "memory_history",
    "memory_edges",
    "relations",
    "entities",
    "memory_vectors",
    "pending",
    "review",
    "quarantine",
    "before_marks",
    "command_outcomes",
    "memory_outbox",
    "user_positions",
    "positions",
)


async def test_postgres_equals_the_pure_model(settings: Settings) -> None:
    """The state is loaded in part and written in many tables; the result must be what the whole state in memory gives."""
    async with opened(settings) as bench:
        lifetimes: list[int] = []

        async def live(steps: list[Step]) -> None:
            user = f"user-{len(lifetimes)}"
            lifetimes.append(len(steps))
            world = World()
            applied = proposals(world, steps)
            offset = (await bench.rows("SELECT coalesce(max(last_offset), -1) FROM positions"))[0][0]
            moved = World()
            for number, proposal in enumerate(applied, start=1):
                mine = _for_user(proposal, user, moved)
                await bench.apply(mine, offset + number)
                moved.apply(mine)
            stored = await bench.memories(user_id=user)
            assert stored == {m.memory_id: m for m in moved.memories()}
            for memory in stored.values():
                assert memory.content_hash == content_hash(memory, POLICY.hash_key)
            await _same_queues(bench, user, moved)

        loop = asyncio.get_running_loop()

        @hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(lives())
        def lived(steps: list[Step]) -> None:
            asyncio.run_coroutine_threadsafe(live(steps), loop).result(60)

        await asyncio.to_thread(lived)
        assert len(lifetimes) >= 40


def _for_user(proposal: DecodedProposal, user: str, world: World) -> DecodedProposal:
    """The same step for a user of its own; a command aims at something that this user has by then."""
    envelope = msgspec.structs.replace(
        proposal.envelope, user_id=user, proposal_id=f"{user}-{proposal.envelope.proposal_id}"
    )
    body = proposal.body
    if hasattr(body, "memory_ids"):
        found = [m.memory_id for m in world.memories()] + [e.entry_id for e in (*world.waiting(), *world.reviews())]
        chosen = tuple(sorted(found)[len(proposal.envelope.proposal_id) % len(found) :][:1]) if found else ()
        body = msgspec.structs.replace(body, memory_ids=chosen)
    return DecodedProposal(envelope, body)


async def _same_queues(bench: Bench, user: str, world: World) -> None:
    bodies = {
        "pending": {b.entry_id: b.state for b in world.records.values() if isinstance(b, PendingEntry)},
        "review": {b.entry_id: b.state for b in world.records.values() if isinstance(b, ReviewEntry)},
        "quarantine": {b.entry_id: b.state for b in world.records.values() if isinstance(b, QuarantineEntry)},
    }
    for table, expected in bodies.items():
        rows = await bench.rows(f"SELECT entry_id::text, state FROM {table} WHERE user_id = %s", user)
        assert dict(rows) == expected
    vectors = {
        (b.memory_id, v.revision) for b in world.records.values() if isinstance(b, MemoryVectors) for v in b.vectors
    }
    rows = await bench.rows("SELECT memory_id::text, revision FROM memory_vectors WHERE user_id = %s", user)
    assert set(rows) == vectors
    relations = {
        (m.memory_id, r.object_id)
        for m in world.memories()
        if m.status not in ("deleted", "erased")
        for r in m.relations
    }
    rows = await bench.rows("SELECT memory_id::text, object_id FROM relations WHERE user_id = %s", user)
    assert set(rows) == relations


async def test_a_proposal_writes_everything_in_one_transaction(settings: Settings) -> None:
    relation = Relation(
        subject_type="user", subject_id="self", predicate="lives_in", object_type="city", object_id="深圳"
    )
    refusal = Refusal(gate="gate0", rule_id="r", gate_version="1", outcome="quarantine", side="user", excerpt="***")
    proposal = said(
        1,
        candidate("city", '"深圳"', vectors=(vector(1, 2, 3),), relations=(relation,)),
        candidate("job", '"cook"', confidence=0.4),
        refusals=(refusal,),
    )
    async with opened(settings) as bench:
        outcome = await bench.apply(proposal, 7)
        assert (outcome.status, outcome.changes) == ("decided", 4)
        counts = {t: (await bench.rows(f"SELECT count(*) FROM {t}"))[0][0] for t in TABLES}
        assert counts == {
            "memories": 1, "memory_history": 1, "memory_edges": 1, "relations": 1, "entities": 2, "memory_vectors": 1,
            "pending": 1, "review": 0, "quarantine": 1, "before_marks": 0, "command_outcomes": 1, "memory_outbox": 5,
            "user_positions": 1, "positions": 1,
        }  # fmt: skip
        kinds = await bench.rows("SELECT event_type, payload FROM memory_outbox ORDER BY outbox_id")
        assert [k for k, _ in kinds] == [
            "memory.created", "vectors.revectored", "quarantine.filed", "pending.filed", "command.candidates",
        ]  # fmt: skip
        changed = CODEC.decode(kinds[0][1], MemoryChanged)
        assert (changed.position, changed.origin, changed.proposal_id) == (Origin(0, 7), Origin(0, 1), "proposal-1")
        assert changed.body is not None
        assert "深圳".encode() not in kinds[0][1]
        key = await bench.keys.key(TENANT, USER, changed.body.key_id)
        assert open_record(CODEC, changed.body, key, Memory) == next(iter((await bench.memories()).values()))
        versions = await bench.rows(
            "SELECT record::text FROM memory_history WHERE memory_id = %s ORDER BY version", changed.aggregate_id
        )
        recorded = [as_decided(msgspec.json.decode(row[0], type=Memory)) for row in versions]
        assert recorded == list((await bench.memories()).values())
        await wait_for(settings, TENANT, USER, Origin(0, 1), timeout_seconds=1)
        with pytest.raises(Retryable):
            await wait_for(settings, TENANT, USER, Origin(0, 2), timeout_seconds=0.05)


async def test_vectors_are_kept_bit_by_bit(settings: Settings) -> None:
    first, second = vector(0.1, -0.0, 1e-30), vector(0.2, 0.7, 3.0)
    async with opened(settings) as bench:
        await bench.apply(
            said(1, candidate("likes", '"a"', vectors=(first,)), candidate("likes", '"b"', vectors=(second,))), 0
        )
        state = await bench.rows("SELECT memory_id::text, digest FROM memory_vectors")
        assert len(state) == 2
        kept = await bench.rows(
            "SELECT m.value::text, vector_send(v.vector) FROM memory_vectors AS v JOIN memories AS m USING (memory_id)"
        )
        expected = {'"a"': postgres_vector(first.values), '"b"': postgres_vector(second.values)}
        assert {value: bytes(sent) for value, sent in kept} == expected
        storage = await bench.rows(
            "SELECT attstorage FROM pg_attribute WHERE attrelid = 'memory_vectors'::regclass AND attname = 'vector'"
        )
        assert storage == [("m",)]


async def test_a_redelivered_proposal_changes_nothing(settings: Settings) -> None:
    async with opened(settings) as bench:
        proposal = said(1, candidate("city", '"深圳"'))
        assert (await bench.apply(proposal, 5)).status == "decided"
        before = {t: await bench.rows(f"SELECT * FROM {t} ORDER BY 1, 2, 3") for t in TABLES}
        assert (await bench.apply(proposal, 5)).status == "duplicate"
        assert (await bench.apply(said(9, candidate("city", '"北京"')), 4)).status == "duplicate"
        assert {t: await bench.rows(f"SELECT * FROM {t} ORDER BY 1, 2, 3") for t in TABLES} == before
        # The producer sent it twice: another offset, the same proposal.
        assert (await bench.apply(proposal, 6)).status == "duplicate"
        assert await bench.rows("SELECT last_offset FROM positions") == [(6,)]
        assert len(await bench.memories()) == 1


async def test_two_writers_of_one_partition_decide_every_proposal_once(settings: Settings) -> None:
    async with opened(settings) as one, opened(settings) as two:
        messages = [await one.encode(said(n, candidate("likes", f'"{n % 7}"'))) for n in range(30)]

        async def run(bench: Bench) -> list[str]:
            return [(await bench.handle(m, n)).status for n, m in enumerate(messages)]

        first, second = await asyncio.gather(run(one), run(two))
        assert all({a, b} == {"decided", "duplicate"} for a, b in zip(first, second, strict=True))
        world = World()
        for n in range(30):
            world.apply(said(n, candidate("likes", f'"{n % 7}"')))
        assert await one.memories() == {m.memory_id: m for m in world.memories()}


async def test_a_writer_that_was_frozen_in_its_transaction_is_fenced(settings: Settings) -> None:
    short = settings.model_copy(update={"postgres_idle_in_transaction_seconds": 0.3})
    async with opened(short) as frozen, opened(settings) as other:
        await other.apply(said(0, candidate("city", '"深圳"')), 0)
        reached, released = asyncio.Event(), asyncio.Event()
        take = frozen.remember._keys_for

        async def freeze(*arguments: object) -> object:
            reached.set()
            await released.wait()
            return await take(*arguments)  # type: ignore[arg-type]

        frozen.remember._keys_for = freeze  # type: ignore[method-assign, assignment]
        stuck = asyncio.create_task(frozen.apply(said(1, candidate("city", '"北京"')), 1))
        await reached.wait()
        # It holds the row; the server ends its transaction, and the next owner goes on.
        assert (await other.apply(said(1, candidate("city", '"北京"')), 1)).status == "decided"
        released.set()
        with pytest.raises((Retryable, Broken)):
            await stuck
        assert (await frozen.apply(said(1, candidate("city", '"北京"')), 1)).status == "duplicate"
        assert [m.version for m in (await other.memories()).values() if m.status == "active"] == [1]


async def test_offsets_of_another_kafka_stop_with_a_clear_sentence(settings: Settings) -> None:
    async with opened(settings) as bench:
        await bench.apply(said(1, candidate("city", '"深圳"')), 100)
    async with opened(settings, cluster="cluster-2") as bench:
        with pytest.raises(Broken, match="cluster-1, but this is cluster-2"):
            await bench.apply(said(2, candidate("city", '"北京"')), 0)
        with pytest.raises(Broken, match="Kafka was reset"):
            await bench.handle(b"junk", 0)


async def test_bytes_that_are_no_proposal_move_the_position_and_are_handed_back(settings: Settings) -> None:
    async with opened(settings) as bench:
        for offset, value in enumerate(
            (b"", b"junk", CODEC.encode(said(1).envelope)[:-3], CODEC.encode(said(1).envelope) + b"x")
        ):
            outcome = await bench.handle(value, offset)
            assert outcome.status == "rejected"
            assert isinstance(outcome.error, Rejected)
        nobody = CODEC.encode(said(5, user_id="no spaces allowed").envelope)
        assert (await bench.handle(nobody, 4)).status == "rejected"
        assert await bench.rows("SELECT last_offset FROM positions") == [(4,)]
        assert await bench.memories() == {}


async def test_an_erased_body_is_rejected_told_again_and_waiting_ends(settings: Settings) -> None:
    async with opened(settings) as bench:
        value = await bench.encode(said(3, candidate("city", '"深圳"')))
        await bench.keys.destroy_user(TENANT, USER)
    async with opened(settings) as bench:
        for _ in range(2):
            outcome = await bench.handle(value, 0)
            assert (outcome.status, outcome.error and outcome.error.code) == ("rejected", "erased")
        assert await bench.rows("SELECT outcome FROM command_outcomes") == [("rejected",)]
        assert await bench.rows("SELECT event_type FROM memory_outbox") == [("command.candidates",)]
        await wait_for(settings, TENANT, USER, Origin(0, 3), timeout_seconds=1)
        # A returning user gets a new key.
        assert (await bench.apply(said(4, candidate("city", '"北京"')), 1)).status == "decided"


async def test_a_body_sealed_for_somebody_else_does_not_open(settings: Settings) -> None:
    async with opened(settings) as bench:
        value = await bench.encode(said(1, candidate("city", '"深圳"')))
        stolen = msgspec.structs.replace(CODEC.decode(value, type(said(1).envelope)), user_id="mallory")
        outcome = await bench.handle(CODEC.encode(stolen), 0)
        assert (outcome.status, outcome.error and outcome.error.code) == ("rejected", "unknown_key")


async def test_a_value_that_postgres_refuses_never_stops_the_partition(settings: Settings) -> None:
    async with opened(settings, replace(POLICY, id_limit_characters=100_000)) as bench:
        # Longer than an index entry may be: the server refuses the row, not the model.
        proposal = said(
            1, candidate("city", '"深圳"', entity_id="".join(chr(0x4E00 + n % 9000) for n in range(20_000)))
        )
        outcome = await bench.apply(proposal, 0)
        assert (outcome.status, outcome.error and outcome.error.code) == ("rejected", "bad_value")
        assert (await bench.apply(said(2, candidate("city", '"北京"')), 1)).status == "decided"


async def test_commands_go_the_same_way_and_their_outcome_is_stored(settings: Settings) -> None:
    async with opened(settings) as bench:
        await bench.apply(said(1, candidate("city", '"深圳"', vectors=(vector(1, 0),))), 0)
        (memory,) = (await bench.memories()).values()
        assert (await bench.apply(asked(2, "forget", memory.memory_id), 1)).status == "decided"
        assert (await bench.apply(asked(3, "forget", "not-an-id"), 2)).status == "refused"
        assert (await bench.apply(asked(4, "restore", memory.memory_id), 3)).status == "decided"
        assert (await bench.apply(asked(5, "plan", memory.memory_id), 4)).status == "refused"
        (memory,) = (await bench.memories()).values()
        assert (memory.status, memory.version) == ("active", 3)
        outcomes = await bench.rows("SELECT outcome, memory_ids::text[] FROM command_outcomes ORDER BY proposal_id")
        assert outcomes == [
            ("accepted", [memory.memory_id]), ("refused", []), ("accepted", [memory.memory_id]), ("refused", []),
            ("accepted", [memory.memory_id]),
        ]  # fmt: skip


async def test_vectors_are_replaced_without_a_new_version(settings: Settings) -> None:
    async with opened(settings) as bench:
        await bench.apply(said(1, candidate("city", '"深圳"', vectors=(vector(1, 0),))), 0)
        (memory,) = (await bench.memories()).values()
        both = (vector(1, 0), vector(0, 1, 0, revision="new"))
        proposal = asked(2, "vectors")
        body = MemoryVectors(memory_id=memory.memory_id, vectors=both)
        assert (await bench.apply(DecodedProposal(proposal.envelope, body), 1)).status == "decided"
        assert await bench.rows("SELECT revision FROM memory_vectors ORDER BY 1") == [("new",), ("test-1",)]
        assert list((await bench.memories()).values()) == [memory]


async def test_a_server_that_goes_away_is_retryable_and_nothing_is_half_written(settings: Settings) -> None:
    async with opened(settings) as bench:
        await bench.apply(said(1, candidate("city", '"深圳"')), 0)
        victims = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'engram_writer' AND datname = %s"
        )
        write = bench.remember._write

        async def cut(*arguments: object) -> None:
            await bench.rows(victims, settings.postgres_database)
            await write(*arguments)  # type: ignore[arg-type]

        bench.remember._write = cut  # type: ignore[method-assign]
        with pytest.raises(Retryable):
            await bench.apply(said(2, candidate("city", '"北京"')), 1)
        bench.remember._write = write  # type: ignore[method-assign]
        assert (await bench.apply(said(2, candidate("city", '"北京"')), 1)).status == "decided"


@pytest.mark.parametrize("step", ["in_transaction", "after_commit"])
async def test_killed_at_a_crash_point_the_proposal_counts_once(settings: Settings, step: str) -> None:
    async with opened(settings) as bench:
        value = await bench.encode(said(1, candidate("city", '"深圳"')))
        program = Path(__file__).with_name("truth_crash.py")
        environment = environment_of(settings) | {"ENGRAM_CRASH_AT": f"{step}:1", "PYTHONPATH": str(Path.cwd())}
        died = await asyncio.to_thread(
            subprocess.run, [sys.executable, str(program), value.hex()], env=environment, check=False, timeout=60
        )
        assert died.returncode == -signal.SIGKILL
        stored = len(await bench.memories())
        assert stored == (1 if step == "after_commit" else 0)
        outcome = await bench.handle(value, 0)
        assert outcome.status == ("duplicate" if step == "after_commit" else "decided")
        assert [m.version for m in (await bench.memories()).values()] == [1]
        assert len(await bench.rows("SELECT 1 FROM memory_outbox")) == 2


async def test_a_destroyed_memory_key_cannot_be_opened_again(settings: Settings) -> None:
    async with opened(settings) as bench:
        await bench.apply(said(1, candidate("city", '"深圳"')), 0)
        ((payload,),) = await bench.rows("SELECT payload FROM memory_outbox WHERE event_type = 'memory.created'")
        sealed = CODEC.decode(payload, MemoryChanged).body
        assert sealed is not None
        await bench.keys.destroy_keys(TENANT, USER, [sealed.key_id])
        fresh = await KeyStore.open(settings)
        try:
            with pytest.raises(Rejected, match="destroyed"):
                await fresh.key(TENANT, USER, sealed.key_id)
        finally:
            await fresh.close()
