"""Damage done to stores and to the log on purpose: what no process does, and the reconciler must find."""

import dataclasses
from typing import Any

import numpy as np
from model_audit import audits, expected
from model_system import DIMENSION, System

from projectors.entries import Key
from projectors.projection import GraphNode, InfluxPoint, MilvusRow
from reconcile.plan import LOG
from schemas.ids import derived_id
from schemas.memories import Edge
from schemas.topics import UPDATED

OTHER_HASH = "f" * 64
Place = tuple[str, int, Key]
"""What was damaged: store or log, generation, key."""
Drifted = set[Place]


def damage(system: System, kind: str, number: int, damaged: Drifted) -> Place | None:
    """Do one kind of damage at a place that has none; return the place, or ``None`` where there is nothing to damage so."""
    if kind == "lost_record":
        return _lose_record(system, number, damaged)
    places = [audit for audit in audits(system) if audit.name != LOG]
    audit = places[number % len(places)]
    assert audit.projecting is not None
    generation = audit.projecting.generation
    held = system.stores[generation.store].held(generation)
    known = expected(system.pool.tables, audit)
    keys = sorted(
        key
        for key, item in held.items()
        if key in known and _suits(kind, item) and (audit.name, audit.generation, key) not in damaged
    )
    if not keys:
        return None
    key = keys[number % len(keys)]
    if kind == "missing":
        del held[key]
        return audit.name, audit.generation, key
    # Nobody's entry has a name that was never used: a repair leaves the name to its tombstone.
    name = derived_id("nobody", str(system.pool.tables.next_number("damage")))
    wrong = _damaged(kind, held[key], number, name)
    held[_key(wrong)] = wrong
    return audit.name, audit.generation, _key(wrong)


def _key(item: MilvusRow | GraphNode | InfluxPoint) -> Key:
    return item.key if isinstance(item, InfluxPoint) else (item.memory_id,)


def _suits(kind: str, item: Any) -> bool:
    match kind:
        case "missing":
            return True
        case "orphan" | "other_hash":
            return True
        case "edge":
            return isinstance(item, GraphNode) and not item.tombstone
        case "vector":
            return isinstance(item, MilvusRow) and not item.tombstone
        case "shown":
            return isinstance(item, GraphNode | MilvusRow) and item.tombstone
    return not isinstance(item, InfluxPoint)


def _damaged(kind: str, item: Any, number: int, unknown: str) -> Any:
    if kind in ("edge", "vector", "shown"):
        return _with_other_content(kind, item, number)
    return _with_other_name(kind, item, unknown)


def _with_other_name(kind: str, item: Any, unknown: str) -> Any:
    """Return ``item`` as if it were of another version, of another user, or of nobody."""
    if kind == "orphan":
        if isinstance(item, InfluxPoint):
            return dataclasses.replace(
                item, event_id=unknown, sequence=item.sequence + 500_000, time_ns=item.time_ns + 500_000
            )
        return dataclasses.replace(item, memory_id=unknown, tombstone=False)
    if isinstance(item, InfluxPoint):
        return dataclasses.replace(item, content_hash=OTHER_HASH)
    if kind == "other_user":
        return dataclasses.replace(item, user_id="mallory")
    shown = item.fingerprint
    others = {"older": {"version": shown.version - 1}, "newer": {"version": shown.version + 5}}
    wrong = shown._replace(**others.get(kind, {"content_hash": OTHER_HASH}))
    return dataclasses.replace(item, fingerprint=wrong)


def _with_other_content(kind: str, item: Any, number: int) -> Any:
    shown = item.fingerprint
    match kind:
        case "edge":
            wrong = Edge(kind="CAUSES", target_kind="memory", target_id=derived_id("wrong", str(number)))
            return dataclasses.replace(
                item, edges=item.edges[1:] if number % 2 and item.edges else (*item.edges, wrong)
            )
        case "vector":
            wrong_vector = np.full(DIMENSION, 0.5, "<f4")
            digest = "0" * 32
            return dataclasses.replace(item, vector=wrong_vector, fingerprint=shown._replace(digest=digest))
        case "shown":
            return dataclasses.replace(item, tombstone=False, fingerprint=shown._replace(digest=_digest_of(item)))
    raise AssertionError(f"there is no damage {kind}")


def _digest_of(item: MilvusRow | GraphNode) -> str:
    return "1" * 32 if isinstance(item, MilvusRow) else ""


def _lose_record(system: System, number: int, damaged: Drifted) -> Place | None:
    newest = system.log.newest(UPDATED.name)
    known = {name[2].encode() for name in system.pool.tables.memories}
    keys = sorted(key for key in newest if key in known and (LOG, 0, (key.decode(),)) not in damaged)
    if not keys:
        return None
    key = keys[number % len(keys)]
    for record in system.log.every(UPDATED.name):
        if record.key == key:
            system.log.lose(record)
    return LOG, 0, (key.decode(),)
