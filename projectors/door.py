"""The port of a derived store: what its one door can do.

Implemented by ``milvus``, ``neo4j`` and ``influx`` and by the fakes of the tests; one behaviour suite runs on all. Called
by the projector, rebuild and reconcile. Errors: ``Retryable`` when the store is away, ``Rejected`` when it can never
hold an item.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Protocol, TypeVar

from projectors.entries import Entry, Generation, Key, Store

Item_contra = TypeVar("Item_contra", contravariant=True)


class Door(Protocol[Item_contra]):
    """The one door to a store.

    ``guarded`` is whether a projector reads fingerprints before it writes; where ``keeps_newer``, a write compares versions
    itself, and only what it kept needs to be read. ``buffered`` is whether written rows wait for a flush.
    """

    store: Store
    guarded: bool
    keeps_newer: bool
    buffered: bool

    async def healthy(self) -> None:
        """Return when the store answers; raises ``Retryable`` when it does not."""
        ...

    async def prepare(self, generation: Generation) -> None:
        """Create and load what the generation needs; safe to repeat."""
        ...

    async def guard_read(self, generation: Generation, keys: Sequence[Key]) -> dict[Key, Entry]:
        """Return version and hash stored for ``keys``, strongly consistent; in Neo4j without the digest of the edges."""
        ...

    async def fingerprints_of(
        self, generation: Generation, keys: Sequence[Key], *, deep: bool = False
    ) -> dict[Key, Entry]:
        """Return for ``keys`` what ``fingerprints`` would yield for them."""
        ...

    async def write(
        self, generation: Generation, items: Sequence[Item_contra], *, forced: bool = False
    ) -> Collection[Key]:
        """Write a batch, one item per key; ``forced`` writes whatever version is stored (a repair that was judged).

        Return the keys of which the store kept what it has, as ``keeps_newer`` says; other stores keep nothing.
        """
        ...

    async def flush(self, generation: Generation) -> None:
        """Make what was written fast to read."""
        ...

    def fingerprints(self, generation: Generation, *, deep: bool = False, page: int = 16_000) -> AsyncIterator[Entry]:
        """Yield every entry in rising key order, one page in memory; ``deep`` reads vectors back and digests them anew."""
        ...

    async def count(self, generation: Generation) -> int:
        """Return the number of entries."""
        ...

    async def drop(self, generation: Generation) -> None:
        """Remove everything of the generation, in batches; safe to repeat."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
