"""A conflict is recorded by the projectors, shown, and settled by the comparison that proves that nothing is left of it."""

import asyncio
import json
import time
from typing import Any

import msgspec
import pytest
from running_stores import Running, running_stores
from test_dead_command import engram

from infra.commands.stack import stack_report
from infra.conflicts import conflict_counts, open_conflicts, settle
from infra.lag import Look, look
from infra.state import StateDirectory
from infra.workers import worker_name
from reconcile.report import Report
from schemas.codec import Codec
from schemas.routing import partition_of
from schemas.settings import Settings
from schemas.topics import UPDATED
from streams.kafka import producer, send, started

CODEC = Codec()


async def counted(settings: Settings, wanted: dict[str, int], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while (found := dict(await conflict_counts(settings))) != wanted:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.2)


async def publish_other_content(settings: Settings, running: Running) -> str:
    """Publish a memory as it is, but with another hash: what a second writer of the log would do."""
    update = next(one for one in running.world.updates if one.status == "active")
    other = msgspec.structs.replace(update, content_hash="f" * len(update.content_hash))
    number = partition_of(update.tenant_id, update.user_id, settings.partitions)
    async with started(producer(settings)) as client:
        topic = UPDATED.named(settings.topic_prefix)
        await send(client, topic, CODEC.encode(other), key=update.memory_id.encode(), partition=number)
    return update.memory_id


@pytest.mark.stack
async def test_a_conflict_is_open_until_a_whole_comparison_finds_nothing_and_again_when_it_comes_back(
    topics: Settings,
) -> None:
    async with running_stores(topics, 12) as running:
        assert engram(topics, "conflicts").strip() == "no conflicts"
        memory_id = await publish_other_content(topics, running)

        await counted(topics, {"milvus": 1, "neo4j": 1})
        printed = json.loads(engram(topics, "conflicts", "--json", code=1))
        assert {(one["store"], one["aggregate_id"], one["times"]) for one in printed} == {
            ("milvus", memory_id, 1),
            ("neo4j", memory_id, 1),
        }
        assert (await look(topics)).conflicts == {"milvus": 1, "neo4j": 1}
        before_ms = min(one["first_at_ms"] for one in printed)
        report = await running.compared()
        assert report.differences == 0
        assert await settle(topics, report, before_ms) == 0  # It conflicted after that comparison began.
        different = [msgspec.structs.replace(one, missing=1) for one in report.stores]
        now_ms = time.time_ns() // 1_000_000
        assert await settle(topics, Report(deep=False, stores=tuple(different)), now_ms) == 0
        assert await settle(topics, report, now_ms) == 2
        assert await open_conflicts(topics, 10) == ()
        await publish_other_content(topics, running)
        await counted(topics, {"milvus": 1, "neo4j": 1})
        assert {one.times for one in await open_conflicts(topics, 10)} == {2}


def test_the_status_shows_conflicts_beside_the_worker_of_the_store(tmp_path: Any) -> None:
    state = StateDirectory(tmp_path / "state")
    state.create()
    state.acquire()
    entry = {"kind": "worker", "version": "", "port": 19_000, "state": "ready", "pid": 1, "restarts": 0, "detail": ""}
    entries = [{**entry, "name": worker_name(role)} for role in ("milvus", "neo4j")]
    state.snapshot_file.write_text(json.dumps({"processes": entries}))
    report = stack_report(state, lambda _: Look({}, None, {"neo4j": 3}))
    assert [one["detail"] for one in report["processes"]] == ["", "conflicts: 3 (engram conflicts)"]
    assert report["conflicts"] == {"neo4j": 3}
    state.release()
