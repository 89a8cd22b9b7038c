"""Repairs: one outbox row per difference, in small transactions.

Called by ``reconcile.run``. A run that is killed half way leaves rows that publish the truth, which is harmless; the next
run finds what is left.
"""

from collections.abc import Callable, Sequence

from reconcile.diff import Difference
from reconcile.plan import Audited, rows_of
from reconcile.postgres import insert_repairs
from schemas.settings import Settings
from streams.crash import CrashPoints
from streams.postgres import Connection

BATCH_ROWS = 500


async def enqueue(
    settings: Settings,
    connection: Connection,
    store: Audited,
    generation: int,
    differences: Sequence[Difference],
    *,
    crash: CrashPoints,
    progress: Callable[[int], None] = lambda _rows: None,
) -> int:
    """Ask for a repair of each difference; return how many are new, without those asked for already.

    ``generation`` is the store's, 0 for the log, whose repair is one more record: no store answers to that name.
    ``connection`` must be in autocommit mode. Raises ``Retryable`` or ``Broken`` as Postgres says.
    """
    rows = rows_of(store, generation, differences)
    enqueued = 0
    for start in range(0, len(rows), BATCH_ROWS):
        batch = rows[start : start + BATCH_ROWS]
        enqueued += await insert_repairs(connection, batch, settings.partitions)
        crash.visit("mid_repair")
        progress(start + len(batch))
    return enqueued
