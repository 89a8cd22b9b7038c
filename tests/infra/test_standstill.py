"""What stands still ends: a stage that hangs, a relay that publishes nothing, a projector that commits nothing."""

import asyncio
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from conftest import environment_of
from test_lag import wait_for_relay
from test_outbox_command import database

from infra.lifecycle import State
from infra.processes import Family, ProcessSpec
from infra.projector_watch import watch_projectors
from infra.relay_watch import Standstill, watch_relay
from infra.state import free_port
from infra.supervisor import Supervisor
from infra.worker_process import Here, here_of
from projectors.entries import Generation
from projectors.generations import ROLE, Detail, ensure_first
from projectors.names import group_name
from schemas.errors import Broken
from schemas.routing import partition_of
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS, UPDATED, Topic
from streams.faust_stage import group_of
from streams.kafka import TopicPartition, committed_offsets, consumer, producer, send, started
from streams.postgres import connect

PROGRAM = Path(__file__).with_name("hanging_worker.py")


async def send_raw(settings: Settings, topic: Topic, record: tuple[bytes, bytes]) -> None:
    async with started(producer(settings)) as client:
        await send(client, topic.named(settings.topic_prefix), record[1], key=record[0])


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def sample(port: int, name: str) -> float | None:
    for line in asked(port, "/metrics")[1].splitlines():
        if line.startswith(f"{name} "):
            return float(line.rsplit(" ", 1)[1])
    return None


async def until(holds: object, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        await asyncio.sleep(0.2)


@pytest.mark.stack
@pytest.mark.timeout(300)
async def test_a_stage_that_hangs_ends_and_is_started_again_and_the_input_is_done(
    topics: Settings, tmp_path: Path
) -> None:
    port, beat = free_port(set()), tmp_path / "beat.json"
    changed = topics.model_copy(
        update={"max_poll_seconds": 8.0, "session_timeout_seconds": 6.0, "heartbeat_file": beat, "metrics_port": port}
    )
    spec = ProcessSpec(
        name="hanging-worker",
        command=(sys.executable, str(PROGRAM)),
        environment={**environment_of(changed), "PYTHONPATH": str(PROGRAM.parents[2])},
        first_environment={"HANG": "1"},
        ready=beat,
    )
    family = Family(tmp_path)
    family.open()
    supervisor = Supervisor(family, tmp_path)
    supervisor.open()
    try:
        supervisor.start(spec)
        await until(lambda: supervisor.statuses()[0].state is State.READY)
        assert asked(port, "/readyz")[0] == asked(port, "/healthz")[0] == 200
        assert asked(port, "/elsewhere")[0] == 404
        await send_raw(topics, CHAT_TURNS, (b"acme/ann", b"x"))
        await until(lambda: supervisor.statuses()[0].restarts == 1)
        await until(lambda: supervisor.statuses()[0].state is State.READY)
        name = CHAT_TURNS.named(topics.topic_prefix)
        number = partition_of("acme", "ann", topics.partitions)
        await until(lambda: sample(port, 'engram_inputs_total{stage="hanging",status="done"}') == 1.0)
        assert sample(port, 'engram_batch_inputs_count{stage="hanging"}') == 1.0
        lag = f'engram_lag_records{{group="{group_of("hanging", topics)}",partition="{number}",topic="{name}"}}'
        await until(lambda: sample(port, lag) == 0.0)
        committed = await committed_offsets(topics, group_of("hanging", topics), [name])
        assert committed[TopicPartition(name, number)] == 1
        assert "no progress" in supervisor.log(spec.name).read_text()
    finally:
        supervisor.stop([spec.name])
        supervisor.close()
        family.close()


def here(settings: Settings, role: str) -> Here:
    found = here_of(settings, role)
    found.ready()
    return found


@pytest.mark.stack
async def test_a_relay_that_publishes_nothing_while_a_row_grows_old_is_ended(topics: Settings) -> None:
    with database(topics) as connection:
        wait_for_relay(connection, "late", 60, attempts=1)
    published = 0
    own = here(topics, "relay")
    watching = asyncio.create_task(watch_relay(own, lambda: published, patience_seconds=0.6, every_seconds=0.2))
    await asyncio.sleep(2)
    assert not watching.done()  # Only a row that waits for its own next try.
    with database(topics) as connection:
        wait_for_relay(connection, "ann", 60)
    for _ in range(10):
        published += 1
        await asyncio.sleep(0.2)
    assert not watching.done()  # It publishes, if slowly.
    own.heartbeat.set("waiting", "Kafka is away")
    await asyncio.sleep(2)
    assert not watching.done()  # It stands still on purpose.
    own.heartbeat.set("ready")
    with pytest.raises(Broken, match="nothing was published for 1 s"):
        await asyncio.wait_for(watching, 30)
    shown = own.metrics.answer("/metrics")[2].decode()
    assert "engram_outbox_rows 2.0" in shown
    assert "engram_outbox_held_users 1.0" in shown


@pytest.mark.stack
async def test_a_projector_that_commits_nothing_while_records_wait_is_ended(topics: Settings) -> None:
    connection = await connect(topics, ROLE, autocommit=True)
    await ensure_first(connection, "neo4j", Detail(), 1)
    await connection.close()
    topic = UPDATED.named(topics.topic_prefix)
    number = partition_of("acme", "ann", topics.partitions)
    own = here(topics, "neo4j")
    watching = asyncio.create_task(watch_projectors(own, "neo4j", topic, patience_seconds=1.0, every_seconds=0.2))
    await asyncio.sleep(3)
    assert not watching.done()  # Nothing waits.
    await send_raw(topics, UPDATED, (b"acme/ann", b"x"))
    own.heartbeat.set("waiting", "neo4j does not answer")
    await asyncio.sleep(3)
    assert not watching.done()  # The store is away.
    own.heartbeat.set("ready")
    with pytest.raises(Broken, match=f"generation 1 of neo4j made no progress for 1 s in partitions {number} of"):
        await asyncio.wait_for(watching, 60)
    group = group_name(topics.topic_prefix, Generation("neo4j", 1, "live"))
    lag = f'engram_lag_records{{group="{group}",partition="{number}",topic="{topic}"}} 1.0'
    assert lag in own.metrics.answer("/metrics")[2].decode()
    async with started(consumer(topics, group=group)) as reader:
        reader.assign([TopicPartition(topic, number)])
        await reader.commit({TopicPartition(topic, number): 1})
    with pytest.raises(TimeoutError):  # What was committed does not stand still.
        await asyncio.wait_for(watch_projectors(own, "neo4j", topic, patience_seconds=1.0, every_seconds=0.2), 5)


def test_the_same_old_row_without_progress_is_a_standstill_and_nothing_else_is() -> None:
    standstill = Standstill(patience_seconds=60)

    def lasts(now: float, row: int | None, published: int) -> bool:
        return standstill.lasts(row, published, now_seconds=now)

    assert [lasts(0, 5, 1), lasts(59, 5, 1), lasts(60, 5, 1)] == [False, False, True]
    assert [lasts(61, 5, 2), lasts(120, 5, 2), lasts(121, 6, 2), lasts(180, 6, 2)] == [False] * 4
    assert [lasts(200, None, 2), lasts(300, None, 2), lasts(301, 7, 2), lasts(360, 7, 2), lasts(361, 7, 2)] == [
        False,
        False,
        False,
        False,
        True,
    ]
