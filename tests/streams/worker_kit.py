"""Real worker processes for the delivery tests, and what came out of a topic."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import msgspec
from conftest import environment_of

from schemas.settings import Settings
from schemas.topics import Topic
from streams.heartbeat import Beat
from streams.kafka import TopicPartition, consumer, end_offsets, producer, send, started
from streams.key_store import KeyStore
from streams.producer import TurnProducer

READY_SECONDS = 180.0
END_SECONDS = 20.0


class Worker:
    """One worker process; ``crash_at`` counts for this start only."""

    def __init__(self, role: str, settings: Settings, folder: Path, **changes: object) -> None:
        self.role = role
        self.beat_file = folder / f"{role}.json"
        self.log_file = folder / f"{role}.log"
        self.beat_file.unlink(missing_ok=True)
        changed = settings.model_copy(
            update={"heartbeat_file": self.beat_file, "session_timeout_seconds": 6.0, **changes}
        )
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "infra.cli", "worker", role],
                env={**_without_engram(), **environment_of(changed)},
                stderr=log,
                stdout=log,
                cwd=Path(__file__).parents[2],
            )

    def beat(self) -> Beat | None:
        with suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode(self.beat_file.read_bytes(), type=Beat)
        return None

    async def state(self, wanted: str) -> Beat:
        """Wait until the heartbeat says ``wanted``."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            beat = self.beat()
            if beat is not None and beat.state == wanted:
                return beat
            assert self.process.poll() is None, f"{self.role} ended: {self.log()}"
            await asyncio.sleep(0.05)
        raise AssertionError(f"{self.role} is not {wanted}: {self.log()}")

    async def ended(self, seconds: float = END_SECONDS) -> int:
        return await asyncio.to_thread(self.process.wait, seconds)

    async def stop(self) -> int:
        self.process.terminate()
        return await self.ended()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def log(self) -> str:
        return self.log_file.read_text("utf-8")[-3000:]


def _without_engram() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}


@contextmanager
def workers(settings: Settings, folder: Path, *roles: str, **changes: object) -> Iterator[list[Worker]]:
    made = [Worker(role, settings, folder, **changes) for role in roles]
    try:
        yield made
    finally:
        for worker in made:
            worker.kill()


class Door:
    """A door before a real server, on a port of its own, that a test can shut and open again."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._streams: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def __aenter__(self) -> "Door":
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shut()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        if self._server is not None:
            self._server.close()
        for stream in self._streams:
            stream.transport.abort()
        self._streams.clear()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._streams |= {writer, inner_writer}
        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    sink.transport.abort()


@asynccontextmanager
async def turn_producer(settings: Settings) -> AsyncIterator[TurnProducer]:
    keys = await KeyStore.open(settings)
    try:
        async with TurnProducer(settings, keys) as made:
            yield made
    finally:
        await keys.close()


async def send_raw(settings: Settings, topic: Topic, *messages: tuple[bytes, bytes]) -> None:
    """Send (key, value) pairs as they are."""
    async with started(producer(settings)) as client:
        for key, value in messages:
            await send(client, topic.named(settings.topic_prefix), value, key=key)


async def read_all(settings: Settings, topic: Topic) -> list[tuple[int, int, bytes]]:
    """Return (partition, offset, value) of everything in ``topic`` now, in order per partition."""
    name = topic.named(settings.topic_prefix)
    ends = await end_offsets(settings, name)
    wanted = {number: end for number, end in ends.items() if end}
    found: list[tuple[int, int, bytes]] = []
    if not wanted:
        return found
    async with started(consumer(settings, group=None)) as client:
        partitions = [TopicPartition(name, number) for number in wanted]
        client.assign(partitions)
        await client.seek_to_beginning(*partitions)
        while len(found) < sum(wanted.values()):
            for partition, messages in (await client.getmany(timeout_ms=500)).items():
                found += [
                    (partition.partition, m.offset, m.value) for m in messages if m.offset < wanted[partition.partition]
                ]
    return sorted(found)


async def grown_to(settings: Settings, topic: Topic, count: int, seconds: float = 60.0) -> None:
    """Wait until ``topic`` has at least ``count`` records."""
    deadline = time.monotonic() + seconds
    while True:
        total = sum((await end_offsets(settings, topic.named(settings.topic_prefix))).values())
        if total >= count:
            return
        assert time.monotonic() < deadline, f"{topic.name} has {total} of {count} records"
        await asyncio.sleep(0.2)
