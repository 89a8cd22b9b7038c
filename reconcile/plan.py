"""The repair plan: from differences to outbox rows that say "publish the truth of this id again".

Called by ``repair``. A repair never deletes and never writes a store: the ordinary projector does, if the store still
shows exactly what was observed here. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reconcile.diff import Difference, Key
from schemas.errors import Rejected
from schemas.memories import Repair

NOTHING = -1
EVENT_TYPE = "repair"


@dataclass(frozen=True, slots=True)
class RepairRow:
    """One outbox row: which aggregate to publish again, for which store, and what was seen there.

    ``known`` is whether Postgres has the aggregate; without it a tombstone snapshot is published in its place.
    """

    key: Key
    tenant_id: str
    user_id: str
    version: int
    known: bool
    header: Repair
    dedupe_key: str


def rows_of(store: str, generation: int, differences: Sequence[Difference]) -> tuple[RepairRow, ...]:
    """Return one row per difference, in key order, so that row locks are always taken in the same order."""
    return tuple(_row(store, generation, found) for found in sorted(differences, key=lambda found: found.key))


def check_share(differences: int, checked: int, limit_share: float) -> None:
    """Raise ``Rejected`` (``too_many_repairs``) when more than ``limit_share`` (0 to 1) of the entries would be repaired.

    A store that lost most of its entries is better rebuilt, and a wrong address looks exactly like one. Up to ten
    differences are always allowed, or a small store could never be repaired.
    """
    if differences > max(10, checked * limit_share):
        raise Rejected(
            f"{differences} of {checked} entries would be repaired, more than the share of {limit_share:.0%} allowed: "
            "rebuild the store, or say yes to go on",
            code="too_many_repairs",
        )


def _row(store: str, generation: int, found: Difference) -> RepairRow:
    shown = found.observed
    truth = found.expected or found.observed
    if truth is None:
        raise ValueError("a difference has at least one side")
    header = Repair(
        store=store,
        generation=generation,
        observed_version=shown.version if shown else NOTHING,
        observed_hash=shown.content_hash if shown else "",
        observed_digest=shown.digest if shown else "",
    )
    return RepairRow(
        key=found.key,
        tenant_id=truth.tenant_id,
        user_id=truth.user_id,
        version=truth.version,
        known=found.expected is not None,
        header=header,
        dedupe_key=f"{store}:{':'.join(str(part) for part in found.key)}:{truth.version}:{EVENT_TYPE}:repair",
    )
