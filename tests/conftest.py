"""The real servers, started once per run, and settings that isolate each test.

``stack`` starts Kafka, Postgres, Milvus, Neo4j and InfluxDB in a folder of their own. Where the environment already names
servers (``ENGRAM_KAFKA_BOOTSTRAP_SERVERS``), those are used instead. Each test owns a topic prefix and clones of two
migrated databases.
"""

import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import psycopg
import pytest
from psycopg import sql

from schemas.settings import Settings, load_settings

if TYPE_CHECKING:
    from infra.stack import LocalStack

TEMPLATE = "engram_template"
TEST_PARTITIONS = 4


# How long an example takes says something about the machine, not about the law.
hypothesis.settings.register_profile("engram", deadline=None)
hypothesis.settings.load_profile("engram")


@pytest.fixture(scope="session")
def stack() -> Iterator["LocalStack"]:
    """Start the servers for this run; stop them at its end and leave no process behind."""
    from infra.stack import LocalStack

    # Not below pytest's own folder: a second run closes that folder to the user that Postgres runs as.
    with tempfile.TemporaryDirectory(prefix="engram-tests-") as folder, LocalStack(Path(folder) / "state") as started:
        yield started


@pytest.fixture(scope="session")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Iterator["LocalStack"]:
    """Run servers and workers for the tests of faults, once for all of them; each leaves everything ready."""
    from chaos_kit import whole_stack

    with whole_stack(tmp_path_factory.mktemp("storm") / "state") as started:
        yield started


@pytest.fixture(scope="session")
def server_environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the variables that name the servers: those of the environment, else of a stack started for this run."""
    if "ENGRAM_KAFKA_BOOTSTRAP_SERVERS" in os.environ:
        return {name: value for name, value in os.environ.items() if name.startswith("ENGRAM_")}
    started: LocalStack = request.getfixturevalue("stack")
    return started.environment()


def settings_of(environment: dict[str, str], **changes: object) -> Settings:
    """Return settings as ``environment`` says, with ``changes`` on top."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return load_settings().model_copy(update=changes)


def _admin(settings: Settings) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(
        host=settings.postgres_host,
        port=settings.postgres_port,
        user=settings.postgres_admin_user,
        password=settings.postgres_admin_password.get_secret_value(),
        dbname="postgres",
        autocommit=True,
    )


@pytest.fixture(scope="session")
def template(server_environment: dict[str, str]) -> Iterator[str]:
    """Migrate the pair of databases that every test clones; return their name."""
    from infra.migrate import migrate

    name = f"{TEMPLATE}_{uuid.uuid4().hex[:8]}"
    migrated = settings_of(server_environment, postgres_database=name, postgres_keys_database=f"{name}_keys")
    migrate(migrated)
    yield name
    with _admin(migrated) as connection:
        _drop(connection, name, f"{name}_keys")


def _drop(connection: "psycopg.Connection[tuple[object, ...]]", *names: str) -> None:
    for name in names:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def settings(server_environment: dict[str, str], template: str, tmp_path: Path) -> Iterator[Settings]:
    """Return settings of the real servers with a topic prefix and databases that only this test uses."""
    mark = "t" + uuid.uuid4().hex[:10]
    own = settings_of(
        server_environment,
        topic_prefix=f"{mark}.",
        partitions=TEST_PARTITIONS,
        postgres_database=mark,
        postgres_keys_database=f"{mark}_keys",
        state_dir=tmp_path,
        heartbeat_file=None,
    )
    with _admin(own) as connection:
        for clone, source in ((mark, template), (f"{mark}_keys", f"{template}_keys")):
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(clone), sql.Identifier(source))
            )
        yield own
        _drop(connection, mark, f"{mark}_keys")


@pytest.fixture
async def topics(settings: Settings) -> AsyncIterator[Settings]:
    """Create this test's topics on the broker; delete them afterwards."""
    from schemas.topics import TOPICS
    from streams.kafka import admin, ensure_topics

    await ensure_topics(settings)
    yield settings
    async with admin(settings) as client:
        await client.delete_topics([topic.named(settings.topic_prefix) for topic in TOPICS])


def environment_of(settings: Settings) -> dict[str, str]:
    """Return ``settings`` as the variables that a worker process started by a test needs."""
    names: dict[str, str] = {}
    for name, value in settings:
        if value is None or value == "":
            continue
        text = value.get_secret_value() if hasattr(value, "get_secret_value") else str(value)
        if text:
            names[f"ENGRAM_{name.upper()}"] = text
    return names
