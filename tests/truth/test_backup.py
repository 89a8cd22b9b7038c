"""Postgres and the key store are dumped, dropped and restored while Kafka goes on: nothing is lost and all stores agree again."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from conftest import environment_of
from populated import admin
from running_stores import Running, running_stores
from truth_world import candidate, said

from infra.commands.rewind import move_groups
from infra.servers.postgres import binaries
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.ids import routing_key
from schemas.settings import Settings
from schemas.topics import PROPOSALS
from streams.changes import DecodedProposal
from streams.kafka import producer, send, started
from streams.key_store import KeyStore
from streams.sealed_records import seal_record

pytestmark = [pytest.mark.chaos, pytest.mark.stack, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
CODEC = Codec()


@contextmanager
def remember(settings: Settings, folder: Path) -> Iterator[None]:
    """Run the real worker until the end of the block, then stop it cleanly."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
    changed = settings.model_copy(update={"session_timeout_seconds": 6.0})
    with (folder / "remember.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "infra.cli", "worker", "remember"],
            env={**own, **environment_of(changed)},
            stderr=log,
            cwd=ROOT,
        )
    try:
        yield
        process.terminate()
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


async def propose(settings: Settings, number: int, attribute: str, value: str) -> DecodedProposal:
    proposal = said(number, candidate(attribute, f'"{value}"', content=f"{attribute}: {value}"))
    envelope = proposal.envelope
    keys = await KeyStore.open(settings)
    (key,) = await keys.mint(envelope.tenant_id, envelope.user_id, 1)
    await keys.close()
    assert proposal.body is not None
    sealed = msgspec.structs.replace(envelope, body=seal_record(CODEC, proposal.body, key))
    async with started(producer(settings)) as client:
        topic = PROPOSALS.named(settings.topic_prefix)
        await send(client, topic, CODEC.encode(sealed), key=routing_key(envelope.tenant_id, envelope.user_id))
    return proposal


def rows(settings: Settings, statement: str, *names: Any) -> list[tuple[Any, ...]]:
    with admin(settings) as connection:
        return connection.execute(statement, names).fetchall()  # type: ignore[call-overload,no-any-return]


def memories(settings: Settings) -> list[tuple[Any, ...]]:
    asked = "SELECT memory_id, version, content_hash, content, status FROM memories WHERE tenant_id = 'acme' ORDER BY 1"
    return rows(settings, asked)


async def decided(settings: Settings, *proposals: DecodedProposal) -> None:
    deadline = time.monotonic() + 120
    wanted = {one.envelope.proposal_id for one in proposals}
    while wanted - {row[0] for row in rows(settings, "SELECT proposal_id FROM command_outcomes")}:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.3)


def tool(settings: Settings, name: str, *words: str) -> None:
    """Run a program of Postgres as the README says."""
    login = {"PGPASSWORD": settings.postgres_admin_password.get_secret_value()}
    where = ("-h", settings.postgres_host, "-p", str(settings.postgres_port), "-U", settings.postgres_admin_user)
    subprocess.run([str(binaries() / name), *where, *words], check=True, env={**os.environ, **login})


def dump(settings: Settings, folder: Path, *databases: str) -> None:
    for database in databases:
        tool(settings, "pg_dump", "--format=custom", "--create", f"--file={folder / database}.dump", database)


def restore(settings: Settings, folder: Path) -> None:
    for database in (settings.postgres_database, settings.postgres_keys_database):
        with psycopg.connect(
            host=settings.postgres_host,
            port=settings.postgres_port,
            user=settings.postgres_admin_user,
            password=settings.postgres_admin_password.get_secret_value(),
            dbname="postgres",
            autocommit=True,
        ) as connection:
            connection.execute(f'DROP DATABASE "{database}" WITH (FORCE)')  # type: ignore[arg-type]
        tool(settings, "pg_restore", "--create", "--exit-on-error", "--dbname=postgres", f"{folder / database}.dump")


async def equal(running: Running) -> None:
    deadline = time.monotonic() + 120
    while (report := await running.compared()).differences:
        assert time.monotonic() < deadline, report
        await running.compared(repair=True)


async def restored(
    running: Running, folder: Path, *, newer_keys: bool
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Back up, go on, lose both databases, restore, go on; return the memories before the loss and in the end."""
    settings = running.settings
    with remember(settings, folder):
        first = await propose(settings, 1, "city", "Leeds")
        await decided(settings, first)
        dump(settings, folder, settings.postgres_database, settings.postgres_keys_database)
        second = await propose(settings, 2, "city", "York")
        third = await propose(settings, 3, "allergy", "花生")
        await decided(settings, first, second, third)
        before = memories(settings)
        if newer_keys:
            dump(settings, folder, settings.postgres_keys_database)
        with pytest.raises(Rejected, match="still runs"):
            await move_groups(settings, dry_run=False)
    restore(settings, folder)
    assert len(memories(settings)) < len(before)  # What was decided after the back-up is not in it.
    moved = await move_groups(settings, dry_run=False)
    assert [(one.role, one.before - one.after) for one in moved] == [("remember", 2)]
    with remember(settings, folder):
        await decided(settings, first, second, third)
        await decided(settings, await propose(settings, 4, "name", "小明"))
    assert await move_groups(settings, dry_run=True) == ()
    await equal(running)
    return before, memories(settings)


async def test_a_restored_truth_with_a_newer_key_store_becomes_what_it_was_and_the_stores_agree(
    topics: Settings, tmp_path: Path
) -> None:
    async with running_stores(topics, 24) as running:
        before, after = await restored(running, tmp_path, newer_keys=True)
        assert [row for row in after if row in before] == before  # The same ids, versions, hashes and texts.
        assert len(after) == len(before) + 1


async def test_a_key_store_older_than_the_log_loses_what_was_said_since_and_says_so(
    topics: Settings, tmp_path: Path
) -> None:
    async with running_stores(topics, 24) as running:
        _, after = await restored(running, tmp_path, newer_keys=False)
        assert [row[3] for row in sorted(after, key=lambda row: str(row[3]))] == ["city: Leeds", "name: 小明"]
        said = "SELECT proposal_id, outcome FROM command_outcomes WHERE starts_with(reason, 'unknown_key: ') ORDER BY 1"
        assert rows(running.settings, said) == [("proposal-2", "rejected"), ("proposal-3", "rejected")]
