"""The commands on the real servers: what they print, what they answer to the shell, and the way of a forgotten memory."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import environment_of
from populated import World, admin, insert, made

from schemas.settings import Settings

pytestmark = [pytest.mark.stack, pytest.mark.timeout(180)]
ROOT = Path(__file__).parents[2]


def engram(settings: Settings, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run ``engram`` as a person would."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
    command = [sys.executable, "-m", "infra.cli", *words]
    return subprocess.run(
        command, env={**own, **environment_of(settings)}, cwd=ROOT, capture_output=True, text=True, check=False
    )


def answer(settings: Settings, *words: str, code: int = 0) -> Any:
    done = engram(settings, *words, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def world(topics: Settings) -> World:
    found = made(16, tenants=2, users=2)
    insert(topics, found)
    return found


@pytest.fixture
def remember(topics: Settings, world: World, tmp_path: Path) -> Iterator[None]:
    """A real ``remember`` worker."""
    beat = tmp_path / "remember.json"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
    environment |= environment_of(topics.model_copy(update={"heartbeat_file": beat}))
    with (tmp_path / "remember.log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "infra.cli", "worker", "remember"], env=environment, cwd=ROOT, stdout=log, stderr=log
        )
    deadline = time.monotonic() + 60
    while not (beat.exists() and json.loads(beat.read_bytes())["state"] == "ready"):
        assert worker.poll() is None, (tmp_path / "remember.log").read_text("utf-8")
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield
    worker.terminate()
    worker.wait(20)


def scope(update: Any) -> tuple[str, ...]:
    return "--tenant", update.tenant_id, "--user", update.user_id


def test_list_show_history(topics: Settings, world: World) -> None:
    update = next(update for update in world.updates if update.status == "active")
    own = {u.memory_id for u in world.updates if (u.tenant_id, u.user_id) == (update.tenant_id, update.user_id)}
    listed = answer(topics, "memories", "list", *scope(update), "--status", "active", "--status", "deleted")
    assert update.memory_id in {memory["memory_id"] for memory in listed}
    assert {memory["memory_id"] for memory in listed} <= own
    shown = answer(topics, "memories", "show", update.memory_id, *scope(update))
    assert shown["content"] == update.memory.content
    assert {edge["kind"] for edge in shown["edges"]} >= {"BELONGS_TO"}
    history = answer(topics, "memories", "history", update.memory_id, *scope(update))
    assert [version["version"] for version in history] == [update.version]
    table = engram(topics, "memories", "list", *scope(update))
    assert table.returncode == 0
    assert "thing" in table.stdout


def test_other_peoples_memories_are_unknown(topics: Settings, world: World) -> None:
    mine = world.updates[0]
    other = next(u for u in world.updates if (u.tenant_id, u.user_id) != (mine.tenant_id, mine.user_id))
    for command in ("show", "history", "forget", "restore"):
        foreign = engram(topics, "memories", command, other.memory_id, *scope(mine))
        unknown = engram(topics, "memories", command, str(uuid.uuid4()), *scope(mine))
        assert (foreign.returncode, unknown.returncode) == (65, 65)
        assert "has no memory" in foreign.stderr
    assert engram(topics, "memories", "list", "--tenant", 'a" or "', "--user", "u").returncode == 65


@pytest.mark.usefixtures("remember")
def test_forget_and_restore(topics: Settings, world: World) -> None:
    update = next(update for update in world.updates if update.status == "active")
    done = answer(topics, "memories", "forget", update.memory_id, *scope(update), "--reason", "asked")
    assert (done["kind"], done["outcome"]) == ("forget", "accepted")
    assert answer(topics, "memories", "show", update.memory_id, *scope(update))["status"] == "deleted"
    back = answer(topics, "memories", "restore", update.memory_id, *scope(update))
    assert back["outcome"] == "accepted"
    assert answer(topics, "memories", "show", update.memory_id, *scope(update))["status"] == "active"
    again = engram(topics, "memories", "restore", update.memory_id, *scope(update))
    assert again.returncode == 1
    assert "not deleted" in again.stdout
    ops = [version["op"] for version in answer(topics, "memories", "history", update.memory_id, *scope(update))]
    assert ops == ["created", "deleted", "restored"]


def test_a_command_that_nobody_decides(topics: Settings, world: World) -> None:
    update = next(update for update in world.updates if update.status == "active")
    done = engram(topics, "memories", "forget", update.memory_id, *scope(update), "--wait-seconds", "0.5")
    assert done.returncode == 69
    assert "is remember running?" in done.stderr


def test_queues(topics: Settings, world: World) -> None:
    update = world.updates[0]
    with admin(topics) as connection:
        connection.execute(
            "INSERT INTO pending (tenant_id, user_id, entry_id, dedupe_key, content, confidence, candidate, reason,"
            " source_event_id, created_at_ms, expires_at_ms, state)"
            " VALUES (%s, %s, %s, 'k', '也许喜欢茶', 0.4, '{}', 'low confidence', 'e', 1, 2, 'waiting')",
            (update.tenant_id, update.user_id, str(uuid.uuid4())),
        )
        connection.execute(
            "INSERT INTO quarantine (tenant_id, user_id, entry_id, gate, rule_id, gate_version, outcome, side, excerpt,"
            " source_event_id, created_at_ms, state)"
            " VALUES (%s, %s, %s, 'gate1', 'rule-1', '1', 'quarantine', 'user', '[SECRET_MASKED]', 'e', 1, 'waiting')",
            (update.tenant_id, update.user_id, str(uuid.uuid4())),
        )
    waiting = answer(topics, "pending", "list", *scope(update))
    assert [entry["memory"] for entry in waiting] == ["也许喜欢茶"]
    refused = answer(topics, "quarantine", "list", *scope(update))
    assert [(entry["rule"], entry["excerpt"]) for entry in refused] == [("rule-1", "[SECRET_MASKED]")]
    other = next(u for u in world.updates if (u.tenant_id, u.user_id) != (update.tenant_id, update.user_id))
    assert answer(topics, "pending", "list", *scope(other)) == []


def test_recall_says_what_is_missing(topics: Settings, world: World) -> None:
    update = next(update for update in world.updates if update.status == "active")
    found = answer(topics, "recall", "What do I like?", *scope(update), "--limit", "3")
    assert found["hits"][0]["attribute"] == "likes"
    states = {arm["arm"]: arm["state"] for arm in found["arms"]}
    assert (states["vector"], states["intent"]) == ("failed", "answered")
    shown = engram(topics, "recall", "What do I like?", *scope(update), "--explain")
    assert shown.returncode == 0
    assert "no live generation of milvus" in shown.stdout.replace("\n", " ")
    assert engram(topics, "recall", "What do I like?", "--tenant", "nowhere", "--user", "张三").returncode == 1


def test_recall_without_postgres(topics: Settings) -> None:
    away = topics.model_copy(update={"postgres_port": 9, "postgres_connect_timeout_seconds": 1.0})
    done = engram(away, "recall", "What do I like?", "--tenant", "t", "--user", "u")
    assert done.returncode == 69
    assert "Postgres does not answer" in done.stderr
