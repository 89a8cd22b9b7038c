"""The fence between the two looks: the outbox rows of the suspects are gone, and the projector has passed the log's end.

Called by ``reconcile.audit``. Knows no store. Waiting is bounded: a projector that stands still is an error of its own,
never drift.
"""

import asyncio
import time
from collections.abc import Sequence

from projectors.entries import Generation
from projectors.names import group_name
from reconcile.diff import Difference
from reconcile.plan import Audited, aggregate_of
from reconcile.postgres import outbox_left, pending_outbox
from schemas.errors import Retryable
from schemas.settings import Settings
from schemas.topics import UPDATED, WORKING
from streams.kafka import committed_offsets, end_offsets
from streams.postgres import Connection

POLL_SECONDS = 0.1


class OutboxFence:
    """The fence in front of the log: the rows of the suspects are published. ``wait_seconds`` bounds the wait."""

    def __init__(self, connection: Connection, store: Audited, wait_seconds: float) -> None:
        self._connection = connection
        self._store = store
        self._wait_seconds = wait_seconds

    async def passed(self, suspects: Sequence[Difference]) -> None:
        """Return when what was on its way to the log at the call has arrived; raises ``Retryable`` when it does not."""
        store = self._store
        # An orphan of InfluxDB is looked for under its own event id; it has no row, and so nothing is waited for.
        aggregates = [
            (entry.tenant_id, aggregate_of(store, entry))
            for suspect in suspects
            for entry in (suspect.expected, suspect.observed)
            if entry is not None
        ]
        waiting = await pending_outbox(self._connection, "working" if store == "influx" else "memory", aggregates)
        until = time.monotonic() + self._wait_seconds
        while left := await outbox_left(self._connection, waiting) if waiting else 0:
            if time.monotonic() > until:
                raise Retryable(f"{left} changes are not published yet: is the relay running?")
            await asyncio.sleep(POLL_SECONDS)


class LogFence:
    """The fence of one generation; ``wait_seconds`` bounds each wait."""

    def __init__(
        self, settings: Settings, connection: Connection, generation: Generation, *, wait_seconds: float
    ) -> None:
        self._settings = settings
        self._generation = generation
        self._wait_seconds = wait_seconds
        self._outbox = OutboxFence(connection, generation.store, wait_seconds)

    async def passed(self, suspects: Sequence[Difference]) -> None:
        """Return when what was on its way to the store at the call has arrived; raises ``Retryable`` when it does not."""
        await self._outbox.passed(suspects)
        await self._projected()

    async def _projected(self) -> None:
        topic = (WORKING if self._generation.store == "influx" else UPDATED).named(self._settings.topic_prefix)
        group = group_name(self._settings.topic_prefix, self._generation)
        ends = {number: end for number, end in (await end_offsets(self._settings, topic)).items() if end > 0}
        until = time.monotonic() + self._wait_seconds
        while True:
            committed = await committed_offsets(self._settings, group, [topic])
            reached = {partition.partition: offset for partition, offset in committed.items()}
            behind = sum(max(0, end - reached.get(number, 0)) for number, end in ends.items())
            if not behind:
                return
            if time.monotonic() > until:
                raise Retryable(
                    f"the {self._generation.store} projector is {behind} records behind: wait for it, or start it"
                )
            await asyncio.sleep(POLL_SECONDS)
