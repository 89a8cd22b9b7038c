"""The ground a run stands on: servers, databases and topics of its own, worker processes, what they use.

Used by every group. Servers are started in a temporary folder, or are those that the environment names; a run never touches
data that it did not make. Everything is stopped at the end.
"""

import asyncio
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql
from pydantic import SecretStr

from bench.show import Shown
from infra.migrate import migrate
from infra.stack import SERVERS, LocalStack
from infra.workers import worker_name, worker_spec
from projectors.doors import open_door
from projectors.entries import STORES
from projectors.generations import ROLE as PROJECTOR_ROLE
from projectors.generations import generations
from schemas.settings import Settings
from schemas.topics import TOPICS
from streams.kafka import admin, ensure_topics
from streams.postgres import Connection, connect

NAMED = "ENGRAM_KAFKA_BOOTSTRAP_SERVERS"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and those below it have used: processor seconds since their start, resident bytes now and at most."""

    cpu_seconds: float
    resident_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Ground:
    """The servers of a run: their variables, the supervisor of its workers, and whether the servers are its own."""

    stack: LocalStack
    environment: dict[str, str]
    own_servers: bool
    shown: Shown

    @asynccontextmanager
    async def area(self, **changes: object) -> AsyncIterator[Settings]:
        """Yield settings with two new databases and new topics; on servers of others everything is removed again."""
        settings = settings_of(self.environment, **changes)
        await asyncio.to_thread(migrate, settings)
        await ensure_topics(settings)
        try:
            yield settings
        finally:
            if not self.own_servers:
                await _remove(settings)

    @asynccontextmanager
    async def workers(self, settings: Settings, roles: Iterable[str]) -> AsyncIterator[None]:
        """Run worker processes of these roles on an area; ready when this yields."""
        chosen = tuple(roles)
        specs = [worker_spec(self.stack.state, role, variables_of(settings)) for role in chosen]
        await asyncio.to_thread(self.stack.start_workers, specs)
        try:
            await asyncio.to_thread(self.stack.wait_for_workers)
            yield
        finally:
            await asyncio.to_thread(self.stack.stop_workers, [worker_name(role) for role in chosen])

    def usages(self) -> dict[str, Usage]:
        """Return what every server and worker of this run uses, and the measuring process itself as ``bench``."""
        found = {status.name: usage_of(status.pid) for status in self.stack.statuses() if status.pid is not None}
        mine = psutil.Process()
        own = Usage(_cpu_seconds(mine), mine.memory_info().rss, _peak_bytes(mine.pid))
        return {**found, "bench": own}


@contextmanager
def ground(shown: Shown) -> Iterator[Ground]:
    """Start the servers in a temporary folder, or use those of the environment; stop what was started."""
    named = {name: value for name, value in os.environ.items() if name.startswith("ENGRAM_")}
    own = NAMED not in named
    with tempfile.TemporaryDirectory(prefix="engram-bench-", ignore_cleanup_errors=True) as folder:
        stack = LocalStack(
            Path(folder) / "state",
            progress=lambda name, text: shown.doing(f"{name}: {text}"),
            servers=SERVERS if own else (),
        )
        with stack:
            # The supervisor's own variables fill what the environment leaves open; its folder is that of the workers.
            variables = {**stack.environment(), **({} if own else named), "ENGRAM_STATE_DIR": str(stack.state.root)}
            yield Ground(stack, variables, own, shown)


def settings_of(environment: dict[str, str], **changes: object) -> Settings:
    """Return settings of these servers with a topic prefix and databases that nobody else has, and ``changes`` on top."""
    mark = "bench" + uuid.uuid4().hex[:8]
    fields: dict[str, Any] = {name.removeprefix("ENGRAM_").lower(): value for name, value in environment.items()}
    fields |= {"topic_prefix": f"{mark}.", "postgres_database": mark, "postgres_keys_database": f"{mark}_keys"}
    return Settings(**{**fields, "heartbeat_file": None, "crash_at": "", **changes})


def variables_of(settings: Settings) -> dict[str, str]:
    """Return settings as the variables that give a worker process the same."""
    plain = {
        name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in settings
        if value is not None
    }
    return {f"ENGRAM_{name.upper()}": text for name, text in plain.items() if text and name != "heartbeat_file"}


async def administrator(settings: Settings) -> Connection:
    """Return an administrator's connection: measurements fill tables and look at them past every policy."""
    unlimited = settings.model_copy(update={"postgres_statement_timeout_seconds": 600.0})
    return await connect(unlimited, settings.postgres_admin_user, autocommit=True)


async def _remove(settings: Settings) -> None:
    connection = await connect(settings, PROJECTOR_ROLE, autocommit=True)
    try:
        for store in STORES:
            door = open_door(settings, store)
            try:
                for generation in await generations(connection, store):
                    await door.drop(generation)
            finally:
                await door.close()
    finally:
        await connection.close()
    async with admin(settings) as client:
        await client.delete_topics([topic.named(settings.topic_prefix) for topic in TOPICS])
    with psycopg.connect(
        host=settings.postgres_host,
        port=settings.postgres_port,
        user=settings.postgres_admin_user,
        password=settings.postgres_admin_password.get_secret_value() or None,
        dbname="postgres",
        autocommit=True,
    ) as server:
        for name in (settings.postgres_database, settings.postgres_keys_database):
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def usage_of(pid: int) -> Usage:
    """Return what a process and everything below it use; nothing when it has ended."""
    cpu_seconds, resident, peak = 0.0, 0, 0
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return Usage(0.0, 0, 0)
    for member in family:
        try:
            cpu_seconds += _cpu_seconds(member)
            resident += member.memory_info().rss
            peak += _peak_bytes(member.pid)
        except (psutil.NoSuchProcess, FileNotFoundError):
            continue
    return Usage(cpu_seconds, resident, peak)


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _peak_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
