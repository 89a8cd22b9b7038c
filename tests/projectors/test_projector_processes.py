"""Real worker processes that are killed at their worst moments, and the rebuild command against them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from conftest import environment_of
from projector_kit import all_entries, projected, publish
from projector_samples import belongs, event, follows, update

from projectors.doors import open_door
from projectors.entries import Generation, Store
from schemas.candidates import Vector
from schemas.settings import Settings
from streams.embedding import UseEmbedder

pytestmark = pytest.mark.stack
ROWS = 300
STEPS = [
    ("milvus", "after_milvus:2"),
    ("milvus", "before_commit:3"),
    ("neo4j", "after_neo4j:2"),
    ("neo4j", "before_commit:3"),
    ("influx", "after_influx:2"),
    ("influx", "before_commit:3"),
]


def generation(store: str, number: int = 1) -> Generation:
    found: Any = store
    if store == "milvus":
        return Generation(found, number, "live", UseEmbedder.revision, UseEmbedder.dimension)
    return Generation(found, number)


def records(store: str, rows: int = ROWS) -> list[Any]:
    if store == "influx":
        return [event(sequence, user_id=f"u{sequence % 5}") for sequence in range(1, rows + 1)]
    values = b"\0\0\x80?" + b"\0" * 4 * (UseEmbedder.dimension - 1)
    return [
        update(
            number,
            user_id=f"u{number % 5}",
            edges=[belongs("user:me"), follows(number + 5)],
            vectors=[Vector(UseEmbedder.revision, values)],
        )
        for number in range(rows)
    ]


@contextmanager
def worker(settings: Settings, store: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, **environment_of(settings), **variables}
    process = subprocess.Popen(
        [sys.executable, "-m", "infra.cli", "worker", store], env=environment, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=30)


@pytest.mark.chaos
@pytest.mark.parametrize(("store", "step"), STEPS)
async def test_a_killed_worker_loses_nothing_and_writes_nothing_twice(
    topics: Settings, store: Store, step: str
) -> None:
    settings = topics.model_copy(update={"projector_batch_rows": 50, "session_timeout_seconds": 6.0})
    door = open_door(settings, store)
    try:
        sent = records(store)
        await publish(settings, sent)
        with worker(settings, store, ENGRAM_CRASH_AT=step) as killed:
            code = killed.wait(timeout=60)
            assert code == -signal.SIGKILL, _said(killed)
        with worker(settings, store):
            await projected(settings, generation(store))
            entries = await all_entries(door, generation(store))
        assert len(entries) == ROWS
        assert {entry.fingerprint.content_hash for entry in entries} == {one.content_hash for one in sent}
    finally:
        await door.drop(generation(store))
        await door.close()


def _said(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.read().decode()


def rebuild(settings: Settings, store: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "infra.cli", "rebuild", store, "--json"],
        env={**os.environ, **environment_of(settings)},
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.stdout, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


async def test_the_command_switches_only_what_equals_postgres(topics: Settings) -> None:
    settings = topics.model_copy(update={"drain_seconds": 0.2})
    door = open_door(settings, "neo4j")
    try:
        with worker(settings, "neo4j"):
            await projected(settings, generation("neo4j"))
            await _is_live(settings)
            code, said = rebuild(settings, "neo4j")
            assert (code, said["switched"], said["generation"], said["differences"]) == (0, True, 2, 0)
            # A snapshot of a memory that Postgres does not know is an orphan in every generation.
            await publish(settings, records("neo4j", 3))
            code, said = rebuild(settings, "neo4j")
            assert (code, said["switched"], said["generation"], said["differences"]) == (1, False, 3, 3)
    finally:
        for number in (1, 2, 3):
            await door.drop(generation("neo4j", number))
        await door.close()


async def _is_live(settings: Settings) -> None:
    from projector_kit import until

    from projectors.generations import ROLE, generations
    from streams.postgres import connect

    connection = await connect(settings, ROLE, autocommit=True)

    async def found() -> bool:
        return bool(await generations(connection, "neo4j"))

    try:
        await until(found)
    finally:
        await connection.close()
