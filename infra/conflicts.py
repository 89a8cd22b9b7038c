"""Conflicts: events that a projector refused because its store shows another content under the same version.

Called by ``engram conflicts``, ``engram status``, ``engram reconcile`` and the projectors' metrics. It reads and settles what
projectors recorded; it repairs nothing.
"""

from collections.abc import Mapping
from pathlib import Path

from projectors.batch import Conflict
from projectors.generations import ROLE
from reconcile.report import Report
from schemas.settings import Settings
from streams.postgres import connected, sql, translated

SQL_FOLDER = Path(__file__).parent / "sql"


class OpenConflict(Conflict, frozen=True, kw_only=True):
    """A conflict as it is kept: how often it came, and when (milliseconds)."""

    times: int
    first_at_ms: int
    last_at_ms: int


async def open_conflicts(settings: Settings, limit: int) -> tuple[OpenConflict, ...]:
    """Return at most ``limit`` conflicts that are not settled, newest first; raises ``Retryable`` when Postgres is away."""
    async with connected(settings, ROLE) as connection:
        with translated():
            cursor = await connection.execute(sql("conflicts_open", SQL_FOLDER), {"limit": limit})
            names = OpenConflict.__struct_fields__
            return tuple(OpenConflict(**dict(zip(names, row, strict=True))) for row in await cursor.fetchall())


async def conflict_counts(settings: Settings) -> Mapping[str, int]:
    """Return how many conflicts are open, by store; raises ``Retryable`` when Postgres is away."""
    async with connected(settings, ROLE) as connection:
        with translated():
            return dict(await (await connection.execute(sql("conflicts_count", SQL_FOLDER))).fetchall())


async def settle(settings: Settings, report: Report, began_at_ms: int) -> int:
    """Mark as settled what conflicted before ``began_at_ms`` in generations that ``report`` found equal; return how many.

    ``report`` must be of a comparison of everything, not of one tenant. Raises ``Retryable`` when Postgres is away.
    """
    settled = 0
    async with connected(settings, ROLE) as connection:
        for store in report.stores:
            if store.differences == 0:
                names = {"store": store.store, "generation": store.generation, "at_ms": began_at_ms}
                with translated():
                    settled += (await connection.execute(sql("conflicts_settle", SQL_FOLDER), names)).rowcount
        return settled
