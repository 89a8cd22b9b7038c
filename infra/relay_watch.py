"""Watches the relay: a row of the outbox that grows old while nothing is published, and how the outbox stands.

Run beside the relay. ``Standstill`` is pure; ``watch_relay`` asks Postgres.
"""

import asyncio
import time
from collections.abc import Callable

from infra.lag import OutboxLag, outbox_lag
from infra.last_run import read_last_run
from infra.worker_process import Here
from schemas.errors import Broken, EngramError

EVERY_SECONDS = 5.0


class Standstill:
    """Remembers since when the same row has been the oldest and nothing was published by this process."""

    def __init__(self, *, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._seen: tuple[int | None, int] = (None, 0)
        self._since_seconds = 0.0

    def lasts(self, oldest_row: int | None, published: int, *, now_seconds: float) -> bool:
        """Tell whether ``oldest_row`` (``None``: nothing waits) has waited too long with ``published`` rows standing still.

        A second relay that stands by is ended as well when the first hangs with the shards: it starts again and loses nothing.
        """
        if oldest_row is None or (oldest_row, published) != self._seen:
            self._seen, self._since_seconds = (oldest_row, published), now_seconds
            return False
        return now_seconds - self._since_seconds >= self._patience_seconds


async def watch_relay(
    here: Here, published: Callable[[], int], *, patience_seconds: float, every_seconds: float = EVERY_SECONDS
) -> None:
    """Watch until cancelled; raises ``Broken`` when the outbox stands still.

    While the heartbeat says ``waiting``, Kafka or Postgres is away, and standing still is on purpose.
    """
    last: OutboxLag | None = None

    def show(name: str, said: str, value: Callable[[OutboxLag], float]) -> None:
        here.metrics.show(name, said, (), lambda: {(): value(last)} if last is not None else {})

    show("engram_outbox_rows", "Rows to publish.", lambda look: look.waiting)
    show(
        "engram_outbox_oldest_seconds",
        "Age of the oldest row that waits for nobody.",
        lambda look: look.oldest_age_seconds,
    )
    show("engram_outbox_dead_rows", "Rows that wait for an operator.", lambda look: look.dead)
    show("engram_outbox_held_users", "Users who wait for a late or dead row.", lambda look: look.held_back_users)
    here.metrics.show("engram_relay_published", "Rows published.", (), lambda: {(): published()}, counter=True)
    _show_drift(here)
    standstill = Standstill(patience_seconds=patience_seconds)
    while True:
        await asyncio.sleep(every_seconds)
        try:
            last = await outbox_lag(here.settings)
        except EngramError:
            continue
        if here.heartbeat.state == "waiting":
            standstill = Standstill(patience_seconds=patience_seconds)
        elif standstill.lasts(last.oldest_row, published(), now_seconds=time.monotonic()):
            raise Broken(
                f"row {last.oldest_row} of the outbox waits and nothing was published for {patience_seconds:.0f} s"
            )


def _show_drift(here: Here) -> None:
    """Show what the reconciler last found: the relay is where drift is mended from, and there is one whatever the stores are."""
    folder = here.settings.state_dir

    def drift() -> dict[tuple[str, ...], float]:
        return {(s, kind): count for s, run in read_last_run(folder).items() for kind, count in run.drift.items()}

    def times() -> dict[tuple[str, ...], float]:
        return {(store,): run.at_ms / 1_000 for store, run in read_last_run(folder).items()}

    here.metrics.show("engram_reconcile_drift", "Differences at the last comparison.", ("store", "kind"), drift)
    here.metrics.show("engram_reconcile_timestamp_seconds", "When it was last compared.", ("store",), times)
