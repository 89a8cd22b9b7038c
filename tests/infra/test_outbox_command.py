"""Dead rows of the outbox are shown by `engram status`, listed, and given another set of tries by `engram outbox`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import environment_of

from infra.commands.stack import stack_report
from infra.lag import Look, look
from infra.state import StateDirectory
from infra.workers import worker_name
from schemas.settings import Settings
from streams.postgres_outbox import Standing

pytestmark = pytest.mark.stack
ROOT = Path(__file__).parents[2]
COLUMNS = (
    "(outbox_id, event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,"
    " repair_header, repair_dedupe_key, payload, attempts, last_error, created_at)"
)


def database(settings: Settings) -> "psycopg.Connection[tuple[Any, ...]]":
    return psycopg.connect(
        host=settings.postgres_host,
        port=settings.postgres_port,
        user=settings.postgres_admin_user,
        password=settings.postgres_admin_password.get_secret_value(),
        dbname=settings.postgres_database,
        autocommit=True,
    )


def bury(settings: Settings, number: int, user: str, repair: str | None = None) -> None:
    with database(settings) as connection:
        connection.execute(
            f"INSERT INTO outbox_dead {COLUMNS} VALUES (%s, gen_random_uuid(), 'm-1', 'acme', %s, 0, 1, 'memory.updated',"
            " 'memory', %s, %s, 'secret text', 10, 'outbox row has no payload', now())",
            (number, user, repair and "{}", repair),
        )


def numbers(settings: Settings, table: str) -> list[int]:
    with database(settings) as connection:
        return [row[0] for row in connection.execute(f"SELECT outbox_id FROM {table} ORDER BY 1")]


def engram(settings: Settings, *words: str, code: int = 0) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
    command = [sys.executable, "-m", "infra.cli", *words]
    done = subprocess.run(
        command, env={**own, **environment_of(settings)}, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def test_dead_rows_are_listed_without_content_and_requeued_at_their_place(settings: Settings) -> None:
    for number, user in ((7, "ann"), (9, "小明"), (11, "ann")):
        bury(settings, number, user)
    printed = engram(settings, "outbox", "list", "--json")
    assert "secret text" not in printed
    assert [(row["outbox_id"], row["user_id"], row["attempts"], row["last_error"]) for row in json.loads(printed)] == [
        (number, user, 10, "outbox row has no payload") for number, user in ((7, "ann"), (9, "小明"), (11, "ann"))
    ]
    assert len(json.loads(engram(settings, "outbox", "list", "--limit", "1", "--json"))) == 1
    assert "acme" in engram(settings, "outbox", "list")
    answer = json.loads(engram(settings, "outbox", "requeue", "9", "404", "--json", code=1))
    assert answer == {"requeued": [9], "not_dead": [404]}
    assert (numbers(settings, "memory_outbox"), numbers(settings, "outbox_dead")) == ([9], [7, 11])
    assert "2 rows requeued" in engram(settings, "outbox", "requeue", "--all")
    assert (numbers(settings, "memory_outbox"), numbers(settings, "outbox_dead")) == ([7, 9, 11], [])
    engram(settings, "outbox", "requeue", code=2)
    engram(settings, "outbox", "requeue", "7", "--all", code=2)


def test_a_repair_that_was_asked_for_again_needs_no_second_place(settings: Settings) -> None:
    bury(settings, 7, "ann", repair="milvus:m-1")
    with database(settings) as connection:
        connection.execute(
            f"INSERT INTO memory_outbox {COLUMNS} OVERRIDING SYSTEM VALUE SELECT 20, event_id, aggregate_id, tenant_id, user_id,"
            " shard, aggregate_version, event_type, target, repair_header, repair_dedupe_key, payload, 0, '', now()"
            " FROM outbox_dead"
        )
    assert json.loads(engram(settings, "outbox", "requeue", "7", "--json")) == {"requeued": [7], "not_dead": []}
    assert (numbers(settings, "memory_outbox"), numbers(settings, "outbox_dead")) == ([20], [])


async def test_the_outbox_is_looked_at_with_the_users_it_holds_back(settings: Settings) -> None:
    for number in range(1, 26):
        bury(settings, number, f"user-{number:02}")
    bury(settings, 30, "user-01")
    found = await look(settings)
    assert found.lags[worker_name("relay")] == 0
    named = tuple(("acme", f"user-{number:02}") for number in range(1, 21))
    assert found.outbox == Standing(waiting=0, dead=26, held_back_users=25, held_back=named)


@pytest.mark.parametrize("detail", ["", "24 shards"])
def test_the_status_shows_dead_rows_beside_the_relay(tmp_path: Path, detail: str) -> None:
    state = StateDirectory(tmp_path / "state")
    state.create()
    state.acquire()
    entries = [
        {"name": name, "kind": "worker", "version": "", "port": None, "state": "ready", "pid": 1, "restarts": 0}
        for name in (worker_name("relay"), worker_name("admit"))
    ]
    state.snapshot_file.write_text(json.dumps({"processes": [{**entry, "detail": detail} for entry in entries]}))
    held = Standing(waiting=3, dead=2, held_back_users=1, held_back=(("acme", "小明"),))
    report = stack_report(state, lambda _: Look({worker_name("relay"): 3}, held))
    relay, admit = report["processes"]
    assert relay["lag"] == 3
    assert relay["detail"].startswith(detail)
    assert "dead rows: 2, users held back: 1" in relay["detail"]
    assert admit["detail"] == detail
    assert report["outbox"] == {
        "dead_rows": 2,
        "held_back_users": 1,
        "held_back": [{"tenant_id": "acme", "user_id": "小明"}],
    }
    quiet = stack_report(state, lambda _: Look({}, Standing()))
    assert [entry["detail"] for entry in quiet["processes"]] == [detail, detail]
    assert stack_report(state)["outbox"] is None
    state.release()
