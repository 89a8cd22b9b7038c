"""One batch on its way into a store: what is written, what is not, and what contradicts.

Called by the projector with what the guard read. Pure: it folds the batch in order, so that two events of one memory in a
batch are judged one after the other and written once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from projectors.entries import Entry, Fingerprint, Generation, Key
from projectors.guard import Verdict, judge, names
from schemas.errors import Rejected
from schemas.memories import Repair

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Change(Generic[Item]):
    """One event as one store sees it: its key, whose it is, its fingerprint, what would be written, the repair header.

    ``problem`` is set when a part of the event cannot be read; what can is written, and the event is a dead letter as well.
    """

    key: Key
    tenant_id: str
    user_id: str
    fingerprint: Fingerprint
    item: Item
    repair: Repair | None = None
    problem: Rejected | None = None


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """An event that was refused: the store shows other content under the same version, or the key is another user's."""

    store: str
    generation: int
    tenant_id: str
    user_id: str
    aggregate_id: str
    version: int
    event_hash: str
    stored_version: int
    stored_hash: str


@dataclass(slots=True)
class Plan(Generic[Item]):
    """What follows from a batch: one item per key; ``forced`` items are written whatever version is stored."""

    items: dict[Key, Item] = field(default_factory=dict)
    forced: dict[Key, Item] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    verdicts: Counter[str] = field(default_factory=Counter)


def addressed(repair: Repair | None, generation: Generation) -> bool:
    """Return whether a repair is for this store and generation."""
    return repair is not None and (repair.store, repair.generation) == (generation.store, generation.number)


def plan_guarded(
    changes: Iterable[Change[Item]], generation: Generation, stored: Mapping[Key, Entry], seen: Mapping[Key, Entry]
) -> Plan[Item]:
    """Judge ``changes`` in order against what is ``stored``; ``seen`` is a deep read of the keys that have repairs.

    A repair may name what a shallow or what a deep look observed, since the reconciler takes either.
    """
    plan: Plan[Item] = Plan()
    current: dict[Key, Fingerprint] = {}
    for change in changes:
        entry = stored.get(change.key)
        known = current.get(change.key) or (entry.fingerprint if entry is not None else None)
        if change.key not in current and change.repair is not None:
            deep = seen[change.key].fingerprint if change.key in seen else None
            if names(change.repair, generation.store, generation.number, deep):
                known = deep
        verdict = judge(change.fingerprint, known, change.repair, generation.store, generation.number)
        repaired = change.repair is not None and names(change.repair, generation.store, generation.number, known)
        if entry is not None and (entry.tenant_id, entry.user_id) != (change.tenant_id, change.user_id):
            # Under another user's name even the same fingerprint is wrong; only a repair that names it may replace it.
            verdict = Verdict.APPLY if repaired else Verdict.CONFLICT
        plan.verdicts[verdict.value] += 1
        if verdict is Verdict.CONFLICT:
            plan.conflicts.append(_conflict(change, generation, known))
        if verdict not in (Verdict.APPLY, Verdict.VECTOR_ONLY):
            continue
        current[change.key] = change.fingerprint
        if repaired or change.key in plan.forced:
            plan.forced[change.key] = change.item
            plan.items.pop(change.key, None)
        else:
            plan.items[change.key] = change.item
    return plan


def plan_unguarded(changes: Iterable[Change[Item]], generation: Generation) -> Plan[Item]:
    """Write every change: where events never change, a replay overwrites a point with itself."""
    plan: Plan[Item] = Plan()
    for change in changes:
        plan.verdicts[Verdict.APPLY.value] += 1
        forced = change.key in plan.forced or addressed(change.repair, generation)
        (plan.forced if forced else plan.items)[change.key] = change.item
        if forced:
            plan.items.pop(change.key, None)
    return plan


def _conflict(change: Change[Item], generation: Generation, known: Fingerprint | None) -> Conflict:
    return Conflict(
        store=generation.store,
        generation=generation.number,
        tenant_id=change.tenant_id,
        user_id=change.user_id,
        aggregate_id=":".join(str(part) for part in change.key),
        version=change.fingerprint.version,
        event_hash=change.fingerprint.content_hash,
        stored_version=known.version if known is not None else 0,
        stored_hash=known.content_hash if known is not None else "",
    )
