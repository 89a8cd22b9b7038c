"""Inputs of ``working`` that come together lead to what they lead to one by one."""

import asyncio
import random
from collections.abc import AsyncIterator

import psycopg
import pytest
import stage_kit as kit
from conftest import _admin

from schemas.errors import Rejected
from schemas.inputs import Origin, RecordReceived, StepRecorded
from schemas.routing import partition_of
from schemas.settings import Settings
from streams.postgres import Pool, pool
from streams.stage import Input
from streams.working import Working
from streams.working_rows import ROLE, WorkingRows

pytestmark = pytest.mark.stack
# What chance puts into a row (keys, ciphertexts, times of the server) is left out.
ROWS = (
    "SELECT to_jsonb(h) FROM chat_history AS h ORDER BY user_id, event_id",
    "SELECT to_jsonb(w) FROM working_memory AS w ORDER BY user_id, session_id",
    "SELECT to_jsonb(e) - 'key_id' - 'nonce' - 'ciphertext' FROM working_events AS e ORDER BY user_id, session_id, sequence",
    "SELECT user_id, event_id, aggregate_version, event_type, shard FROM memory_outbox ORDER BY user_id, outbox_id",
    "SELECT role, partition, last_offset FROM positions ORDER BY partition",
)
SAID = (
    "我想预约周五下午的牙科",
    "好的",
    "cancel it",
    "I am allergic to peanuts",
    "what is my order?",
    "不用了",
    "hello",
)


def _stage(settings: Settings, keys: kit.MemoryKeys, connections: Pool) -> Working:
    return Working(
        lambda text: text,
        lambda text: "refused" in text,
        WorkingRows(connections, "cluster-1"),
        kit.CODEC,
        keys,
        settings=settings,
        now_ms=lambda: kit.NOW_MS,
    )


@pytest.fixture
async def connections(settings: Settings) -> AsyncIterator[Pool]:
    opened = await pool(settings, ROLE, 2)
    yield opened
    await opened.close()


def _query(settings: Settings, *statements: str) -> list[list[tuple[object, ...]]]:
    with _admin(settings) as admin:
        text = psycopg.conninfo.make_conninfo(admin.info.dsn, dbname=settings.postgres_database)
        password = settings.postgres_admin_password.get_secret_value()
        with psycopg.connect(text, password=password, autocommit=True) as connection:
            cursors = [connection.execute(statement) for statement in statements]  # type: ignore[call-overload]
            return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


async def _inputs(keys: kit.MemoryKeys, seed: int, count: int) -> list[Input]:
    """Messages of several users and sessions on several partitions: some twice, some junk."""
    chance = random.Random(seed)  # noqa: S311 - a mix that can be made again
    offsets: dict[int, int] = {}
    inputs: list[Input] = []
    for number in range(count):
        user = f"user-{chance.randint(0, 4)}"
        body = chance.choice(
            (
                kit.turn(chance.choice(SAID), chance.choice((None, "周五三点可以吗？", "Done.", "refused"))),
                kit.turn("refused text"),
                StepRecorded(step="tool_call", name="search", outcome="succeeded"),
                RecordReceived(source="crm", entity_type="order", entity_id="1", attributes={}, status="paid"),
            )
        )
        changes: dict[str, object] = {"user_id": user, "session_id": chance.choice("ab"), "event_id": f"event-{number}"}
        value = b"junk" if chance.random() < 0.05 else await kit.message(keys, body, **changes)
        partition = partition_of(kit.TENANT, user, 4)
        for _ in range(2 if chance.random() < 0.15 else 1):
            offsets[partition] = offsets.get(partition, -1) + 1
            inputs.append(Input(value, Origin(partition, offsets[partition])))
    return inputs


async def _told(stage: Working, inputs: list[Input], size: int) -> list[str]:
    told: list[str] = []
    for start in range(0, len(inputs), size):
        outcomes = await stage.handle(inputs[start : start + size])
        told += [outcome.code if isinstance(outcome, Rejected) else outcome.status for outcome in outcomes]
    return told


@pytest.mark.parametrize("seed", range(3))
async def test_together_or_one_by_one_the_rows_are_the_same(settings: Settings, connections: Pool, seed: int) -> None:
    keys = kit.MemoryKeys()
    stage = _stage(settings, keys, connections)
    inputs = await _inputs(keys, seed, 60)
    told = await _told(stage, inputs, 1)
    expected = _query(settings, *ROWS)
    assert set(told) >= {"written", "duplicate", "bad_avro"}
    for size in (7, len(inputs)):
        _query(settings, "TRUNCATE chat_history, working_memory, working_events, memory_outbox, positions")
        assert await _told(stage, inputs, size) == told
        assert _query(settings, *ROWS) == expected
        # Redelivered with another cut: nothing changes.
        assert set(await _told(stage, inputs[len(inputs) // 3 :], 11)) <= {"redelivered", "bad_avro"}
        assert _query(settings, *ROWS) == expected


async def test_one_that_postgres_refuses_does_not_take_the_others_along(settings: Settings, connections: Pool) -> None:
    keys = kit.MemoryKeys()
    _query(settings, "ALTER TABLE chat_history ADD CONSTRAINT no_poison CHECK (user_message <> 'poison')")
    place = kit.position_of().partition
    inputs = [
        Input(
            await kit.message(keys, kit.turn("poison" if n == 5 else "hello"), event_id=f"event-{n}"), Origin(place, n)
        )
        for n in range(9)
    ]
    told = await _told(_stage(settings, keys, connections), inputs, 9)
    assert told == ["written"] * 5 + ["bad_value"] + ["written"] * 3
    assert _query(settings, "SELECT sequence, last_offset FROM working_memory, positions") == [[(8, 8)]]


async def test_two_writers_of_the_same_partitions_write_each_input_once(settings: Settings, connections: Pool) -> None:
    keys = kit.MemoryKeys()
    inputs = []
    for n in range(60):
        user = f"user-{n % 6}"
        value = await kit.message(keys, kit.turn("hello"), user_id=user, event_id=f"event-{n}")
        inputs.append(Input(value, Origin(partition_of(kit.TENANT, user, 4), n)))
    first, second = (_stage(settings, keys, connections) for _ in range(2))
    told = await asyncio.gather(_told(first, inputs, 12), _told(second, inputs, 12))
    assert all({a, b} == {"written", "redelivered"} for a, b in zip(*told, strict=True)), told
    assert _query(settings, "SELECT count(*) FROM working_events", "SELECT sum(sequence) FROM working_memory") == [
        [(60,)],
        [(60,)],
    ]
