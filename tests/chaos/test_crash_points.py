"""Every named step at which a worker can die, at its first and second visit, while turns flow.

In each round every role is armed with one of its steps, dies there by SIGKILL and is started again without it. After the
round nothing may be lost or doubled. The first round is compared with the same turns said in peace, and so is each other.
"""

import asyncio
import re
from itertools import zip_longest

import pytest
from chaos_kit import (
    READY_SECONDS,
    ROOT,
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
from infra.stack import LocalStack
from infra.workers import ROLES, worker_name, worker_spec
from streams.crash import STEPS

pytestmark = [pytest.mark.chaos, pytest.mark.stack, pytest.mark.timeout(600)]

STEPS_OF_ROLE = {
    "extract": ("after_consume", "before_model", "after_model", "before_ack"),
    "admit": ("after_consume", "before_ack"),
    "embed": ("after_consume", "before_model", "after_model", "before_ack"),
    "remember": ("after_consume", "in_transaction", "after_commit", "before_ack"),
    "working": ("after_consume", "in_transaction", "after_commit", "before_ack"),
    "relay": ("after_relay_send", "before_outbox_done"),
    "milvus": ("after_milvus", "before_commit"),
    "neo4j": ("after_neo4j", "before_commit"),
    "influx": ("after_influx", "before_commit"),
}
# Steps that no running role visits: they belong to commands, whose tests kill them there.
STEPS_OF_COMMANDS = {"mid_rebuild", "mid_repair"}
VISITS = (1, 2)
TURNS = 12
CALM = "crash-calm"


def rounds() -> list[dict[str, str]]:
    """Return which step and visit each role is armed with, round by round."""
    cases = {role: [f"{step}:{visit}" for step in steps for visit in VISITS] for role, steps in STEPS_OF_ROLE.items()}
    return [
        {role: point for role, point in zip(ROLES, points, strict=True) if point}
        for points in zip_longest(*(cases[role] for role in ROLES), fillvalue="")
    ]


def test_every_step_that_the_code_visits_is_tried() -> None:
    visited = {
        step
        for folder in ("streams", "projectors", "reconcile", "infra")
        for path in (ROOT / folder).rglob("*.py")
        for step in re.findall(r'visit\(f?"([a-z_]+)', path.read_text("utf-8"))
    }
    # The projectors' step after a write carries the name of the store.
    visited = (visited - {"after_"}) | {"after_milvus", "after_neo4j", "after_influx"}
    tried = {step for steps in STEPS_OF_ROLE.values() for step in steps} | STEPS_OF_COMMANDS
    assert tried == visited == set(STEPS)


@pytest.mark.parametrize("armed", rounds(), ids=lambda armed: ",".join(sorted(set(armed.values()))))
async def test_death_at_a_step_loses_nothing_and_doubles_nothing(storm: LocalStack, armed: dict[str, str]) -> None:
    settings = settings_for(storm)
    await all_ready(storm)
    number = rounds().index(armed)
    # Whichever round comes first: a round that is tried again by itself needs it too.
    if not rows(settings, "SELECT 1 FROM chat_history WHERE tenant_id = %s LIMIT 1", CALM):
        await calm_of(settings, CALM, TURNS)
    before = await asyncio.to_thread(start_armed, storm, armed)
    gateway = Gateway(settings, f"crash-{number}")
    await gateway.say(TURNS)
    await died(storm, before, armed)
    await gateway.remembered()
    await all_ready(storm)
    assert_equal(settings, gateway.tenant, CALM)
    await agree(storm, "--tenant", gateway.tenant)


def start_armed(stack: LocalStack, armed: dict[str, str]) -> dict[str, int]:
    """Start every role that is armed, with its fault for this start only; return how often each was started before."""
    stack.stop_workers([worker_name(role) for role in armed])
    # A dead member of a group is waited for as long as its session lasts.
    patience = {"ENGRAM_SESSION_TIMEOUT_SECONDS": "6"}
    stack.start_workers(
        worker_spec(stack.state, role, patience, {"ENGRAM_CRASH_AT": point}) for role, point in armed.items()
    )
    before = {role: status_of(stack, worker_name(role)).restarts for role in armed}
    stack.wait_for_workers(READY_SECONDS)
    return before


async def died(stack: LocalStack, before: dict[str, int], armed: dict[str, str]) -> None:
    """Wait until every armed worker has died at its step, and not in another way."""
    left, others = set(armed), set()

    def look() -> bool:
        for role in tuple(left):
            status = status_of(stack, worker_name(role))
            if status.state is State.BACKING_OFF and "SIGKILL" not in status.detail:
                others.add(f"{role}: {status.detail}")
            if status.restarts > before[role] or "SIGKILL" in status.detail:
                left.discard(role)
        return not left

    await until(look, lambda: f"never reached their step: {[(role, armed[role]) for role in left]}")
    assert not others, f"ended in another way than at their step: {others}"
