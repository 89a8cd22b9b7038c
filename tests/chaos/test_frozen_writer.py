"""Two ``remember`` workers; one is frozen in the middle of its work, its partitions move, and it wakes up.

What it then writes must be refused: the other one was there before. Nothing is lost, nothing has an effect twice.
"""

import asyncio
import time
from pathlib import Path

import pytest
from chaos_kit import (
    Gateway,
    agree,
    all_ready,
    assert_equal,
    calm_of,
    rows,
    settings_for,
    status_of,
    until,
)

from infra.lifecycle import State
from infra.processes import ProcessSpec
from infra.stack import LocalStack
from infra.supervisor import read_heartbeat
from infra.workers import worker_name, worker_spec
from schemas.settings import Settings

pytestmark = [pytest.mark.chaos, pytest.mark.stack, pytest.mark.timeout(600)]

SHORT_SESSION = {"ENGRAM_SESSION_TIMEOUT_SECONDS": "6"}
# Enough for both workers to own partitions that are spoken to.
USERS = tuple(f"user-{number}" for number in range(12))


@pytest.mark.parametrize("role", ["remember", "working"])
async def test_a_writer_frozen_while_its_partitions_move_changes_nothing(storm: LocalStack, role: str) -> None:
    await all_ready(storm)
    settings = settings_for(storm)
    frozen = f"frozen-{worker_name(role)}"
    gateway, over = Gateway(settings, f"frozen-{role}-writer", USERS), asyncio.Event()
    talking = asyncio.create_task(gateway.keep_saying(over, 0.05))
    try:
        heartbeat = await start_second(storm, role, frozen)
        before = gateway.sent
        await until(lambda: gateway.sent >= before + 24, lambda: "no turns flow")
        storm.freeze(frozen)
        frozen_at = gateway.sent
        await until(lambda: gateway.sent >= frozen_at + 24, lambda: "no turns flow")
        # Everything said after the freeze is remembered: the partitions have moved to the other one.
        await gateway.remembered()
        moved = positions(settings, role)
        storm.thaw(frozen)
        sent = gateway.sent
        await until(lambda: gateway.sent >= sent + 24, lambda: "no turns flow")
        await until(lambda: beats(heartbeat), lambda: f"the thawed worker did not come back: {heartbeat.read_text()}")
        fallen = {p: (moved[p], now) for p, now in positions(settings, role).items() if now < moved.get(p, -1)}
        assert not fallen, f"the frozen writer moved positions back: {fallen}"
    finally:
        over.set()
        await talking
        await asyncio.to_thread(storm.stop_workers, [frozen])
    await gateway.remembered()
    await calm_of(settings, f"calm-{gateway.tenant}", gateway.sent, USERS)
    assert_equal(settings, gateway.tenant, f"calm-{gateway.tenant}")
    await agree(storm)


async def start_second(stack: LocalStack, role: str, name: str) -> Path:
    """Run a second worker of a role, which the supervisor does not take for hung; return its heartbeat once it is ready."""
    one = worker_spec(stack.state, role)
    heartbeat = stack.state.workers / f"{name}.json"
    heartbeat.unlink(missing_ok=True)
    own = {"ENGRAM_HEARTBEAT_FILE": str(heartbeat), "ENGRAM_STATE_DIR": str(stack.state.root / name)}
    stack.start_workers([ProcessSpec(name=name, command=one.command, environment={**SHORT_SESSION, **own})])
    await until(lambda: beats(heartbeat), lambda: f"{name} is not ready: {status_of(stack, name)}")
    return heartbeat


def beats(heartbeat: Path) -> bool:
    """Tell whether a worker says that it is ready, and has said so after this question."""
    asked_at = time.time()
    while (found := read_heartbeat(heartbeat)) is not None and heartbeat.stat().st_mtime < asked_at:
        if time.time() > asked_at + 3:
            return False
        time.sleep(0.1)
    return found is not None and found.state is State.READY


def positions(settings: Settings, role: str) -> dict[int, int]:
    return dict(rows(settings, "SELECT partition, last_offset FROM positions WHERE role = %s", role))
