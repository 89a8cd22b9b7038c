"""The real servers: what clients are told works, they are closed to others, and they come back after every fault."""

import http.client
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import neo4j
import psutil
import psycopg
import pytest

from infra.lifecycle import State
from infra.servers.influx import Influx
from infra.servers.kafka import Kafka
from infra.servers.postgres import Postgres
from infra.stack import SERVERS, LocalStack
from schemas.errors import Misconfigured

NAMES = [server.name for server in SERVERS]

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack of this module alone: its servers are killed here."""
    with LocalStack(tmp_path_factory.mktemp("own") / "state") as started:
        yield started


def connect(stack: LocalStack) -> "psycopg.Connection[tuple[object, ...]]":
    environment = stack.environment()
    return psycopg.connect(
        host=environment["ENGRAM_POSTGRES_HOST"],
        port=environment["ENGRAM_POSTGRES_PORT"],
        user=environment["ENGRAM_POSTGRES_ADMIN_USER"],
        password=environment["ENGRAM_POSTGRES_ADMIN_PASSWORD"],
        dbname="postgres",
        autocommit=True,
    )


def pids(stack: LocalStack) -> dict[str, int | None]:
    return {status.name: status.pid for status in stack.statuses()}


def test_postgres_has_the_extensions_that_the_schema_needs(own: LocalStack) -> None:
    with connect(own) as connection:
        rows = connection.execute("SELECT name FROM pg_available_extensions WHERE name IN ('vector', 'pg_trgm')")
        assert {row[0] for row in rows} == {"vector", "pg_trgm"}
        assert connection.execute("SHOW max_connections").fetchone() == ("200",)


def test_postgres_asks_for_the_password(own: LocalStack) -> None:
    environment = own.environment()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(
            host="127.0.0.1",
            port=environment["ENGRAM_POSTGRES_PORT"],
            user="postgres",
            password="wrong",  # noqa: S106  # that is the point
            dbname="postgres",
        )


def test_neo4j_refuses_its_first_password(own: LocalStack) -> None:
    with (
        neo4j.GraphDatabase.driver(own.environment()["ENGRAM_NEO4J_URI"], auth=("neo4j", "neo4j")) as driver,
        pytest.raises(neo4j.exceptions.AuthError),
    ):
        driver.verify_connectivity()


def test_influx_refuses_whoever_has_no_token(own: LocalStack) -> None:
    connection = http.client.HTTPConnection(own.environment()["ENGRAM_INFLUX_URL"].removeprefix("http://"), timeout=5)
    connection.request("GET", "/query?q=SHOW+DATABASES")
    assert connection.getresponse().status == http.HTTPStatus.UNAUTHORIZED
    connection.close()


def test_servers_listen_on_the_loopback_address_only(own: LocalStack) -> None:
    for name, pid in pids(own).items():
        listening = [each for each in psutil.Process(pid).net_connections() if each.status == psutil.CONN_LISTEN]
        assert listening, name
        assert {each.laddr.ip.removeprefix("::ffff:") for each in listening} == {"127.0.0.1"}, name


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_server_stays_down_until_it_is_restarted_where_it_was(own: LocalStack, name: str) -> None:
    before, environment = pids(own), own.environment()
    own.kill(name)
    assert pids(own)[name] is None
    assert not own.check(name)
    own.restart(name)
    assert own.check(name)
    assert own.environment() == environment
    after = pids(own)
    assert {other: pid for other, pid in after.items() if pid != before[other]} == {name: after[name]}


@pytest.mark.parametrize("name", NAMES)
def test_a_frozen_server_does_not_answer_and_goes_on_when_thawed(own: LocalStack, name: str) -> None:
    pid = pids(own)[name]
    own.freeze(name)
    assert not own.check(name)
    assert {status.name: status.state for status in own.statuses()}[name] is State.WAITING
    own.thaw(name)
    deadline = time.monotonic() + 60
    while not own.check(name):
        assert time.monotonic() < deadline
    assert pids(own)[name] == pid


def test_committed_rows_survive_a_kill(own: LocalStack) -> None:
    with connect(own) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS number")
    own.kill("postgres")
    own.restart("postgres")
    with connect(own) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (1,)


def test_two_stacks_at_once_and_the_state_of_each_survives_a_stop(tmp_path: Path) -> None:
    servers = (Postgres(), Influx(), Kafka())
    stacks = [LocalStack(tmp_path / name, servers=servers) for name in ("one", "two")]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(LocalStack.__enter__, stacks))
    first, second = stacks
    environment = first.environment()
    try:
        assert not set(environment.values()) & set(second.environment().values()) - {"127.0.0.1", "postgres", "engram"}
        with connect(first) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS number")
        with pytest.raises(Misconfigured, match="already runs"):
            LocalStack(tmp_path / "one", servers=servers).start_servers()
    finally:
        first.stop()
    assert all(second.check(server.name) for server in servers)
    second.stop()
    with LocalStack(tmp_path / "one", servers=servers) as again:
        assert again.environment() == environment
        with connect(again) as connection:
            assert connection.execute("SELECT number FROM kept").fetchone() == (1,)
