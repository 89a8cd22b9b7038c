"""Two ``remember`` workers; one is frozen in the middle of its work, its partitions move, and it wakes up.

What it then writes must be refused: the other one was there before. Nothing is lost, nothing has an effect twice.
"""

import asyncio

import pytest
from chaos_kit import (
    Gateway,
    agree,
    all_ready,
    assert_equal,
    calm_of,
    rows,
    settings_for,
    until,
)
from second_worker import beats, start_second

from infra.stack import LocalStack
from infra.workers import worker_name
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


def positions(settings: Settings, role: str) -> dict[int, int]:
    return dict(rows(settings, "SELECT partition, last_offset FROM positions WHERE role = %s", role))
