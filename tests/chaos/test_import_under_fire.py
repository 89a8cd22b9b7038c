"""An import with every worker and every server killed in the middle of it, against the same import left in peace.

Both tenants must end with the same memories, versions, hashes' inputs and history; every store must agree with Postgres.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from infra.commands.setup import SETUP_STEPS
from infra.stack import LocalStack
from infra.workers import worker_name, worker_specs
from schemas.settings import Settings
from streams.importers import ImportOptions, read_turns
from conftest import settings_of

DATA = Path(__file__).parents[3] / "shared" / "data" / "memorybank_cn.json"
ROOT = Path(__file__).parents[2]
SERVERS = ("kafka", "postgres", "milvus", "neo4j", "influx")
ROLES = ("extract", "admit", "embed", "remember", "working", "relay", "milvus", "neo4j", "influx")

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not DATA.exists(), reason="the shared data set is not beside this checkout"),
]


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """Run a whole stack with supervised servers and workers."""
    stack = LocalStack(tmp_path_factory.mktemp("storm") / "state", supervise_servers=True)
    with stack:
        settings = settings_of(stack.environment())
        for _, step in SETUP_STEPS:
            step(settings)
        stack.start_workers(worker_specs(stack.state))
        stack.wait_for_workers()
        yield stack


def command(stack: LocalStack, *words: str) -> list[str]:
    return [sys.executable, "-m", "infra.cli", *words]


def environment(stack: LocalStack) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
    return clean | stack.environment()


def import_until_done(stack: LocalStack, tenant: str) -> int:
    """Import the file as an operator would: again when a server was away. Return the number of runs."""
    for run in range(1, 30):
        words = ("import", str(DATA), "--format", "memorybank", "--tenant", tenant, "--wait", "--wait-seconds", "240")
        done = subprocess.run(
            command(stack, *words), cwd=ROOT, env=environment(stack), capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return run
        assert done.returncode in (69, 70), done.stderr
        time.sleep(1)
    raise AssertionError("the import never finished")


def settled(stack: LocalStack) -> bool:
    done = subprocess.run(
        command(stack, "reconcile", "--deep", "--json"),
        cwd=ROOT,
        env=environment(stack),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 69:
        return False
    report: dict[str, Any] = msgspec.json.decode(done.stdout)
    assert done.returncode == 0, report
    return True


def rows(settings: Settings, query: str, tenant: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(
        host=settings.postgres_host,
        port=settings.postgres_port,
        user=settings.postgres_admin_user,
        password=settings.postgres_admin_password.get_secret_value(),
        dbname=settings.postgres_database,
    ) as connection:
        return connection.execute(query, (tenant,)).fetchall()


QUERIES = {
    "memories": "SELECT user_id, dedupe_key, status, version, content, confirmations FROM memories WHERE tenant_id = %s",
    "history": "SELECT h.user_id, m.dedupe_key, h.version, h.op, h.status FROM memory_history h JOIN memories m USING "
    "(tenant_id, user_id, memory_id) WHERE tenant_id = %s",
    "pending": "SELECT user_id, dedupe_key, content, state FROM pending WHERE tenant_id = %s",
    "quarantine": "SELECT user_id, rule_id, side, excerpt FROM quarantine WHERE tenant_id = %s",
    "turns": "SELECT user_id, session_id, user_message, assistant_message FROM chat_history WHERE tenant_id = %s",
    "working": "SELECT user_id, session_id, sequence, event_type, state_from, state_to FROM working_events WHERE tenant_id = %s",
}


async def fire(stack: LocalStack, until: asyncio.Event) -> list[str]:
    """Kill every worker and every server once, one after the other, while the import goes on."""
    told = []
    for name in [*(worker_name(role) for role in ROLES), *SERVERS]:
        await asyncio.sleep(1.5)
        await asyncio.to_thread(stack.wait_for_workers)
        await asyncio.to_thread(stack.kill, name)
        told.append(name)
    until.set()
    return told


@pytest.mark.timeout(1500)
async def test_nothing_is_lost_and_nothing_is_doubled(storm: LocalStack) -> None:
    over = asyncio.Event()
    shooting = asyncio.create_task(fire(storm, over))
    runs = 0
    while not over.is_set() or not runs:
        runs += await asyncio.to_thread(import_until_done, storm, "storm")
    killed = await shooting
    runs += await asyncio.to_thread(import_until_done, storm, "storm")
    assert len(killed) == len(ROLES) + len(SERVERS)
    await asyncio.to_thread(storm.wait_for_workers)
    assert await asyncio.to_thread(import_until_done, storm, "calm") == 1
    settings = settings_of(storm.environment())
    turns = list(read_turns(DATA.read_bytes(), "memorybank", ImportOptions(None, settings.tenant_timezone_offset)))
    await reconciled(storm)
    for name, query in QUERIES.items():
        stormy, calm = (Counter(rows(settings, query, tenant)) for tenant in ("storm", "calm"))
        assert stormy == calm, f"{name}: lost {list(calm - stormy)[:5]}, doubled {list(stormy - calm)[:5]}"
        assert calm, name
    assert len(rows(settings, QUERIES["turns"], "storm")) == len(turns)


async def reconciled(stack: LocalStack) -> None:
    """Wait until the projectors are back, then demand zero differences."""
    deadline = time.monotonic() + 300
    while not await asyncio.to_thread(settled, stack):
        assert time.monotonic() < deadline, stack.statuses()
        await asyncio.sleep(2)
