"""``engram reconcile`` on the real stores: table, JSON, exit codes."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from conftest import environment_of
from populated import DIMENSION, REVISION, World, admin, insert, made, project

from projectors.entries import Generation
from projectors.generations import ROLE, Detail, ensure_first
from projectors.milvus import MilvusDoor
from projectors.names import collection_name
from schemas.settings import Settings
from streams.postgres import connect

pytestmark = [pytest.mark.stack, pytest.mark.timeout(180)]
ROOT = Path(__file__).parents[2]
COUNT = 40


COMMAND = (sys.executable, "-m", "infra.cli", "reconcile")


def environment(settings: Settings) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
    return {**own, **environment_of(settings)}


def engram(settings: Settings, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *words], env=environment(settings), cwd=ROOT, capture_output=True, text=True, check=False
    )


def begun(settings: Settings, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, *words],
        env=environment(settings),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
async def world(topics: Settings) -> AsyncIterator[World]:
    found = made(COUNT)
    insert(topics, found)
    connection = await connect(topics, ROLE, autocommit=True)
    await ensure_first(connection, "milvus", Detail(REVISION, DIMENSION), 1)
    await connection.close()
    door, generation = MilvusDoor(topics), Generation("milvus", 1, "live", REVISION, DIMENSION)
    await door.prepare(generation)
    await project(door, generation, found)
    yield found
    await door.drop(generation)
    await door.close()


async def test_exit_codes(topics: Settings, world: World) -> None:
    clean = engram(topics, "--store", "milvus")
    assert (clean.returncode, "0 differences" in clean.stdout) == (0, True), clean.stderr
    door, generation = MilvusDoor(topics), Generation("milvus", 1, "live", REVISION, DIMENSION)
    name = collection_name(topics.topic_prefix, generation)
    lost = [update for update in world.updates if update.tenant_id == "tenant1"][:12]
    await door._call("a test", lambda client: client.delete(name, ids=[update.memory_id for update in lost]))
    await door.close()
    other = engram(topics, "milvus", "--tenant", "tenant0", "--json")
    assert (other.returncode, json.loads(other.stdout)["stores"][0]["missing"]) == (0, 0)
    found = engram(topics, "milvus", "--json")
    report = json.loads(found.stdout)["stores"][0]
    assert found.returncode == 1
    assert (report["store"], report["checked"], report["missing"]) == ("milvus", COUNT, 12)
    assert report["examples"][0]["observed_version"] is None
    refused = engram(topics, "milvus", "--repair")
    assert refused.returncode == 65
    assert "say yes" in refused.stderr.replace("\n", " ")
    repaired = engram(topics, "milvus", "--repair", "--yes", "--json")
    assert repaired.returncode == 1
    assert json.loads(repaired.stdout)["stores"][0]["repair_enqueued"] == 12
    with admin(topics) as connection:
        rows = connection.execute(
            "SELECT count(*), count(payload), count(DISTINCT repair_dedupe_key), min(repair_header ->> 'observed_version')"
            " FROM memory_outbox"
        ).fetchone()
    assert rows == (12, 0, 12, "-1")
    # Nothing publishes here: what is on its way must not look like drift.
    waiting = engram(topics, "milvus", "--wait-seconds", "0.3")
    assert waiting.returncode == 69
    assert "is the relay running?" in waiting.stderr.replace("\n", " ")


async def test_what_cannot_be_compared(topics: Settings, world: World) -> None:
    unknown = engram(topics, "milvus", "--generation", "7")
    assert unknown.returncode == 65
    missing = engram(topics, "neo4j")
    assert missing.returncode == 65
    assert "no live generation" in missing.stderr.replace("\n", " ")
    wrong = engram(topics, "redis")
    assert wrong.returncode == 78
    away = topics.model_copy(update={"milvus_uri": "http://127.0.0.1:9", "store_timeout_seconds": 1.0})
    assert engram(away, "milvus").returncode == 69


async def test_on_a_schedule_it_goes_on_over_drift_and_outages_until_it_is_stopped(
    topics: Settings, world: World
) -> None:
    running = begun(topics, "milvus", "--every", "1s", "--wait-seconds", "0.3", "--json")
    assert running.stdout is not None
    assert running.stderr is not None
    try:
        assert json.loads(running.stdout.readline())["stores"][0]["missing"] == 0
        door, generation = MilvusDoor(topics), Generation("milvus", 1, "live", REVISION, DIMENSION)
        await door.drop(generation)
        assert "this run was not finished" in running.stderr.readline()
        await door.prepare(generation)
        await project(door, generation, world)
        await door.close()
        assert json.loads(running.stdout.readline())["stores"][0]["checked"] == COUNT
        running.terminate()
        assert running.wait(30) == 0
    finally:
        running.kill()
        running.communicate()
    assert engram(topics, "milvus", "--every", "soon").returncode == 78
