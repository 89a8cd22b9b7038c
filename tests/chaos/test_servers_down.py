"""Each server away at the start of a worker, killed while turns flow, and frozen: who waits, who goes on, what is lost.

Whatever happens to a server: nothing is lost, nothing is doubled, and all stores agree when it is back. A derived store
that is away does not hold back what is remembered.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from chaos_kit import (
    Gateway,
    agree,
    all_ready,
    assert_equal,
    calm_of,
    settings_for,
    shown,
    status_of,
    until,
)

from infra.lifecycle import State
from infra.stack import SERVERS, LocalStack
from infra.workers import ROLES, worker_name, worker_spec

pytestmark = [pytest.mark.chaos, pytest.mark.stack, pytest.mark.timeout(600)]

WORKERS_OF_SERVER = {
    "kafka": ("extract", "relay", "neo4j"),
    "postgres": ("admit", "remember", "working", "relay", "influx"),
    "milvus": ("milvus",),
    "neo4j": ("neo4j",),
    "influx": ("influx",),
}
DERIVED = ("milvus", "neo4j", "influx")
NAMES = {"kafka": "Kafka", "postgres": "Postgres", "milvus": "Milvus", "neo4j": "Neo4j", "influx": "InfluxDB"}
DOWN_SECONDS = 6.0
FROZEN_SECONDS = 15.0


@pytest.mark.parametrize("server", WORKERS_OF_SERVER)
async def test_a_worker_waits_for_a_server_that_is_away_at_its_start(storm: LocalStack, server: str) -> None:
    await all_ready(storm)
    roles = WORKERS_OF_SERVER[server]
    names = [worker_name(role) for role in roles]
    await asyncio.to_thread(storm.stop_workers, names)
    await asyncio.to_thread(storm.kill, server)
    try:
        storm.start_workers(worker_spec(storm.state, role) for role in roles)
        for name in names:
            await until(lambda name=name: is_waiting(storm, name, server), lambda name=name: said(storm, name))
        entry = await shown(storm, names[0])
        assert (entry["state"], entry["restarts"]) == ("waiting", status_of(storm, names[0]).restarts)
        assert NAMES[server] in entry["detail"]
    finally:
        await asyncio.to_thread(storm.restart, server)
    await all_ready(storm)


def is_waiting(stack: LocalStack, name: str, server: str) -> bool:
    """Tell whether a worker says that it waits, and for what."""
    status = status_of(stack, name)
    return status.state is State.WAITING and NAMES[server] in status.detail


def said(stack: LocalStack, name: str) -> str:
    status = status_of(stack, name)
    return f"{name} does not wait but is {status.state.value}: {status.detail}"


@pytest.mark.parametrize("server", WORKERS_OF_SERVER)
async def test_a_server_killed_while_turns_flow_costs_nothing(storm: LocalStack, server: str) -> None:
    async with turns_flow(storm, f"killed-{server}") as gateway:
        await asyncio.to_thread(storm.kill, server)
        try:
            await meanwhile(storm, gateway, server, DOWN_SECONDS)
        finally:
            await asyncio.to_thread(storm.restart, server)


@pytest.mark.parametrize("server", WORKERS_OF_SERVER)
async def test_a_server_frozen_while_turns_flow_costs_nothing(storm: LocalStack, server: str) -> None:
    async with turns_flow(storm, f"frozen-{server}") as gateway:
        storm.freeze(server)
        try:
            await meanwhile(storm, gateway, server, FROZEN_SECONDS)
        finally:
            storm.thaw(server)


@asynccontextmanager
async def turns_flow(stack: LocalStack, tenant: str) -> AsyncIterator[Gateway]:
    """Let turns flow before, during and after what the caller does; then demand that nothing was lost or doubled."""
    await all_ready(stack)
    settings = settings_for(stack)
    gateway, over = Gateway(settings, tenant), asyncio.Event()
    await gateway.say(6)
    talking = asyncio.create_task(gateway.keep_saying(over))
    try:
        yield gateway
        sent = gateway.sent
        await until(lambda: gateway.sent >= sent + 6, lambda: "no turn is accepted after the server came back")
    finally:
        over.set()
        await talking
    await gateway.remembered()
    await all_ready(stack)
    await calm_of(settings, f"calm-{tenant}", gateway.sent)
    assert_equal(settings, tenant, f"calm-{tenant}")
    await agree(stack)


async def meanwhile(stack: LocalStack, gateway: Gateway, server: str, seconds: float) -> None:
    """Let a server be away for ``seconds``; while a derived store is, turns are remembered all the same."""
    begun = time.monotonic()
    if server in DERIVED:
        sent = gateway.sent
        await until(lambda: gateway.sent >= sent + 6, lambda: f"no turn is accepted while {server} is away")
        await gateway.remembered(60)
        assert not others_in_trouble(stack, server), f"{server} is away, and others wait for it"
    # That nothing happened yet is no reason to come back: it is the time away that is tried here.
    await asyncio.sleep(max(0.0, seconds - (time.monotonic() - begun)))


def others_in_trouble(stack: LocalStack, server: str) -> list[str]:
    # Second writers that another test ran and stopped are not part of the system.
    system = {each.name for each in SERVERS} | {worker_name(role) for role in ROLES}
    others = system - {server, worker_name(server)}
    return [
        f"{s.name}: {s.state.value} ({s.detail})" for s in stack.statuses() if s.name in others and not is_well(s.state)
    ]


def is_well(state: State) -> bool:
    return state is State.READY
