"""Brings both databases to the newest schema: roles, databases, numbered forward-only SQL files.

Called by the local stack and by ``engram migrate``, as administrator, before any worker starts. It never changes or
undoes an applied file: one whose bytes differ from what was applied is an error.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

import psycopg
from psycopg import sql

from schemas.errors import Misconfigured, Retryable
from schemas.settings import Settings

MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"
OWNER = "engram_owner"
LOGIN_ROLES = (
    "engram_writer",
    "engram_working",
    "engram_relay",
    "engram_projector",
    "engram_reader",
    "engram_reconcile",
    "engram_keys",
)
EXTENSIONS = {"truth": ("vector", "pg_trgm"), "keys": ()}
_LOCK = 0x456E6772616D  # one migration at a time in a cluster; roles are shared between its databases


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file: its name and its text."""

    name: str
    text: LiteralString

    @property
    def sha256(self) -> str:
        """The SHA-256 (hex) of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def migrations_of(kind: str, folder: Path = MIGRATIONS_FOLDER) -> tuple[Migration, ...]:
    """Return the files of ``truth`` or ``keys`` in order; raises ``Misconfigured`` when numbers have a gap."""
    found = [Migration(path.name, path.read_text("utf-8")) for path in sorted((folder / kind).glob("*.sql"))]
    for number, migration in enumerate(found, start=1):
        if not migration.name.startswith(f"{number:04d}_"):
            raise Misconfigured(f"migration {kind}/{migration.name} should have number {number:04d}")
    return tuple(found)


def migrate(settings: Settings) -> None:
    """Create what is missing and apply what is new; running it again changes nothing.

    Raises ``Misconfigured`` (a changed file, missing rights) or ``Retryable`` (no server).
    """
    databases = {"truth": settings.postgres_database, "keys": settings.postgres_keys_database}
    try:
        with _connect(settings, "postgres") as server:
            server.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
            _create_roles(server, settings.postgres_password.get_secret_value())
            for kind, database in databases.items():
                _create_database(server, database)
                with _connect(settings, database) as connection:
                    _prepare(connection, database, EXTENSIONS[kind])
                    apply(connection, migrations_of(kind))
    except psycopg.OperationalError as error:
        raise Retryable(f"Postgres does not answer: {error}") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise Misconfigured(f"{settings.postgres_admin_user} may not set up the databases: {error}") from error


def apply(connection: psycopg.Connection, migrations: tuple[Migration, ...]) -> tuple[str, ...]:
    """Apply each migration that the database does not have, one transaction each; return the names applied now."""
    known: dict[str, str] = dict(connection.execute("SELECT name, sha256 FROM migrations").fetchall())
    for name in known.keys() - {migration.name for migration in migrations}:
        raise Misconfigured(f"migration {name} was applied but its file is gone: this code is older than the database")
    applied = []
    for migration in migrations:
        if migration.name in known:
            if known[migration.name] != migration.sha256:
                raise Misconfigured(
                    f"migration {migration.name} was changed after it was applied: add a new file instead"
                )
            continue
        with connection.transaction():
            connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(OWNER)))
            connection.execute(migration.text)
            connection.execute(
                "INSERT INTO migrations (name, sha256) VALUES (%s, %s)", (migration.name, migration.sha256)
            )
        applied.append(migration.name)
    return tuple(applied)


def _connect(settings: Settings, database: str) -> psycopg.Connection:
    return psycopg.connect(
        host=settings.postgres_host,
        port=settings.postgres_port,
        user=settings.postgres_admin_user,
        password=settings.postgres_admin_password.get_secret_value() or None,
        dbname=database,
        sslmode=settings.postgres_sslmode,
        connect_timeout=max(1, int(settings.postgres_connect_timeout_seconds)),
        application_name="engram-migrate",
        autocommit=True,
    )


def _create_roles(server: psycopg.Connection, password: str) -> None:
    existing = {row[0] for row in server.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'engram_%'")}
    if OWNER not in existing:
        server.execute(sql.SQL("CREATE ROLE {} NOLOGIN NOSUPERUSER NOBYPASSRLS").format(sql.Identifier(OWNER)))
    server.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(OWNER)))
    for role in LOGIN_ROLES:
        verb = sql.SQL("ALTER" if role in existing else "CREATE")
        server.execute(
            sql.SQL("{} ROLE {} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE PASSWORD {}").format(
                verb, sql.Identifier(role), sql.Literal(password or None)
            )
        )


def _create_database(server: psycopg.Connection, database: str) -> None:
    if server.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,)).fetchone() is None:
        server.execute(
            sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE template0 ENCODING 'UTF8'").format(
                sql.Identifier(database), sql.Identifier(OWNER)
            )
        )


def _prepare(connection: psycopg.Connection, database: str, extensions: tuple[str, ...]) -> None:
    for extension in extensions:
        connection.execute(sql.SQL("CREATE EXTENSION IF NOT EXISTS {}").format(sql.Identifier(extension)))
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(database)))
    for role in LOGIN_ROLES:
        connection.execute(
            sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(database), sql.Identifier(role))
        )
    # A database that somebody else made (an operator, a clone) belongs to somebody else; the schema's owner works in it.
    connection.execute(sql.SQL("GRANT CREATE, USAGE ON SCHEMA public TO {}").format(sql.Identifier(OWNER)))
    connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(OWNER)))
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (name text PRIMARY KEY, sha256 text NOT NULL,"
        " applied_at timestamptz NOT NULL DEFAULT now())"
    )
    connection.execute("RESET ROLE")
