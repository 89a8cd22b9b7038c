"""The door to Postgres: connections, the scope of a transaction, SQL by name, and the translation of driver errors.

Called by ``remember``, ``working``, the relay and the readers. Only this file and the key store import psycopg in
``streams``. It decides nothing and knows no table.
"""

import asyncio
import select
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import AsyncConnection, errors
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from schemas.errors import Broken, EngramError, Misconfigured, Rejected, Retryable
from schemas.ids import check_id
from schemas.settings import Settings

Connection = AsyncConnection[tuple[Any, ...]]
Pool = AsyncConnectionPool[Connection]
Item = TypeVar("Item")
Answer = TypeVar("Answer")

SQL_FOLDER = Path(__file__).parent / "sql"
OUTBOX_CHANNEL = "engram_outbox"
# These repeat a few statements for ever, always inside one user or by number: planning each anew takes ten times as long as
# running it, and the plan never differs.
_HOT_ROLES = ("engram_writer", "engram_working", "engram_relay", "engram_keys")
_SET_SCOPE = "SELECT set_config('engram.tenant_id', %s, true), set_config('engram.user_id', %s, true)"
# What a later try can cure: the server went away or was busy, or another transaction was in the way.
_RETRYABLE_CLASSES = ("08", "40", "53", "55", "57", "58")
# The server gave up a transaction that stood still: this process or the server was frozen in the middle of it.
_RETRYABLE_CODES = ("25P03", "25P04")
# What the value itself makes impossible: not of its type, too large for an index, outside a check.
_REJECTED_CLASSES = ("22", "54")
_REJECTED_CODES = ("23514",)


@cache
def sql(name: str, folder: Path = SQL_FOLDER) -> LiteralString:
    """Return the text of ``<folder>/<name>.sql``, by default of this package; read once in the life of the process."""
    return (folder / f"{name}.sql").read_text("utf-8")


def connection_text(settings: Settings, role: str, database: str | None = None) -> str:
    """Return the connection text of a role (such as ``engram_reader``; the administrator's own name is one too)."""
    admin = role == settings.postgres_admin_user
    password = settings.postgres_admin_password if admin else settings.postgres_password
    return make_conninfo(
        host=settings.postgres_host,
        port=settings.postgres_port,
        user=role,
        password=password.get_secret_value() or None,
        dbname=database or settings.postgres_database,
        sslmode=settings.postgres_sslmode,
        connect_timeout=max(1, int(settings.postgres_connect_timeout_seconds)),
        application_name=role.replace("_", "-"),
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        options=(
            f"-c statement_timeout={int(settings.postgres_statement_timeout_seconds * 1000)}"
            f" -c idle_in_transaction_session_timeout={int(settings.postgres_idle_in_transaction_seconds * 1000)}"
            f" -c timezone=UTC -c jit=off -c plan_cache_mode={'force_generic_plan' if role in _HOT_ROLES else 'auto'}"
        ),
    )


async def connect(
    settings: Settings, role: str, *, database: str | None = None, autocommit: bool = False
) -> Connection:
    """Open one connection as ``role``; raises ``Retryable`` or ``Misconfigured``."""
    with translated():
        return await AsyncConnection.connect(
            connection_text(settings, role, database), autocommit=autocommit, prepare_threshold=2
        )


@asynccontextmanager
async def connected(settings: Settings, role: str) -> AsyncIterator[Connection]:
    """A connection as ``role`` in autocommit mode, closed at the end; raises ``Retryable`` or ``Misconfigured``."""
    connection = await connect(settings, role, autocommit=True)
    try:
        yield connection
    finally:
        await connection.close()


async def pool(
    settings: Settings, role: str, max_size: int, *, database: str | None = None, autocommit: bool = False
) -> Pool:
    """Open a pool of at most ``max_size`` connections as ``role``; raises ``Retryable`` when the first one fails.

    With ``autocommit`` a single statement is a transaction of its own; ``scoped`` makes one of several as ever.
    """
    opened: Pool = AsyncConnectionPool(
        connection_text(settings, role, database),
        min_size=1,
        max_size=max_size,
        kwargs={"prepare_threshold": 2, "autocommit": autocommit},
        timeout=settings.postgres_connect_timeout_seconds,
        check=_check,
        reconnect_timeout=settings.postgres_connect_timeout_seconds,
        open=False,
    )
    try:
        await opened.open(wait=True, timeout=settings.postgres_connect_timeout_seconds)
    except (PoolTimeout, psycopg.Error) as error:
        await opened.close()
        raise Retryable(f"Postgres does not answer at {settings.postgres_host}:{settings.postgres_port}") from error
    return opened


async def _check(connection: Connection) -> None:
    """Ask the server only where something came in while the connection lay idle, which is how a lost one looks.

    Asking every time costs a round trip for each statement. Who borrows a connection that is lost after this sees
    ``Retryable``.
    """
    with suppress(psycopg.OperationalError):
        idle = select.poll()
        idle.register(connection.fileno(), select.POLLIN)
        if not idle.poll(0):
            return
    await AsyncConnectionPool.check_connection(connection)


@asynccontextmanager
async def borrowed(source: Pool) -> AsyncIterator[Connection]:
    """Borrow a connection from a pool; driver errors leave as ours.

    A connection whose task was cancelled is closed, not given back: a late reply in it would answer somebody else.
    """
    with translated():
        connection = await source.getconn()
        try:
            yield connection
        except asyncio.CancelledError:
            await connection.close()
            raise
        finally:
            await source.putconn(connection)


@asynccontextmanager
async def scoped(connection: Connection, tenant_id: str, user_id: str) -> AsyncIterator[Connection]:
    """One transaction in the scope of one user: commits at the end, rolls back on any error.

    Raises ``Rejected`` (``bad_id``) for an id that is none, and ``Retryable``, ``Rejected`` or ``Broken`` for what the
    server says.
    """
    check_id("tenant_id", tenant_id)
    check_id("user_id", user_id)
    async with transaction(connection):
        await connection.execute(_SET_SCOPE, (tenant_id, user_id))
        yield connection


@asynccontextmanager
async def transaction(connection: Connection) -> AsyncIterator[Connection]:
    """One transaction in no scope: tables of users answer only the statements that set one themselves.

    Commits at the end, rolls back on any error. Raises ``Retryable``, ``Rejected`` or ``Broken`` for what the server says.
    """
    with translated():
        try:
            async with connection.transaction():
                yield connection
        except asyncio.CancelledError:
            await connection.close()
            raise


async def in_halves(
    items: Sequence[Item],
    store: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
    alone: Callable[[Item, Rejected], Awaitable[Answer]],
) -> list[Answer]:
    """Return what ``store`` says of the items, which come in one transaction; one that is rejected takes no other with it.

    Where ``store`` raises ``Rejected``, each half is stored apart, down to the one to blame, which goes to ``alone``.
    """
    if not items:
        return []
    try:
        return [*await store(items)]
    except Rejected as error:
        if len(items) == 1:
            return [await alone(items[0], error)]
    half = len(items) // 2
    return [*await in_halves(items[:half], store, alone), *await in_halves(items[half:], store, alone)]


class translated:  # noqa: N801 - reads as a word at the place of use
    """``with translated():`` turns driver errors into ``Retryable``, ``Rejected``, ``Broken`` or ``Misconfigured``."""

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Raise ours instead of the driver's."""
        if isinstance(error, psycopg.Error | PoolTimeout):
            raise translate(error) from error


def translate(error: Exception) -> EngramError:
    """Return our error for a driver error; this is the only place that knows the server's codes.

    The sentence names the code, the constraint and the column. The server's own text is left out: it quotes values, and
    these sentences are kept and shown in plain.
    """
    code = getattr(error, "sqlstate", None) or ""
    what = _named(error)
    if isinstance(error, errors.InvalidPassword | errors.InvalidAuthorizationSpecification | errors.InvalidCatalogName):
        return Misconfigured(f"Postgres refuses the connection ({what}): check role, password and database")
    if code[:2] in _REJECTED_CLASSES or code in _REJECTED_CODES or (not code and isinstance(error, psycopg.DataError)):
        return Rejected(f"Postgres cannot store the value ({what})", code="bad_value")
    if code[:2] in _RETRYABLE_CLASSES:
        return Retryable(f"Postgres cannot answer now ({what})")
    if not code and isinstance(error, psycopg.OperationalError | PoolTimeout):
        # The client's own words about a connection, in which no value stands.
        return Retryable(f"Postgres: {str(error).strip().partition(chr(10))[0] or what}")
    return Broken(f"Postgres refused a statement ({what})")


def _named(error: Exception) -> str:
    diagnosis = error.diag if isinstance(error, psycopg.Error) else None
    code = diagnosis.sqlstate if diagnosis else None
    named = [code, type(error).__name__]
    if diagnosis:
        named += [diagnosis.table_name, diagnosis.constraint_name, diagnosis.column_name]
    return ", ".join(name for name in named if name)
