"""The one guard of every derived store: may this event be written over what the store has?

Called by the projector for each event. Pure; the table below is the whole decision.
"""

from enum import Enum

from projectors.entries import Fingerprint
from schemas.memories import Repair

NOTHING_OBSERVED = -1


class Verdict(Enum):
    """What happens to an event: ``APPLY`` and ``VECTOR_ONLY`` write, the others do not; ``CONFLICT`` is also recorded."""

    APPLY = "apply"
    VECTOR_ONLY = "vector_only"
    NOTHING = "nothing"
    OLDER = "older"
    CONFLICT = "conflict"


TABLE: dict[str, Verdict] = {
    "a repair, and the store still shows exactly what it names": Verdict.APPLY,
    "nothing is stored": Verdict.APPLY,
    "newer version": Verdict.APPLY,
    "older version": Verdict.OLDER,
    "same version, other hash": Verdict.CONFLICT,
    "same version, same hash, other vector": Verdict.VECTOR_ONLY,
    "same version, same hash, same vector": Verdict.NOTHING,
}


def judge(
    event: Fingerprint,
    stored: Fingerprint | None,
    repair: Repair | None = None,
    store: str = "",
    generation: int = 0,
) -> Verdict:
    """Return what to do with ``event`` where ``stored`` is what ``store`` has in ``generation`` (``None``: nothing)."""
    if repair is not None and names(repair, store, generation, stored):
        return TABLE["a repair, and the store still shows exactly what it names"]
    return TABLE[_relation(event, stored)]


def names(repair: Repair, store: str, generation: int, stored: Fingerprint | None) -> bool:
    """Return whether ``repair`` is for this store and generation and names exactly what is stored there."""
    if (repair.store, repair.generation) != (store, generation):
        return False
    if stored is None:
        return repair.observed_version == NOTHING_OBSERVED
    observed = (repair.observed_version, repair.observed_hash, repair.observed_digest)
    return observed == (stored.version, stored.content_hash, stored.digest)


def _relation(event: Fingerprint, stored: Fingerprint | None) -> str:
    if stored is None:
        return "nothing is stored"
    if event.version != stored.version:
        return "newer version" if event.version > stored.version else "older version"
    if event.content_hash != stored.content_hash:
        return "same version, other hash"
    # An event without a vector of this revision has nothing to say about the vector that is stored.
    if event.digest and (event.revision, event.digest) != (stored.revision, stored.digest):
        return "same version, same hash, other vector"
    return "same version, same hash, same vector"
