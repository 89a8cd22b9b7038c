"""`engram lag` tells per partition what is unread and how old it is, and how the outbox stands, on the real servers."""

import json
import time
from typing import Any

import psycopg
import pytest
from test_dead_command import engram
from test_outbox_command import bury, database

from infra.lag import group_lags, look, outbox_lag
from infra.workers import worker_name
from schemas.routing import partition_of
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS
from streams.faust_stage import group_of
from streams.kafka import TopicPartition, consumer, producer, send, started

pytestmark = pytest.mark.stack


def wait_for_relay(connection: "psycopg.Connection[Any]", user: str, age_seconds: int, attempts: int = 0) -> None:
    connection.execute(
        "INSERT INTO memory_outbox (event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,"
        " created_at, attempts, available_at) VALUES (gen_random_uuid(), 'm', 'acme', %s, 0, 1, 'x', 'memory',"
        " now() - make_interval(secs => %s), %s, now() + interval '1 hour')",
        (user, age_seconds, attempts),
    )


async def test_what_a_group_has_not_read_is_counted_and_dated_by_partition(topics: Settings) -> None:
    name = CHAT_TURNS.named(topics.topic_prefix)
    number = partition_of("acme", "小明", topics.partitions)
    old_ms = time.time_ns() // 1_000_000 - 3_600_000
    async with started(producer(topics)) as client:
        await send(client, name, b"read", partition=number)
        await client.send_and_wait(name, b"oldest unread", partition=number, timestamp_ms=old_ms)
        await send(client, name, b"newest", partition=number)
    async with started(consumer(topics, group=group_of("extract", topics))) as reader:
        reader.assign([TopicPartition(name, number)])
        await reader.commit({TopicPartition(name, number): 1})
    found = {one.role: one for one in await group_lags(topics, ages=True)}
    behind = [part for part in found["extract"].partitions if part.lag]
    assert [(part.partition, part.committed, part.end, part.lag) for part in behind] == [(number, 1, 3, 2)]
    assert behind[0].oldest_age_seconds == pytest.approx(3_600, abs=120)
    assert (found["extract"].lag, found["working"].lag, found["admit"].lag) == (2, 3, 0)
    assert found["admit"].oldest_age_seconds is None
    assert (await look(topics)).lags[worker_name("working")] == 3
    printed = json.loads(engram(topics, "lag", "--json"))
    by_role = {one["role"]: one for one in printed["groups"]}
    assert by_role["extract"]["lag"] == 2
    assert by_role["extract"]["oldest_age_seconds"] == pytest.approx(3_600, abs=120)
    assert f"{number}: 1/3" in engram(topics, "lag")


async def test_the_outbox_is_measured_without_those_who_wait_for_somebody_else(topics: Settings) -> None:
    assert (await outbox_lag(topics)).waiting == 0
    bury(topics, 1, "held")
    with database(topics) as connection:
        wait_for_relay(connection, "held", 9_000)
        wait_for_relay(connection, "late", 8_000, attempts=1)
        wait_for_relay(connection, "free", 700)
        wait_for_relay(connection, "free", 100)
    stands = await outbox_lag(topics)
    assert (stands.waiting, stands.dead, stands.held_back_users) == (4, 1, 2)
    assert stands.oldest_age_seconds == pytest.approx(700, abs=60)
    assert json.loads(engram(topics, "lag", "--json"))["outbox"]["waiting"] == 4
