"""The comparison: two key-ordered streams of entries, merged into differences.

Owns what missing, stale and orphan mean. Called by ``audit``, which feeds it pages from Postgres and from one store; it
holds at most one page of each. Never does I/O, and never says what to do about a difference.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from projectors.entries import Entry, Key
from schemas.errors import Broken

Side = Literal["truth", "store"]
Kind = Literal["missing", "stale", "orphan"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One key on which the sides disagree: ``expected`` is what follows from Postgres, ``observed`` what the store has."""

    kind: Kind
    key: Key
    expected: Entry | None
    observed: Entry | None


def difference(expected: Entry | None, observed: Entry | None) -> Difference | None:
    """Return how the two disagree, or ``None`` when they agree.

    A tombstone for a key that Postgres does not know agrees: it shows nothing. At least one side must be given.
    """
    if observed is None:
        if expected is None:
            return None
        return Difference("missing", expected.key, expected, None)
    if expected is None:
        return Difference("orphan", observed.key, None, observed) if observed.content else None
    if expected == observed:
        return None
    if observed.content and not expected.content:
        return Difference("orphan", expected.key, expected, observed)
    return Difference("stale", expected.key, expected, observed)


class KeyOrderMerge:
    """Merges pages of both sides, each in rising key order: push a page where ``wants`` says, then drain.

    ``checked`` counts the keys compared so far.
    """

    def __init__(self) -> None:
        self.checked = 0
        self._waiting: dict[Side, deque[Entry]] = {"truth": deque(), "store": deque()}
        self._ended: dict[Side, bool] = {"truth": False, "store": False}
        self._last: dict[Side, Key | None] = {"truth": None, "store": None}

    @property
    def wants(self) -> Side | None:
        """Return the side whose next page is needed, or ``None`` when both have ended."""
        for side, waiting in self._waiting.items():
            if not waiting and not self._ended[side]:
                return side
        return None

    def push(self, side: Side, page: Sequence[Entry]) -> None:
        """Add the next page of ``side``; raises ``Broken`` when keys do not rise, since the merge would then lie."""
        last = self._last[side]
        for entry in page:
            if last is not None and entry.key <= last:
                raise Broken(f"the {side} side is not in key order: {entry.key} follows {last}")
            last = entry.key
        self._last[side] = last
        self._waiting[side].extend(page)

    def end(self, side: Side) -> None:
        """Say that ``side`` has no further page."""
        self._ended[side] = True

    def drain(self) -> Iterator[Difference]:
        """Yield the differences that the pages so far decide."""
        truth, store = self._waiting["truth"], self._waiting["store"]
        while (truth or self._ended["truth"]) and (store or self._ended["store"]) and (truth or store):
            key = min(waiting[0].key for waiting in (truth, store) if waiting)
            expected = truth.popleft() if truth and truth[0].key == key else None
            observed = store.popleft() if store and store[0].key == key else None
            self.checked += 1
            found = difference(expected, observed)
            if found is not None:
                yield found


def unchanged(
    suspects: Sequence[Difference], expected: Mapping[Key, Entry], observed: Mapping[Key, Entry]
) -> tuple[Difference, ...]:
    """Return the suspects that a second look at both sides shows exactly as before; anything that moved is not drift."""
    return tuple(
        suspect for suspect in suspects if difference(expected.get(suspect.key), observed.get(suspect.key)) == suspect
    )
