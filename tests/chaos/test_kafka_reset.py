"""Kafka's data is thrown away, or its topics are made anew, while Postgres is kept.

Whoever writes to Postgres, publishes from it or projects it stops with a sentence that ``engram status`` shows, is not
started again, and changes nothing in Postgres.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from chaos_kit import Gateway, calm_of, rows, set_up, settings_for, shown, status_of, until

from infra.lifecycle import State
from infra.servers.influx import Influx
from infra.servers.kafka import Kafka
from infra.servers.postgres import Postgres
from infra.stack import LocalStack
from infra.state import new_secrets
from infra.workers import worker_name, worker_specs
from schemas.settings import Settings
from schemas.topics import TOPICS
from streams.kafka import admin, ensure_topics

pytestmark = [pytest.mark.chaos, pytest.mark.stack, pytest.mark.timeout(600)]

STAGES = ("extract", "admit", "embed")
STOPPING = ("remember", "working", "relay", "influx")
STOP_SECONDS = 120.0
TABLES = ("memories", "memory_history", "memory_outbox", "chat_history", "working_events", "positions", "user_positions",
          "topic_identities", "projections", "command_outcomes")  # fmt: skip


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """Run a stack of its own with one derived store, since it is spoilt by the test."""
    servers = (Kafka(), Postgres(), Influx())
    with LocalStack(tmp_path_factory.mktemp("reset") / "state", servers=servers) as stack:
        set_up(stack)
        stack.start_workers(worker_specs(stack.state, (*STAGES, *STOPPING)))
        stack.wait_for_workers(240)
        yield stack


async def throw_away_the_data(stack: LocalStack, settings: Settings) -> None:
    """Lose the disk of the broker and start with an empty one, which has another cluster id."""
    await asyncio.to_thread(stack.kill, "kafka")
    await asyncio.to_thread(shutil.rmtree, stack.state.root / "servers" / "kafka" / "data")
    site = stack._sites["kafka"]
    other = msgspec.structs.replace(site.secrets, kafka_cluster_id=new_secrets().kafka_cluster_id)
    stack._sites["kafka"] = replace(site, secrets=other)
    await asyncio.to_thread(stack.restart, "kafka")
    await ensure_topics(settings)


async def make_the_topics_anew(_stack: LocalStack, settings: Settings) -> None:
    """Delete every topic and create it again on the same cluster."""
    names = {topic.named(settings.topic_prefix) for topic in TOPICS}
    async with admin(settings) as client:
        await client.delete_topics(sorted(names))
        gone = asyncio.get_running_loop().time() + 30
        while names & set(await client.list_topics()):
            assert asyncio.get_running_loop().time() < gone, "the topics were not deleted"
            await asyncio.sleep(0.2)
    await ensure_topics(settings)


Reset = Callable[[LocalStack, Settings], Awaitable[None]]


@pytest.mark.parametrize("reset", [throw_away_the_data, make_the_topics_anew])
async def test_a_reset_log_stops_everybody_who_trusts_it(small: LocalStack, reset: Reset) -> None:
    settings = settings_for(small)
    await calm_of(settings, "reset", 12)
    await until(lambda: not rows(settings, "SELECT 1 FROM memory_outbox"), lambda: "the outbox is not published")
    before = content(settings)
    await reset(small, settings)
    await everybody_stopped(small)
    # What is said now meets a log that Postgres does not belong to.
    await Gateway(settings, "reset").say(3)
    assert content(settings) == before, "Postgres was changed after the log was reset"
    for role in STOPPING:
        assert_stopped(await shown(small, worker_name(role)), role)
    # Started by hand, they say the same again instead of going on.
    small.start_workers(worker_specs(small.state, STOPPING))
    await everybody_stopped(small)
    assert content(settings) == before, "Postgres was changed by a start upon the reset log"


async def everybody_stopped(stack: LocalStack) -> None:
    def going_on() -> list[str]:
        found = [status_of(stack, worker_name(role)) for role in STOPPING]
        return [f"{s.name} {s.state.value} ({s.detail})" for s in found if s.state is not State.FAILED]

    await until(lambda: not going_on(), lambda: f"goes on although Kafka was reset: {going_on()}", STOP_SECONDS)


def assert_stopped(entry: dict[str, Any], role: str) -> None:
    assert (entry["state"], entry["restarts"]) == ("failed", 0), entry
    assert "ended with code 78" in entry["detail"], entry
    assert "Kafka was reset" in entry["detail"], f"{role} does not say why: {entry}"


def content(settings: Settings) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of the tables that matter."""
    return {table: sorted(rows(settings, f"SELECT t::text FROM {table} t")) for table in TABLES}
