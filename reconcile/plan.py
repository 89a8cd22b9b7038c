"""The repair plan: from differences to outbox rows that say "publish the truth of this id again".

Called by ``repair``. A repair never deletes and never writes a store: the ordinary projector does, if the store still
shows exactly what was observed here. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from projectors.entries import Entry, Store
from projectors.guard import NOTHING_OBSERVED
from reconcile.diff import Difference
from schemas.errors import Rejected
from schemas.ids import is_memory_id
from schemas.memories import Repair

EVENT_TYPE = "repair"
LOG: Literal["log"] = "log"
Audited: TypeAlias = Store | Literal["log"]
"""What is compared with Postgres: a derived store, or the log itself (the newest record per memory)."""


@dataclass(frozen=True, slots=True)
class RepairRow:
    """One outbox row: which aggregate to publish again, for which store, and what was seen there.

    ``known`` is whether Postgres has the aggregate; without it a tombstone snapshot is published in its place.
    ``dedupe_key`` is unique among the rows still to be published. It names the generation, since a repair changes only the
    generation that its header names: the live one and one being built may need the same memory at the same time.
    """

    aggregate_id: str
    target: str
    tenant_id: str
    user_id: str
    version: int
    known: bool
    header: Repair
    dedupe_key: str


def rows_of(store: Audited, generation: int, differences: Sequence[Difference]) -> tuple[RepairRow, ...]:
    """Return one row per difference, in key order, so that row locks are always taken in the same order.

    An entry under something that is no memory's id, or of nobody, was not written by a projector and cannot be named in the log;
    it gets no row and stays a difference until a rebuild.
    """
    ordered = sorted(differences, key=lambda found: found.key)
    return tuple(
        _row(store, generation, found)
        for found in ordered
        if store == "influx" or (is_memory_id(str(found.key[0])) and _has_owner(found))
    )


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


def _has_owner(found: Difference) -> bool:
    return any(entry.tenant_id and entry.user_id for entry in (found.expected, found.observed) if entry)


def _row(store: Audited, generation: int, found: Difference) -> RepairRow:
    shown = found.observed.fingerprint if found.observed else None
    truth = found.expected or found.observed
    if truth is None:
        raise ValueError("a difference has at least one side")
    version = truth.fingerprint.version
    header = Repair(
        store=store,
        generation=generation,
        observed_version=shown.version if shown else NOTHING_OBSERVED,
        observed_hash=shown.content_hash if shown else "",
        observed_digest=shown.digest if shown else "",
        place="/".join(str(part) for part in truth.key[2:]) if store == "influx" and found.expected is None else "",
    )
    aggregate_id = aggregate_of(store, truth)
    return RepairRow(
        aggregate_id=aggregate_id,
        target="working" if store == "influx" else "memory",
        tenant_id=truth.tenant_id,
        user_id=truth.user_id,
        version=version,
        known=found.expected is not None,
        header=header,
        dedupe_key=f"{store}:g{generation}:{aggregate_id}:{version}:{EVENT_TYPE}:repair",
    )


def aggregate_of(store: Audited, entry: Entry) -> str:
    """Return the outbox's name of what ``entry`` is about: a memory's id, or the id of a session's event."""
    return entry.fingerprint.digest if store == "influx" else str(entry.key[0])
