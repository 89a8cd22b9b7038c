"""Conflicts: events that a projector refused because its store shows another content under the same version.

Called by ``engram conflicts``, ``engram status``, ``engram reconcile`` and the projectors' metrics. It reads and settles what
projectors recorded; it repairs nothing.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from projectors.generations import ROLE
from reconcile.report import Report
from schemas.settings import Settings
from streams.postgres import connect, sql, translated

SQL_FOLDER = Path(__file__).parent / "sql"


class OpenConflict(Struct, frozen=True):
    """One conflict without any content: whose it is, both versions and hashes, how often, when (milliseconds)."""

    store: str
    generation: int
    tenant_id: str
    user_id: str
    aggregate_id: str
    version: int
    event_hash: str
    stored_version: int
    stored_hash: str
    times: int
    first_at_ms: int
    last_at_ms: int


async def open_conflicts(settings: Settings, limit: int) -> tuple[OpenConflict, ...]:
    """Return at most ``limit`` conflicts that are not settled, newest first; raises ``Retryable`` when Postgres is away."""
    connection = await connect(settings, ROLE, autocommit=True)
    try:
        with translated():
            cursor = await connection.execute(sql("conflicts_open", SQL_FOLDER), {"limit": limit})
            return tuple(OpenConflict(*row) for row in await cursor.fetchall())
    finally:
        await connection.close()


async def conflict_counts(settings: Settings) -> Mapping[str, int]:
    """Return how many conflicts are open, by store; raises ``Retryable`` when Postgres is away."""
    connection = await connect(settings, ROLE, autocommit=True)
    try:
        with translated():
            return dict(await (await connection.execute(sql("conflicts_count", SQL_FOLDER))).fetchall())
    finally:
        await connection.close()


async def settle(settings: Settings, report: Report, began_at_ms: int) -> int:
    """Mark as settled what conflicted before ``began_at_ms`` in generations that ``report`` found equal; return how many.

    ``report`` must be of a comparison of everything, not of one tenant. Raises ``Retryable`` when Postgres is away.
    """
    settled = 0
    connection = await connect(settings, ROLE, autocommit=True)
    try:
        for store in report.stores:
            if store.differences == 0:
                names = {"store": store.store, "generation": store.generation, "at_ms": began_at_ms}
                with translated():
                    settled += (await connection.execute(sql("conflicts_settle", SQL_FOLDER), names)).rowcount
        return settled
    finally:
        await connection.close()
