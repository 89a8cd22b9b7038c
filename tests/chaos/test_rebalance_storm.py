"""Workers come and go every few seconds while more waits than they take at once: nothing is lost, doubled or held up."""

import asyncio
import time

import pytest
from chaos_kit import Gateway, agree, all_ready, assert_equal, calm_of, settings_for
from second_worker import start_second

from infra.stack import LocalStack
from infra.workers import worker_name

pytestmark = [pytest.mark.chaos, pytest.mark.stack, pytest.mark.timeout(900)]
STAGES = ("extract", "admit", "embed", "remember", "working")
USERS = tuple(f"user-{number}" for number in range(12))
# Many more than a stage takes in one piece, so that something always waits when a partition is taken away.
BURST = 240
# A member that does not let its partitions go holds its group up for a minute.
STOP_SECONDS = 12.0


async def test_workers_added_and_removed_under_load_cost_nothing(storm: LocalStack) -> None:
    await all_ready(storm)
    settings = settings_for(storm)
    gateway = Gateway(settings, "rebalance-storm", USERS)
    for role in STAGES:
        name = f"second-{worker_name(role)}"
        saying = asyncio.create_task(gateway.say(BURST))
        try:
            await start_second(storm, role, name)
            await saying
        finally:
            began = time.monotonic()
            await asyncio.to_thread(storm.stop_workers, [name])
            stopped_in = time.monotonic() - began
        assert stopped_in < STOP_SECONDS, f"{name} stopped in {stopped_in:.0f} s"
    await gateway.remembered()
    await calm_of(settings, "calm-rebalance-storm", gateway.sent, USERS)
    assert_equal(settings, gateway.tenant, "calm-rebalance-storm")
    await agree(storm)
