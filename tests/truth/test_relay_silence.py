"""The relay beside a broker that takes what is sent and says nothing: it shows that it waits, and ends in time."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import environment_of
from truth_bench import CODEC, Bench, opened
from truth_world import candidate, said

from infra.servers.kafka import Kafka
from infra.stack import LocalStack
from schemas.settings import Settings
from streams.kafka import ensure_topics
from streams.relay import Relay

pytestmark = [pytest.mark.chaos, pytest.mark.stack, pytest.mark.timeout(240)]
ROOT = Path(__file__).parents[2]


class Beat:
    def __init__(self) -> None:
        self.states: list[str] = []
        self.changed = asyncio.Event()

    def set(self, state: str, detail: str = "", /) -> None:
        self.states.append(state)
        self.changed.set()

    async def shows(self, state: str) -> None:
        async with asyncio.timeout(30):
            while not self.states or self.states[-1] != state:
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """Run a broker that only these tests freeze."""
    with LocalStack(tmp_path_factory.mktemp("silence") / "state", servers=(Kafka(),)) as stack:
        yield stack


@pytest.fixture
def frozen_in_time(own_kafka: LocalStack, settings: Settings) -> Iterator[Settings]:
    broker = own_kafka.environment()["ENGRAM_KAFKA_BOOTSTRAP_SERVERS"]
    yield settings.model_copy(update={"kafka_bootstrap_servers": broker})
    own_kafka.thaw("kafka")


async def is_empty(bench: Bench) -> None:
    async with asyncio.timeout(30):
        while True:
            if await bench.rows("SELECT count(*) FROM memory_outbox") == [(0,)]:
                return
            await asyncio.sleep(0.02)  # The database has no signal for it.


@contextmanager
def relay_process(settings: Settings, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the role in a process of its own, as the supervisor does: what ends with it cannot send any more."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
    told = environment_of(settings.model_copy(update={"heartbeat_file": folder / "relay.json"}))
    command = [sys.executable, "-m", "infra.cli", "worker", "relay"]
    with (folder / "relay.log").open("ab") as log:
        process = subprocess.Popen(command, env={**own, **told}, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def shown(folder: Path, state: str) -> None:
    beat = folder / "relay.json"
    async with asyncio.timeout(60):
        while True:
            if beat.exists() and f'"{state}"' in beat.read_text("utf-8"):
                return
            await asyncio.sleep(0.05)  # Another process has no signal for a test.


async def test_a_broker_that_stays_silent_ends_the_process_and_costs_no_row_an_attempt(
    own_kafka: LocalStack, frozen_in_time: Settings, tmp_path: Path
) -> None:
    await ensure_topics(frozen_in_time)
    async with opened(frozen_in_time) as bench:
        with relay_process(frozen_in_time, tmp_path) as process:
            await bench.apply(said(1, candidate("city", '"深圳"')), 0)
            await is_empty(bench)
            await shown(tmp_path, "ready")
            own_kafka.freeze("kafka")
            await bench.apply(said(2, candidate("city", '"Leeds"')), 1)
            await shown(tmp_path, "waiting")
            assert await asyncio.to_thread(process.wait, 60) == 70
        assert "did not acknowledge a record within 30 s" in (tmp_path / "relay.log").read_text("utf-8")
        assert {row[0] for row in await bench.rows("SELECT attempts FROM memory_outbox")} == {0}
        own_kafka.thaw("kafka")
        with relay_process(frozen_in_time, tmp_path):
            await is_empty(bench)


async def test_a_short_silence_is_waited_for_in_place(own_kafka: LocalStack, frozen_in_time: Settings) -> None:
    await ensure_topics(frozen_in_time)
    beat, stop = Beat(), asyncio.Event()
    async with opened(frozen_in_time) as bench:
        running = asyncio.create_task(Relay(frozen_in_time, CODEC, beat=beat).run(stop))
        await beat.shows("ready")
        own_kafka.freeze("kafka")
        await bench.apply(said(1, candidate("city", '"深圳"')), 0)
        await beat.shows("waiting")
        own_kafka.thaw("kafka")
        await is_empty(bench)
        await beat.shows("ready")
        assert not running.done()
        stop.set()
        await asyncio.wait_for(running, 30)
