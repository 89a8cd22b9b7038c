"""Migrations: numbered, forward only, never changed once applied."""

from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from infra.migrate import Migration, apply, migrate, migrations_of
from schemas.errors import Misconfigured, Retryable
from schemas.settings import Settings


def test_numbers_have_no_gap() -> None:
    for kind in ("truth", "keys"):
        assert [m.name[:4] for m in migrations_of(kind)] == [f"{n:04d}" for n in range(1, len(migrations_of(kind)) + 1)]


def test_a_missing_number_is_named(tmp_path: Path) -> None:
    (tmp_path / "truth").mkdir()
    for name in ("0001_a.sql", "0003_c.sql"):
        (tmp_path / "truth" / name).write_text("SELECT 1;")
    with pytest.raises(Misconfigured, match=r"0003_c\.sql should have number 0002"):
        migrations_of("truth", tmp_path)


def _connect(settings: Settings) -> psycopg.Connection:
    return psycopg.connect(
        host=settings.postgres_host,
        port=settings.postgres_port,
        user=settings.postgres_admin_user,
        password=settings.postgres_admin_password.get_secret_value(),
        dbname=settings.postgres_database,
        autocommit=True,
    )


@pytest.mark.stack
def test_migrating_again_changes_nothing_and_a_changed_file_is_refused(settings: Settings) -> None:
    migrate(settings)
    with _connect(settings) as connection:
        known = migrations_of("truth")
        assert apply(connection, known) == ()
        extra = Migration(
            f"{len(known) + 1:04d}_extra.sql", "CREATE TABLE extra (a integer); CREATE TABLE more (a integer);"
        )
        assert apply(connection, (*known, extra)) == (extra.name,)
        owner = connection.execute("SELECT tableowner FROM pg_tables WHERE tablename = 'extra'").fetchone()
        assert owner == ("engram_owner",)
        with pytest.raises(Misconfigured, match="was changed after it was applied"):
            apply(connection, (*known, Migration(extra.name, "SELECT 2;")))
        with pytest.raises(Misconfigured, match="older than the database"):
            apply(connection, known)
        broken = Migration(f"{len(known) + 2:04d}_broken.sql", "CREATE TABLE half (a integer); SELECT 1 / 0;")
        with pytest.raises(psycopg.errors.DivisionByZero):
            apply(connection, (*known, extra, broken))
        assert connection.execute("SELECT to_regclass('half')").fetchone() == (None,)


@pytest.mark.stack
def test_positions_kept_under_the_id_of_a_cluster_get_the_id_of_their_topic(settings: Settings) -> None:
    (moved,) = (one for one in migrations_of("truth") if one.name == "0008_positions_of_topics.sql")
    topics = {"p.chat.turns": "one/a", "p.memory.proposals": "one/b", "p.memory.changes": "one/c"}
    with _connect(settings) as connection:
        for topic, identity in topics.items():
            connection.execute("INSERT INTO topic_identities (topic, identity) VALUES (%s, %s)", (topic, identity))
        for role, partition, identity in (("remember", 0, "one"), ("working", 0, "one"), ("remember", 1, "two")):
            connection.execute("INSERT INTO positions VALUES (%s, %s, %s, 7)", (role, partition, identity))
        for _ in range(2):
            connection.execute(moved.text)
            found = connection.execute("SELECT role, partition, topic_identity, last_offset FROM positions").fetchall()
            # Offsets of another cluster stay as they are, and stop whoever meets them.
            assert set(found) == {("remember", 0, "one/b", 7), ("working", 0, "one/a", 7), ("remember", 1, "two", 7)}


@pytest.mark.stack
def test_a_new_pair_of_databases_is_made_from_nothing(settings: Settings) -> None:
    own = settings.model_copy(
        update={
            "postgres_database": f"{settings.postgres_database}_new",
            "postgres_keys_database": f"{settings.postgres_database}_new_keys",
        }
    )
    migrate(own)
    with _connect(own) as connection:
        assert connection.execute("SELECT count(*) FROM memories").fetchone() == (0,)
    with _connect(settings) as connection:
        for name in (own.postgres_database, own.postgres_keys_database):
            connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


def test_a_server_that_is_not_there_is_retryable() -> None:
    with pytest.raises(Retryable):
        migrate(Settings(postgres_port=1, postgres_connect_timeout_seconds=1))
