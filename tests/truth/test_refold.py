"""Postgres made anew from ``memory.changes``: the rows it had, whatever stopped the fold, and then on as if nothing had been."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest
from conftest import _admin, _drop
from psycopg import sql
from truth_bench import CODEC, Bench, opened
from truth_lives import lived, rows_of_truth
from truth_world import TENANT, USER, candidate, said

from infra.refold import refold
from schemas.errors import Broken, Rejected, Retryable
from schemas.inputs import Origin
from schemas.memories import MemoryChanged
from schemas.routing import partition_of, routing_key
from schemas.settings import Settings
from schemas.topics import CHANGES, CHAT_TURNS, PROPOSALS
from streams import refold as refold_module
from streams.faust_stage import group_of
from streams.kafka import TopicPartition, committed_offsets, consumer, producer, send, started
from streams.log_watch import identity_of, known_log
from streams.postgres_outbox import standing
from streams.relay import Relay
from streams.remember import ROLE
from streams.stage import Input

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]
COUNT = 60


@pytest.fixture
def empty(topics: Settings, template: str) -> Iterator[Settings]:
    """The same log and key store with a second, empty truth."""
    name = f"{topics.postgres_database}_anew"
    with _admin(topics) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        )
        yield topics.model_copy(update={"postgres_database": name})
        _drop(connection, name)


async def identity(settings: Settings) -> str:
    return identity_of(await known_log(settings, ROLE), PROPOSALS.named(settings.topic_prefix))


async def published(settings: Settings) -> None:
    """Let the relay publish everything."""
    stop = asyncio.Event()
    relay = asyncio.create_task(Relay(settings.model_copy(update={"relay_poll_seconds": 0.1}), CODEC).run(stop))
    async with asyncio.timeout(60):
        while (await standing(settings, 1)).waiting:  # noqa: ASYNC110 - Postgres gives no event
            await asyncio.sleep(0.1)
    stop.set()
    await relay


def silent(_done: int, _total: int) -> None:
    """Show nothing."""


async def truth_of(bench: Bench) -> dict[str, list[tuple[object, ...]]]:
    rows = await rows_of_truth(bench)
    del rows["memory_outbox"]
    # A duplicate moves the position and leaves no change; remember reads it again and finds it done.
    del rows["positions"]
    return rows


async def test_the_rows_are_those_it_had_and_it_goes_on_live(topics: Settings, empty: Settings) -> None:
    cluster = await identity(topics)
    async with opened(topics, cluster=cluster) as bench:
        inputs, _ = await lived(bench, 3, COUNT)
        await published(topics)
        before = await truth_of(bench)
        outcome = await refold(empty, silent)
        assert outcome.proposals > COUNT / 2
        async with opened(empty, cluster=cluster) as anew:
            assert await truth_of(anew) == before
            assert await anew.rows("SELECT count(*) FROM memory_outbox") == [(0,)]
            # What it reads again is known; what is new leads to the same as in the original.
            again = await anew.remember.handle(inputs)
            assert {one.status for one in again} <= {"duplicate", "rejected"}
            last: dict[int, int] = dict(await bench.rows("SELECT partition, last_offset FROM positions"))  # type: ignore[arg-type]
            partition = partition_of(TENANT, USER, 4)
            for place, text in enumerate(('"成都"', '"Leeds"')):
                message = await bench.encode(said(900 + place, candidate("city", text)))
                for one in (bench, anew):
                    assert (
                        await one.handle(message, last.get(partition, -1) + 1 + place, partition)
                    ).status == "decided"
            assert await truth_of(anew) == await truth_of(bench)
    with pytest.raises(Rejected, match="not empty"):
        await refold(empty, silent)


async def test_workers_go_on_where_the_fold_ended_and_sessions_begin_anew(topics: Settings, empty: Settings) -> None:
    async with opened(topics, cluster=await identity(topics)) as bench:
        await lived(bench, 5, 20)
        await published(topics)
    proposals, turns = PROPOSALS.named(topics.topic_prefix), CHAT_TURNS.named(topics.topic_prefix)
    for role, topic in (("remember", proposals), ("working", turns)):
        async with started(consumer(topics, group=group_of(role, topics))) as client:
            ends = {TopicPartition(topic, number): 99 for number in range(4)}
            client.assign(list(ends))
            await client.commit(ends)
    await refold(empty, silent)
    async with opened(empty, cluster=await identity(empty)) as anew:
        positions = dict(await anew.rows("SELECT partition, last_offset FROM positions WHERE role = 'remember'"))
    remember = await committed_offsets(empty, group_of("remember", empty), [proposals])
    assert {tp.partition: offset for tp, offset in remember.items()} == {n: positions.get(n, -1) + 1 for n in range(4)}  # type: ignore[call-overload]
    working = await committed_offsets(empty, group_of("working", empty), [turns])
    assert {tp.partition: offset for tp, offset in working.items()} == dict.fromkeys(range(4), 0)


async def test_killed_half_way_it_goes_on_and_workers_wait_meanwhile(
    topics: Settings, empty: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = await identity(topics)
    monkeypatch.setattr(refold_module, "POLL_RECORDS", 9)
    async with opened(topics, cluster=cluster) as bench:
        await lived(bench, 11, COUNT)
        await published(topics)
        calls = [0]

        def killed(_done: int, _total: int) -> None:
            calls[0] += 1
            if calls[0] % 3 == 0:
                raise KeyboardInterrupt

        for _ in range(100):
            try:
                await refold(empty, killed)
            except KeyboardInterrupt:
                with pytest.raises(Retryable, match="made anew"):
                    await known_log(empty, ROLE)
            else:
                break
        assert calls[0] > 6
        await known_log(empty, ROLE)
        async with opened(empty, cluster=cluster) as anew:
            assert await truth_of(anew) == await truth_of(bench)


async def test_what_was_sent_twice_is_folded_once(topics: Settings, empty: Settings) -> None:
    cluster = await identity(topics)
    async with opened(topics, cluster=cluster) as bench:
        await lived(bench, 2, 25)
        await published(topics)
        name = CHANGES.named(topics.topic_prefix)
        async with started(consumer(topics, name, group="copy")) as reader, started(producer(topics)) as writer:
            copied = 0
            async with asyncio.timeout(30):
                while copied < 20:
                    for partition, records in (await reader.getmany(timeout_ms=200)).items():
                        for record in records:
                            await send(writer, name, record.value, key=record.key, partition=partition.partition)
                            copied += 1
        await refold(empty, silent)
        async with opened(empty, cluster=cluster) as anew:
            assert await truth_of(anew) == await truth_of(bench)


async def test_a_gap_in_the_log_stops_it_with_the_memory_named(topics: Settings, empty: Settings) -> None:
    async with opened(topics, cluster=await identity(topics)) as bench:
        await bench.apply(said(1, candidate("city", '"深圳"')), 0)
        await published(topics)
        (memory,) = (await bench.memories()).values()
    change = MemoryChanged(
        event_id="00000000-0000-4000-8000-000000000001", tenant_id=TENANT, user_id=USER, aggregate_id=memory.memory_id,
        kind="memory", op="updated", status="active", version=memory.version + 2, content_hash="h", occurred_at_ms=1,
        proposal_id="later", actor="turn", position=Origin(0, 9),
    )  # fmt: skip
    outcome = msgspec.structs.replace(
        change, event_id="00000000-0000-4000-8000-000000000002", kind="command", op="candidates", aggregate_id="event-9"
    )
    name, partition = CHANGES.named(topics.topic_prefix), partition_of(TENANT, USER, topics.partitions)
    async with started(producer(topics)) as client:
        for one in (change, outcome):
            await send(client, name, CODEC.encode(one), key=routing_key(TENANT, USER), partition=partition)
    with pytest.raises(Broken, match=f"has a gap: memory {memory.memory_id} has version 1 and meets version 3"):
        await refold(empty, silent)


async def test_a_proposal_that_was_published_in_part_is_decided_again(topics: Settings, empty: Settings) -> None:
    cluster = await identity(topics)
    async with opened(topics, cluster=cluster) as bench:
        first = await bench.encode(said(1, candidate("city", '"深圳"')))
        second = await bench.encode(said(2, candidate("likes", '"茶"'), candidate("likes", '"tea"')))
        await bench.handle(first, 0)
        await published(topics)
        await bench.handle(second, 1)
        # The relay is killed after two of three changes, and the database is lost.
        await bench.rows("DELETE FROM memory_outbox WHERE event_type = 'command.candidates' RETURNING 1")
        await published(topics)
        await refold(empty, silent)
        async with opened(empty, cluster=cluster) as anew:
            assert len(await anew.memories()) == 1
            assert [(await anew.handle(m, n)).status for n, m in enumerate((first, second))] == ["duplicate", "decided"]
            assert await anew.memories() == await bench.memories()


async def test_what_was_decided_before_something_published_is_not_passed_over(
    topics: Settings, empty: Settings
) -> None:
    cluster = await identity(topics)
    partition = partition_of(TENANT, USER, 4)
    other = next(name for n in range(99) if partition_of(TENANT, name := f"other-{n}", 4) == partition)
    async with opened(topics, cluster=cluster) as bench:
        messages = [
            await bench.encode(said(number, candidate("likes", f'"{number}"'), user_id=user))
            for number, user in enumerate((USER, USER, other, other))
        ]
        # One transaction; the rows of the outbox stand by rounds, so the second of the first user comes behind the third.
        await bench.remember.handle(
            [Input(message, Origin(partition, place)) for place, message in enumerate(messages)]
        )
        # The database is lost before the relay sent what that one led to.
        await bench.rows("DELETE FROM memory_outbox WHERE aggregate_id = 'event-1' RETURNING 1")
        await published(topics)
        await refold(empty, silent)
        async with opened(empty, cluster=cluster) as anew:
            assert await anew.rows("SELECT last_offset FROM positions WHERE role = 'remember'") == [(0,)]
            statuses = [(await anew.handle(message, place, partition)).status for place, message in enumerate(messages)]
            assert statuses == ["duplicate", "decided", "duplicate", "duplicate"]
            assert await anew.memories() == await bench.memories()


async def test_an_erased_memory_keeps_version_and_hash_and_nothing_else(topics: Settings, empty: Settings) -> None:
    cluster = await identity(topics)
    async with opened(topics, cluster=cluster) as bench:
        await bench.apply(said(1, candidate("city", '"深圳"'), candidate("likes", '"tea"', confidence=0.3)), 0)
        await bench.apply(said(2, candidate("city", '"北京"')), 1)
        await published(topics)
        before = await bench.rows("SELECT memory_id, version, content_hash, status FROM memories ORDER BY 1")
        await bench.keys.destroy_user(TENANT, USER)
        await refold(empty, silent)
        async with opened(empty, cluster=cluster) as anew:
            assert await anew.rows("SELECT memory_id, version, content_hash, status FROM memories ORDER BY 1") == before
            assert await anew.rows("SELECT DISTINCT content, value::text FROM memories") == [("", "null")]
            assert await anew.rows("SELECT count(record), count(*) FROM memory_history") == [(0, 3)]
            assert await anew.rows("SELECT count(*) FROM pending") == [(0,)]
            assert await anew.rows("SELECT outcome FROM command_outcomes ORDER BY 1") == [("accepted",), ("accepted",)]


async def test_running_workers_are_named_first(
    topics: Settings, empty: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.refold.STOPPED_SECONDS", 0.5)
    topic = PROPOSALS.named(topics.topic_prefix)
    async with started(consumer(topics, topic, group=group_of("remember", topics))) as client:
        await client.getmany(timeout_ms=2_000)
        with pytest.raises(Retryable, match="workers are still running"):
            await refold(empty, silent)
