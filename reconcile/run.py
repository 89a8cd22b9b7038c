"""One run of the reconciler: compare each store with Postgres, and repair what stays different.

Called by ``engram reconcile``, by rebuild (``compare``) and by tests. A shell: the laws are in ``diff`` and ``plan``.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from projectors.entries import Entry, Generation, Key, Store
from projectors.generations import generations, live_generation
from reconcile.audit import Comparison, compare_entries
from reconcile.diff import Difference
from reconcile.fence import LogFence, OutboxFence
from reconcile.plan import LOG, Audited, check_share
from reconcile.postgres import ROLE, truth_of, truth_of_log
from reconcile.published import PublishedEntries
from reconcile.repair import enqueue
from reconcile.report import EXAMPLES, Report, StoreReport, example_of
from schemas.codec import codec_of
from schemas.errors import Rejected
from schemas.settings import Settings
from streams.crash import crash_points
from streams.log_watch import check_whole
from streams.postgres import Connection, connected

WAIT_SECONDS = 60.0
Progress = Callable[[Audited, str, int], None]


class FingerprintDoor(Protocol):
    """What the comparison needs of a door to a store."""

    async def fingerprints_of(
        self, generation: Generation, keys: Sequence[Key], *, deep: bool = False
    ) -> Mapping[Key, Entry]:
        """Return what is stored for ``keys``, strongly consistent."""
        ...

    def fingerprints(self, generation: Generation, *, deep: bool = False, page: int = ...) -> AsyncIterator[Entry]:
        """Yield every entry in rising key order."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """How a run goes: ``deep`` reads vectors back, ``yes`` allows any number of repairs, ``tenant_id`` keeps one tenant's
    differences, ``wait_seconds`` bounds each wait between the two looks.
    """

    repair: bool = False
    deep: bool = False
    yes: bool = False
    tenant_id: str = ""
    wait_seconds: float = WAIT_SECONDS


def silent(_store: Audited, _what: str, _count: int) -> None:
    """Show no progress."""


class StoreEntries:
    """A store's generation as one side of the comparison; Neo4j's edges are always read, vectors only in deep mode."""

    def __init__(self, door: FingerprintDoor, generation: Generation, *, page_rows: int, deep: bool) -> None:
        self._door = door
        self._generation = generation
        self._page_rows = page_rows
        self._deep = deep or generation.store == "neo4j"

    async def pages(self) -> AsyncIterator[Sequence[Entry]]:
        """Yield every entry of the generation in key order."""
        page: list[Entry] = []
        async for entry in self._door.fingerprints(self._generation, deep=self._deep, page=self._page_rows):
            page.append(entry)
            if len(page) == self._page_rows:
                yield page
                page = []
        if page:
            yield page

    async def of_keys(self, keys: Sequence[Key]) -> Mapping[Key, Entry]:
        """Return the entries of these keys as they are now."""
        return await self._door.fingerprints_of(self._generation, keys, deep=self._deep)


@dataclass(frozen=True, slots=True)
class Run:
    """What every step of a run needs; ``connection`` is that of ``engram_reconcile``, in autocommit mode."""

    settings: Settings
    connection: Connection
    options: Options
    progress: Progress = silent

    async def compared(self, door: FingerprintDoor, generation: Generation) -> Comparison:
        """Take both looks at one generation."""
        shallow = await self._compared(door, generation, deep=False)
        if not self.options.deep or generation.store != "milvus":
            return shallow
        # A deep read computes the digest anew, so it cannot see that the stored one is wrong: both are looked at.
        deep = await self._compared(door, generation, deep=True)
        found = {difference.key: difference for difference in (*shallow.differences, *deep.differences)}
        return Comparison(deep.checked, max(shallow.suspects, deep.suspects), tuple(found.values()))

    async def _compared(self, door: FingerprintDoor, generation: Generation, *, deep: bool) -> Comparison:
        rows = self.settings.reconcile_page_rows
        return await compare_entries(
            truth_of(self.connection, generation, rows),
            StoreEntries(door, generation, page_rows=rows, deep=deep),
            LogFence(self.settings, self.connection, generation, wait_seconds=self.options.wait_seconds),
            lambda checked: self.progress(generation.store, "checked", checked),
        )

    async def report(self, door: FingerprintDoor, generation: Generation) -> StoreReport:
        """Compare one generation and, where the options say so, ask for repairs."""
        started = time.monotonic()
        return await self._reported(generation.store, generation.number, await self.compared(door, generation), started)

    async def report_log(self) -> StoreReport:
        """Compare the newest record of each memory in the log and, where the options say so, ask for new ones."""
        started = time.monotonic()
        rows = self.settings.reconcile_page_rows
        comparison = await compare_entries(
            truth_of_log(self.connection, rows),
            PublishedEntries(self.settings, codec_of(self.settings), rows),
            OutboxFence(self.connection, LOG, self.options.wait_seconds),
            lambda checked: self.progress(LOG, "checked", checked),
        )
        return await self._reported(LOG, 0, comparison, started)

    async def _reported(self, store: Audited, generation: int, comparison: Comparison, started: float) -> StoreReport:
        differences = tuple(found for found in comparison.differences if _concerns(found, self.options.tenant_id))
        enqueued = 0
        if self.options.repair:
            if not self.options.yes:
                check_share(len(differences), comparison.checked, self.settings.reconcile_repair_share)
            enqueued = await enqueue(
                self.settings,
                self.connection,
                store,
                generation,
                differences,
                crash=crash_points(self.settings),
                progress=lambda rows: self.progress(store, "repairs", rows),
            )
        kinds = Counter(found.kind for found in differences)
        return StoreReport(
            store=store,
            generation=generation,
            checked=comparison.checked,
            missing=kinds["missing"],
            stale=kinds["stale"],
            orphan=kinds["orphan"],
            suspects=comparison.suspects,
            repair_enqueued=enqueued,
            seconds=round(time.monotonic() - started, 3),
            examples=tuple(example_of(found) for found in differences[:EXAMPLES]),
        )


async def reconcile(
    settings: Settings,
    doors: Mapping[Store, FingerprintDoor],
    options: Options = Options(),
    *,
    generation: int | None = None,
    with_log: bool = False,
    progress: Progress = silent,
) -> Report:
    """Compare the live generation (or number ``generation``) of each store with Postgres; with ``options.repair`` ask for
    repairs. ``with_log`` compares the log first: what is wrong there would come back into every store.

    Raises ``Rejected`` (``too_many_repairs``, ``no_generation``), ``Retryable`` (a server or projector is away).
    """
    reports = []
    async with _truth(settings) as connection:
        run = Run(settings, connection, options, progress)
        if with_log:
            reports.append(await run.report_log())
        for store, door in doors.items():
            found = await _generation(connection, store, generation)
            reports.append(await run.report(door, found))
    return Report(deep=options.deep, stores=tuple(reports))


async def compare(
    settings: Settings, door: FingerprintDoor, generation: Generation, options: Options = Options()
) -> StoreReport:
    """Compare one generation with Postgres, whatever its state; nothing is repaired unless the options say so."""
    async with _truth(settings) as connection:
        return await Run(settings, connection, options).report(door, generation)


async def _generation(connection: Connection, store: Store, number: int | None) -> Generation:
    if number is None:
        return await live_generation(connection, store)
    for found in await generations(connection, store):
        if found.number == number and found.state != "dropped":
            return found
    raise Rejected(f"{store} has no generation {number}", code="no_generation")


@asynccontextmanager
async def _truth(settings: Settings) -> AsyncIterator[Connection]:
    async with connected(settings, ROLE) as connection:
        await check_whole(connection)
        yield connection


def _concerns(found: Difference, tenant_id: str) -> bool:
    return not tenant_id or tenant_id in {entry.tenant_id for entry in (found.expected, found.observed) if entry}
