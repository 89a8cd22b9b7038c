"""The relay beside a broker that takes what is sent and says nothing: it shows that it waits, and ends in time."""

import asyncio
from collections.abc import Iterator

import pytest
from truth_bench import CODEC, Bench, opened
from truth_world import candidate, said

from infra.servers.kafka import Kafka
from infra.stack import LocalStack
from schemas.errors import Broken
from schemas.settings import Settings
from streams.acknowledgements import Patience
from streams.kafka import ensure_topics
from streams.relay import Relay

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]


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


async def test_a_broker_that_stays_silent_ends_the_relay_and_costs_no_row_an_attempt(
    own_kafka: LocalStack, frozen_in_time: Settings
) -> None:
    await ensure_topics(frozen_in_time)
    beat, stop = Beat(), asyncio.Event()
    async with opened(frozen_in_time) as bench:
        relay = Relay(frozen_in_time, CODEC, beat=beat, patience=Patience(0.2, 3.0))
        running = asyncio.create_task(relay.run(stop))
        await bench.apply(said(1, candidate("city", '"深圳"')), 0)
        await is_empty(bench)
        await beat.shows("ready")
        own_kafka.freeze("kafka")
        await bench.apply(said(2, candidate("city", '"Leeds"')), 1)
        await beat.shows("waiting")
        with pytest.raises(Broken, match="did not acknowledge"):
            await asyncio.wait_for(running, 30)
        assert {row[0] for row in await bench.rows("SELECT attempts FROM memory_outbox")} == {0}
        own_kafka.thaw("kafka")
        # What the supervisor does: another process, here another relay.
        again = asyncio.create_task(Relay(frozen_in_time, CODEC).run(stop))
        await is_empty(bench)
        stop.set()
        await asyncio.wait_for(again, 30)


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
