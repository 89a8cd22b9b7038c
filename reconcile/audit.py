"""The two looks: compare truth and store in key order, wait until what was on its way has arrived, look again.

A shell: it orders the steps and talks to the two sides and the fence it declares here. Called by ``reconcile.run`` and by
rebuild. Never repairs.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from projectors.entries import Entry, Key
from reconcile.diff import Difference, KeyOrderMerge, Side, unchanged
from schemas.errors import Rejected

SUSPECTS_LIMIT = 100_000
SECOND_LOOK_KEYS = 1_000


class Entries(Protocol):
    """One side of the comparison."""

    def pages(self) -> AsyncIterator[Sequence[Entry]]:
        """Yield every entry, in rising key order, page by page."""
        ...

    async def of_keys(self, keys: Sequence[Key]) -> Mapping[Key, Entry]:
        """Return the entries of these keys as they are now; unknown keys are left out."""
        ...


class Fence(Protocol):
    """What stands between truth and store: the outbox, the log and the projector's position."""

    async def passed(self, suspects: Sequence[Difference]) -> None:
        """Return when everything about these keys that was on its way at the call has arrived in the store.

        Raises ``Retryable`` when that takes too long: a projector that stands still must not look like drift.
        """
        ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two looks found: entries checked, suspects of the first look, and the differences that stayed."""

    checked: int
    suspects: int
    differences: tuple[Difference, ...]


async def compare_entries(
    truth: Entries, store: Entries, fence: Fence, progress: Callable[[int], None] = lambda _checked: None
) -> Comparison:
    """Compare both sides; ``progress`` is told how many entries were checked so far.

    Holds one page of each side and the suspects. Raises ``Rejected`` (``too_different``) above 100,000 suspects.
    """
    checked, suspects = await _first_look(truth, store, progress)
    if not suspects:
        return Comparison(checked, 0, ())
    await fence.passed(suspects)
    differences: list[Difference] = []
    for start in range(0, len(suspects), SECOND_LOOK_KEYS):
        batch = suspects[start : start + SECOND_LOOK_KEYS]
        keys = [suspect.key for suspect in batch]
        # Truth last: what is committed between the two reads shows as a change of the truth, never as drift.
        observed = await store.of_keys(keys)
        expected = await truth.of_keys(keys)
        differences += unchanged(batch, expected, observed)
    return Comparison(checked, len(suspects), tuple(differences))


async def _first_look(
    truth: Entries, store: Entries, progress: Callable[[int], None]
) -> tuple[int, tuple[Difference, ...]]:
    merge = KeyOrderMerge()
    pages: dict[Side, AsyncIterator[Sequence[Entry]]] = {"truth": truth.pages(), "store": store.pages()}
    suspects: list[Difference] = []
    while (side := merge.wants) is not None:
        page = await anext(pages[side], None)
        if page is None:
            merge.end(side)
        else:
            merge.push(side, page)
        suspects += merge.drain()
        if len(suspects) > SUSPECTS_LIMIT:
            raise Rejected(
                f"more than {SUSPECTS_LIMIT} entries differ: rebuild the store instead of repairing it",
                code="too_different",
            )
        progress(merge.checked)
    return merge.checked, tuple(suspects)
