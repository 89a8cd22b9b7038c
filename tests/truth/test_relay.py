"""The relay on the real Postgres and Kafka: order, snapshots, dead rows, silent servers, one owner, nothing lost."""

import asyncio
import inspect
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from conftest import environment_of
from truth_bench import CODEC, Bench, opened
from truth_topics import records_of
from truth_world import TENANT, USER, World, asked, candidate, fold, said, vector

from schemas.ids import routing_key
from schemas.inputs import Origin
from schemas.memories import Memory, MemoryChanged, MemoryUpdated, MemoryVectors
from schemas.proposals import Proposal
from schemas.routing import partition_of
from schemas.settings import Settings
from schemas.topics import CHANGES, UPDATED, WORKING
from schemas.working import WorkingEvent
from streams.changes import Body, Change
from streams.postgres import connect
from streams.postgres_outbox import Outbox, requeue_dead
from streams.relay import Relay
from streams.sealed_records import open_record

pytestmark = pytest.mark.stack
WAIT_SECONDS = 30


async def until(holds: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Return as soon as ``holds`` (a value, or something to await) is true; fail after a while."""
    async with asyncio.timeout(seconds):
        while True:
            found = holds()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(0.01)  # The other side is a server: it has no signal for a test.


@asynccontextmanager
async def running(settings: Settings, **arguments: object) -> AsyncIterator[Relay]:
    relay = Relay(settings, CODEC, chance=random.Random(1), **arguments)  # type: ignore[arg-type] # noqa: S311
    stop = asyncio.Event()
    task = asyncio.create_task(relay.run(stop))
    try:
        yield relay
    finally:
        stop.set()
        await asyncio.wait_for(task, WAIT_SECONDS)


async def left(bench: Bench) -> int:
    return int((await bench.rows("SELECT count(*) FROM memory_outbox"))[0][0])


async def drained(bench: Bench) -> None:
    async def is_empty() -> bool:
        return await left(bench) == 0

    await until(is_empty)


async def opened_change(bench: Bench, event: MemoryChanged) -> Change:
    kinds = {"memory": Memory, "vectors": MemoryVectors}
    body = None
    if event.body is not None and event.kind in kinds:
        key = await bench.keys.key(event.tenant_id, event.user_id, event.body.key_id)
        body = open_record(CODEC, event.body, key, kinds[event.kind])
    names = set(Change.__struct_fields__) - {"body"}
    return Change(**{name: getattr(event, name) for name in names}, body=body)  # type: ignore[arg-type]


async def test_what_was_committed_is_published_in_order_and_folds_back(topics: Settings) -> None:
    async with opened(topics) as bench:
        users = [f"user-{n}" for n in range(6)]
        worlds = {user: World() for user in users}
        turns: list[tuple[str, list[str]]] = [(users[n % 6], ['"深圳"', '"北京"', '"Berlin"']) for n in range(18)]
        for offset, (user, values) in enumerate(turns):
            facts = [
                candidate("city", values[offset // 6], vectors=(vector(1, offset),)),
                candidate("likes", f'"{offset}"'),
            ]
            proposal = said(offset, *facts, user_id=user, origin=Origin(0, offset))
            worlds[user].apply(proposal)
            await bench.apply(proposal, offset)
        async with running(topics):
            await drained(bench)
        changes = await records_of(topics, CHANGES)
        folded: dict[str, dict[tuple[str, str], Body]] = {user: {} for user in users}
        for partition, key, value, _ in changes:
            event = CODEC.decode(value, MemoryChanged)
            assert key == routing_key(event.tenant_id, event.user_id)
            assert partition == partition_of(event.tenant_id, event.user_id, topics.partitions)
            if event.kind == "memory":
                fold(folded[event.user_id], [await opened_change(bench, event)])
        newest: dict[bytes, MemoryUpdated] = {}
        for partition, key, value, headers in await records_of(topics, UPDATED):
            update = CODEC.decode(value, MemoryUpdated)
            assert (partition, key, headers) == (
                partition_of(TENANT, update.user_id, topics.partitions), update.memory_id.encode(), {},
            )  # fmt: skip
            assert key not in newest or newest[key].version <= update.version
            newest[key] = update
        for user in users:
            stored = await bench.memories(user_id=user)
            assert (
                {m.memory_id: m for m in folded[user].values()}
                == stored
                == {m.memory_id: m for m in worlds[user].memories()}
            )
            for memory_id, memory in stored.items():
                update = newest[memory_id.encode()]
                assert (update.memory, update.content_hash, update.status) == (
                    memory,
                    memory.content_hash,
                    memory.status,
                )
                assert update.vectors == worlds[user].vectors_of(memory_id)
        ops = {u.memory.value: u.op for u in newest.values() if u.memory and u.memory.attribute == "city"}
        assert ops == {'"深圳"': "superseded", '"北京"': "superseded", '"Berlin"': "created"}


async def test_a_deleted_memory_leaves_a_record_without_content(topics: Settings) -> None:
    async with opened(topics) as bench:
        await bench.apply(said(1, candidate("city", '"深圳"', vectors=(vector(1, 0),))), 0)
        (memory,) = (await bench.memories()).values()
        await bench.apply(asked(2, "forget", memory.memory_id), 1)
        async with running(topics):
            await drained(bench)
            await bench.apply(asked(3, "restore", memory.memory_id), 2)
            await drained(bench)
        updates = [CODEC.decode(value, MemoryUpdated) for _, _, value, _ in await records_of(topics, UPDATED)]
        deleted, restored = updates[-2:]
        assert (deleted.op, deleted.status, deleted.version, deleted.memory, deleted.vectors) == (
            "deleted",
            "deleted",
            2,
            None,
            (),
        )
        assert (restored.op, restored.version, restored.vectors) == ("restored", 3, (vector(1, 0),))
        assert not any("深圳".encode() in value for _, _, value, _ in await records_of(topics, CHANGES))


async def test_repairs_go_to_the_topic_of_the_store_alone_with_their_header(topics: Settings) -> None:
    async with opened(topics) as bench:
        await bench.apply(said(1, candidate("city", '"深圳"')), 0)
        (memory,) = (await bench.memories()).values()
        shard = partition_of(TENANT, USER, topics.partitions)
        await bench.rows("DELETE FROM memory_outbox RETURNING 1")
        unknown = "11111111-1111-1111-1111-111111111111"
        header = b'{"store":"milvus"}'
        placed = b'{"store":"influx","generation":1,"observed_version":3,"place":"s-1/3/1700000000000"}'
        for aggregate, target, event_type, repair in (
            (memory.memory_id, "memory", "memory.updated", header), (unknown, "memory", "memory.updated", header),
            ("e-1", "working", "orphaned", placed),
        ):  # fmt: skip
            await bench.rows(
                "INSERT INTO memory_outbox (event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type,"
                " target, repair_header, repair_dedupe_key)"
                " VALUES (gen_random_uuid(), %s, %s, %s, %s, 4, %s, %s, %s, %s) RETURNING 1",
                aggregate, TENANT, USER, shard, event_type, target, repair.decode(), f"milvus:{aggregate}",
            )  # fmt: skip
        async with running(topics):
            await drained(bench)
        assert await records_of(topics, CHANGES) == []
        found = [
            (CODEC.decode(value, MemoryUpdated), headers) for _, _, value, headers in await records_of(topics, UPDATED)
        ]
        assert [h for _, h in found] == [{"repair": header}] * 2
        assert (found[0][0].memory, found[0][0].version) == (memory, 1)
        assert (found[1][0].op, found[1][0].memory, found[1][0].version, found[1][0].memory_id) == (
            "orphaned",
            None,
            4,
            unknown,
        )
        ((_, key, value, headers),) = await records_of(topics, WORKING)
        event = CODEC.decode(value, WorkingEvent)
        assert (event.event_type, event.event_id, key, headers) == (
            "orphaned",
            "e-1",
            b"acme/alice",
            {"repair": placed},
        )
        assert (event.session_id, event.sequence, event.occurred_at_ms) == ("s-1", 3, 1_700_000_000_000)


async def test_a_poison_row_holds_back_its_user_alone_dies_and_can_be_requeued(topics: Settings) -> None:
    patient = topics.model_copy(update={"relay_attempts": 2})
    async with opened(topics) as bench:
        await bench.apply(said(1, candidate("city", '"深圳"')), 0)
        await bench.apply(said(2, candidate("city", '"北京"')), 1)
        await bench.apply(said(3, candidate("city", '"Paris"'), user_id="bob"), 2)
        ((good,),) = await bench.rows("SELECT payload FROM memory_outbox ORDER BY outbox_id LIMIT 1")
        await bench.rows(
            "UPDATE memory_outbox SET payload = NULL WHERE outbox_id = (SELECT min(outbox_id) FROM memory_outbox) RETURNING 1"
        )
        async with running(patient) as relay:
            await until(lambda: relay.published == 2)
            await until(lambda: bench.rows("SELECT 1 FROM memory_outbox WHERE attempts > 0"))
            assert {row[0] for row in await bench.rows("SELECT DISTINCT user_id FROM memory_outbox")} == {USER}
            ((attempts, error),) = await bench.rows("SELECT attempts, last_error FROM memory_outbox WHERE attempts > 0")
            assert (attempts, "no payload" in error) == (1, True)
            await bench.rows("UPDATE memory_outbox SET available_at = now() WHERE attempts > 0 RETURNING 1")
            await until(lambda: bench.rows("SELECT 1 FROM outbox_dead"))
            # Dead, and still its user waits; others go on.
            await bench.apply(said(4, candidate("likes", '"茶"'), user_id="bob"), 3)
            await until(lambda: relay.published == 4)
            assert await left(bench) == 4
            ((number,),) = await bench.rows("SELECT outbox_id FROM outbox_dead")
            await bench.rows("UPDATE outbox_dead SET payload = %s RETURNING 1", good)
            assert await requeue_dead(topics, [number, 999_999]) == (number,)
            await drained(bench)
        events = [
            CODEC.decode(v, MemoryChanged) for _, k, v, _ in await records_of(topics, CHANGES) if k == b"acme/alice"
        ]
        assert [(e.kind, e.version) for e in events] == [
            ("memory", 1), ("command", 0), ("memory", 1), ("memory", 2), ("command", 0),
        ]  # fmt: skip


async def test_a_row_above_the_limit_fails_on_its_own(topics: Settings) -> None:
    small = topics.model_copy(update={"stage_limit_bytes": 4000})
    async with opened(topics) as bench:
        await bench.apply(said(1, candidate("city", '"深圳"', content="x" * 5000)), 0)
        await bench.apply(said(2, candidate("city", '"Paris"'), user_id="bob"), 1)
        async with running(small) as relay:
            await until(lambda: relay.published == 2)
        failed = await bench.rows(
            "SELECT user_id, attempts, strpos(last_error, 'limit') > 0 FROM memory_outbox WHERE attempts > 0"
        )
        assert failed == [(USER, 1, True)]


async def test_a_silent_broker_is_not_the_fault_of_a_row(topics: Settings) -> None:
    nowhere = topics.model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:1"})
    states: list[str] = []

    class Beat:
        def set(self, state: str, detail: str = "", /) -> None:
            states.append(state)

    async with opened(topics) as bench:
        await bench.apply(said(1, candidate("city", '"深圳"')), 0)
        async with running(nowhere, beat=Beat()) as relay:
            await until(lambda: states.count("waiting") >= 2)
            assert relay.published == 0
        assert await bench.rows("SELECT DISTINCT attempts FROM memory_outbox") == [(0,)]
        async with running(topics):
            await drained(bench)
    assert states[-1] == "stopping"


async def test_one_relay_owns_the_shards_and_the_next_takes_over_when_it_dies(topics: Settings) -> None:
    async with opened(topics) as bench:
        first = await Outbox.open(topics)
        await first.take_shards()
        second = await Outbox.open(topics)
        await second.take_shards()
        assert (len(first.shards), len(second.shards)) == (topics.partitions, 0)
        await bench.apply(said(1, candidate("city", '"深圳"')), 0)
        assert await second.claim() == []
        assert len(await first.claim()) == 2
        await first.close()
        while not second.shards:
            await second.take_shards()
        assert len(await second.claim()) == 2
        await second.close()


async def test_losing_the_session_ends_the_work_and_begins_again(topics: Settings) -> None:
    async with opened(topics) as bench, running(topics) as relay:
        await bench.apply(said(1, candidate("city", '"深圳"')), 0)
        await until(lambda: relay.published == 2)
        await bench.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'engram_relay' AND datname = %s",
            topics.postgres_database,
        )
        await bench.apply(said(2, candidate("city", '"北京"')), 1)
        await drained(bench)


async def test_a_late_commit_with_a_lower_number_is_not_passed_over(topics: Settings) -> None:
    insert = (
        "INSERT INTO memory_outbox (event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,"
        " payload) VALUES (gen_random_uuid(), %s, 'acme', %s, %s, 1, 'command.x', 'memory', 'x') RETURNING outbox_id"
    )
    shard = partition_of("acme", "alice", topics.partitions)
    async with opened(topics) as bench:
        late = await connect(topics, topics.postgres_admin_user)
        await late.execute("SELECT pg_current_xact_id()")
        await late.execute(insert, ("late", "alice", shard))
        outbox = await Outbox.open(topics)
        await outbox.take_shards()
        for name in ("one", "two"):
            await bench.rows(insert, name, "bob", shard)
            outbox._looked_at = float("-inf")
            rows = await outbox.claim()
            assert [row.aggregate_id for row in rows] == [name]
            await outbox.done(rows)
        await late.commit()
        await bench.rows(insert, "after", "alice", shard)
        for _ in range(3):
            outbox._looked_at = float("-inf")
            assert [row.aggregate_id for row in await outbox.claim()] == ["late", "after"]
        await outbox.done(await outbox.claim())
        ((last,),) = await bench.rows("SELECT last_value FROM memory_outbox_outbox_id_seq")

        async def is_settled() -> bool:
            outbox._looked_at = float("-inf")
            assert await outbox.claim() == []
            return outbox._floor == last

        # Once every transaction of that time has ended, in every database of the server, a claim begins behind the last number.
        await until(is_settled, 100)
        await outbox.close()
        await late.close()


@pytest.mark.parametrize("step", ["after_relay_send", "before_outbox_done"])
async def test_killed_between_sending_and_removing_it_sends_again_and_loses_nothing(
    topics: Settings, step: str
) -> None:
    async with opened(topics) as bench:
        for number in range(3):
            await bench.apply(said(number, candidate("city", f'"{number}"')), number)
        program = Path(__file__).with_name("truth_relay_crash.py")
        environment = environment_of(topics) | {"ENGRAM_CRASH_AT": f"{step}:1", "PYTHONPATH": str(Path.cwd())}
        died = await asyncio.to_thread(
            subprocess.run, [sys.executable, str(program)], env=environment, check=False, timeout=60
        )
        assert died.returncode == -signal.SIGKILL
        assert await left(bench) == 8
        async with running(topics):
            await drained(bench)
        events = [CODEC.decode(value, MemoryChanged) for _, _, value, _ in await records_of(topics, CHANGES)]
        assert len(events) == 16
        folded: dict[tuple[str, str], Body] = {}
        fold(folded, [await opened_change(bench, e) for e in events if e.kind == "memory"])
        assert {m.memory_id: m for m in folded.values()} == await bench.memories()


async def test_waiting_rows_of_nobody_are_left_alone(topics: Settings) -> None:
    """A proposal without effects is published too: it is how far a rebuild has come."""
    async with opened(topics) as bench:
        proposal = said(1)
        await bench.handle(CODEC.encode(proposal.envelope), 0)
        async with running(topics):
            await drained(bench)
        ((_, _, value, _),) = await records_of(topics, CHANGES)
        event = CODEC.decode(value, MemoryChanged)
        assert (event.kind, event.status, event.position, event.aggregate_id) == (
            "command",
            "nothing",
            Origin(0, 0),
            "event-1",
        )
        assert await bench.memories() == {}
        assert isinstance(proposal.envelope, Proposal)
