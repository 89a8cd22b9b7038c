"""An import with every worker and every server killed in the middle of it, against the same import left in peace.

Both must end with the same memories, versions, history, edges and sessions; every store must agree with Postgres.
"""

import asyncio
from pathlib import Path

import pytest
from chaos_kit import (
    READY_SECONDS,
    WORKERS,
    agree,
    all_ready,
    assert_equal,
    engram,
    rows,
    settings_for,
    until,
)

from infra.stack import SERVERS, LocalStack
from schemas.settings import Settings
from streams.importers import ImportOptions, read_turns

DATA = Path(__file__).parents[3] / "shared" / "data" / "memorybank_cn.json"
BETWEEN_SHOTS_TURNS = 5
RUNS = 40

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.stack,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not DATA.exists(), reason="the shared data set is not beside this checkout"),
]


def import_until_done(stack: LocalStack, tenant: str) -> int:
    """Import the file as an operator would: again when a server was away. Return the number of runs."""
    words = ("import", str(DATA), "--format", "memorybank", "--tenant", tenant, "--wait", "--wait-seconds", "240")
    for run in range(1, RUNS):
        done = engram(stack, *words)
        if done.returncode == 0:
            return run
        assert done.returncode in (69, 70), f"the import ended with {done.returncode}: {done.stderr}"
    pytest.fail(f"the import never finished in {RUNS} runs: {done.stderr}")


async def fire(stack: LocalStack, settings: Settings, over: asyncio.Event) -> list[str]:
    """Kill every worker and every server once, each while turns are being heard."""
    killed = []
    try:
        for name in (*WORKERS, *(server.name for server in SERVERS)):
            before = heard(settings)
            await until(
                lambda before=before: heard(settings) >= before + BETWEEN_SHOTS_TURNS,
                lambda name=name: f"no turns flow before {name} is killed",
            )
            await asyncio.to_thread(stack.kill, name)
            if name not in WORKERS:
                await asyncio.to_thread(stack.restart, name)
            await all_ready(stack)
            killed.append(name)
    finally:
        over.set()
    return killed


def heard(settings: Settings) -> int:
    """Return how many turns of the storm have been heard so far."""
    return int(rows(settings, "SELECT count(*) FROM chat_history WHERE tenant_id LIKE %s", "import-storm-%")[0][0])


async def test_nothing_is_lost_and_nothing_is_doubled(storm: LocalStack) -> None:
    await all_ready(storm)
    settings, over = settings_for(storm), asyncio.Event()
    shooting = asyncio.create_task(fire(storm, settings, over))
    tenants: list[str] = []
    while not over.is_set():
        tenants.append(f"import-storm-{len(tenants)}")
        await asyncio.to_thread(import_until_done, storm, tenants[-1])
    assert len(await shooting) == len(WORKERS) + len(SERVERS)
    await all_ready(storm)
    assert await asyncio.to_thread(import_until_done, storm, "import-calm") == 1
    turns = list(read_turns(DATA.read_bytes(), "memorybank", ImportOptions(None, settings.tenant_timezone_offset)))
    query = "SELECT count(*) FROM chat_history WHERE tenant_id = %s"
    for tenant in ("import-calm", *tenants):
        await until(
            lambda tenant=tenant: rows(settings, query, tenant)[0][0] >= len(turns),
            lambda tenant=tenant: f"lost: {rows(settings, query, tenant)} of {len(turns)} turns of {tenant}",
            READY_SECONDS,
        )
    for tenant in tenants:
        assert_equal(settings, tenant, "import-calm")
    await agree(storm)
