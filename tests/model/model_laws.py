"""What must hold whenever nothing moves any more: every store is the fold of the unique log.

Each law takes the system and says in one sentence what is wrong.
"""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import msgspec
import numpy as np
from model_audit import Audit, audits, compared, expected
from model_damage import Drifted
from model_fold import Folded, Oracle, Records, folded
from model_system import CODEC, SETTINGS, System, User
from store_in_memory import Projecting
from tables_in_memory import Id
from truth_world import POLICY, World

from projectors.entries import Key
from projectors.projection import InfluxPoint, influx_point, milvus_row, neo4j_node
from schemas.memories import GONE, Edge, Memory, MemoryUpdated, MemoryVectors
from schemas.topics import PROPOSALS, UPDATED
from schemas.working import WorkingPayload
from streams.changes import BeforeMark
from streams.content_hash import content_hash
from streams.sealed_records import open_record


async def check(system: System, oracle: Oracle, drifted: Drifted) -> None:
    """Check every law; ``drifted`` names what was damaged on purpose and not repaired yet."""
    oracle.catch_up(system)
    positions_are_those_of_the_log(system)
    truth_is_what_the_unique_proposals_decide(system, oracle)
    history_has_no_gap(system)
    for unique in (True, False):
        found = await folded(system, unique=unique)
        truth_is_the_fold_of_the_changes(system, found)
    order_of_every_user_is_kept(system, found)
    nothing_forgotten_comes_back(found, oracle)
    the_log_shows_the_truth(system, drifted)
    for audit in audits(system):
        comparison = await compared(system, audit)
        wrong = [d for d in comparison.differences if (audit.name, audit.generation, d.key) not in drifted]
        assert not wrong, f"{audit.name} {audit.generation} differs from the truth: {wrong}"
        if audit.projecting is not None:
            _store_holds_what_follows(system, audit, audit.projecting, drifted)


def positions_are_those_of_the_log(system: System) -> None:
    tables = system.pool.tables
    for partition in range(SETTINGS.partitions):
        end = system.log.end(PROPOSALS.name, partition)
        _, last = tables.positions.get(("remember", partition), ("", -1))
        assert last == end - 1, f"partition {partition} ends at {end} and the position is {last}"
    reached: dict[User, int] = {}
    for proposal in system.proposed.values():
        if proposal is not None and proposal.envelope.origin is not None:
            user = (proposal.envelope.tenant_id, proposal.envelope.user_id)
            reached[user] = max(reached.get(user, -1), proposal.envelope.origin.offset)
    found = {user: offset for user, (_, offset) in tables.user_positions.items()}
    assert found == reached, "somebody would wait for ever for what was remembered"


def truth_is_what_the_unique_proposals_decide(system: System, oracle: Oracle) -> None:
    tables = system.pool.tables
    users = {name[:2] for name in tables.memories} | oracle.worlds.keys()
    for user in users:
        world = oracle.worlds.get(user, World())
        memories = {name: tables.memory((*user, name)) for name in tables.of_user("memories", user)}
        _same(memories, {m.memory_id: m for m in world.memories()}, f"memories of {user}")
        for table, kind in (("pending", "pending"), ("review", "review"), ("quarantine", "quarantine")):
            _same(tables.of_user(table, user), _of_kind(world.records, kind), f"{table} of {user}")
        vectors = {name: body.vectors for name, body in _of_kind(world.records, "vectors").items() if body.vectors}
        _same(tables.of_user("vectors", user), vectors, f"vectors of {user}")
        marks = {name: body.before_ms for name, body in _of_kind(world.records, "before").items()}
        _same(tables.of_user("marks", user), marks, f"marks of {user}")


def history_has_no_gap(system: System) -> None:
    tables = system.pool.tables
    versions: dict[Id, list[int]] = {}
    for name, version in tables.history:
        versions.setdefault(name, []).append(version)
    assert versions.keys() == tables.memories.keys()
    for name, found in versions.items():
        memory = tables.memory(name)
        assert sorted(found) == list(range(1, memory.version + 1)), f"the history of {name} has a gap"
        row = tables.history[name, memory.version]
        assert (row.status, row.content_hash) == (memory.status, memory.content_hash)
        assert row.record is None or row.record == memory, f"the last version of {name} is not the memory"
        assert memory.content_hash == content_hash(memory, POLICY.hash_key), f"{name} has the hash of something else"
        assert (memory.tenant_id, memory.user_id, memory.memory_id) == name
        shown = () if memory.status in GONE else memory.relations
        triples = {(r.subject_type, r.subject_id, r.predicate, r.object_type, r.object_id) for r in shown}
        assert tables.relations.get(name, frozenset()) == triples, f"{name} states other relations"


def truth_is_the_fold_of_the_changes(system: System, found: Folded) -> None:
    tables = system.pool.tables
    for user in {name[:2] for name in tables.memories} | found.records.keys():
        records = found.records.get(user, {})
        gone = {
            name for name in tables.of_user("keys", user)
            if system.keys.is_destroyed(*user, tables.keys[*user, name])
        }  # fmt: skip
        memories = {name: tables.memory((*user, name)) for name in tables.of_user("memories", user)}
        stored = {name: _shown(memory, name in gone) for name, memory in memories.items()}
        again = {name: _shown(body, name in gone) for name, body in _of_kind(records, "memory").items()}
        _same(stored, again, f"memories of {user} against the fold")
        for table in ("pending", "review", "quarantine"):
            rows = {name: row for name, row in tables.of_user(table, user).items() if name not in gone}
            _same(rows, _of_kind(records, table), f"{table} of {user} against the fold")
        bodies = _of_kind(records, "vectors").items()
        vectors = {name: b.vectors for name, b in bodies if isinstance(b, MemoryVectors) and b.vectors}
        rows = {name: row for name, row in tables.of_user("vectors", user).items() if name not in gone}
        _same(rows, vectors, f"vectors of {user} against the fold")
        marks = {name: b.before_ms for name, b in _of_kind(records, "before").items() if isinstance(b, BeforeMark)}
        _same(tables.of_user("marks", user), marks, f"marks of {user} against the fold")
        outcomes = {e.proposal_id: e.status for e in found.events.get(user, ()) if e.kind == "command"}
        stored_outcomes = {name: row.outcome for name, row in tables.of_user("outcomes", user).items()}
        _same(stored_outcomes, outcomes, f"outcomes of {user} against the fold")


def _shown(memory: Memory, erased: bool) -> Any:
    """Return what a fold can know of a memory; of one whose key is gone that is its version, status and hash."""
    return (memory.version, memory.status, memory.content_hash) if erased else memory


def order_of_every_user_is_kept(system: System, found: Folded) -> None:
    published = {user: tuple(event.event_id for event in events) for user, events in found.events.items()}
    assert published == system.pool.tables.committed, "the changes were published in another order, or not all of them"


def nothing_forgotten_comes_back(found: Folded, oracle: Oracle) -> None:
    """A turn received before somebody clicked "forget" makes nothing of what was forgotten, however late it arrives."""
    for user, events in found.events.items():
        received = {p.envelope.proposal_id: p.envelope for p in oracle.decided.get(user, ())}
        world, marks = oracle.worlds.get(user, World()), dict[str, int]()
        first = {(c.aggregate_id, c.version): c.body for c in world.log if isinstance(c.body, Memory)}
        for event in events:
            if event.kind == "before":
                marks[event.aggregate_id] = max(marks.get(event.aggregate_id, 0), event.version)
            made = first.get((event.aggregate_id, 1)) if event.kind == "memory" and event.version == 1 else None
            envelope = received.get(event.proposal_id)
            if made is not None and envelope is not None and envelope.kind == "candidates":
                before_ms = max(marks.get("", 0), marks.get(made.dedupe_key, 0))
                assert envelope.received_at_ms >= before_ms, f"{made.content} was forgotten and came back"


def the_log_shows_the_truth(system: System, drifted: Drifted) -> None:
    tables = system.pool.tables
    newest = {(key.decode(),): record for key, record in system.log.newest(UPDATED.name).items()}
    for name in tables.memories:
        key: Key = (name[2],)
        if ("log", 0, key) in drifted:
            continue
        assert key in newest, f"{name} was never published"
        update = CODEC.decode(newest[key].value, MemoryUpdated)
        assert _plain(update) == _plain(_update(system, name)), f"the log shows {name} as it is not"


def _update(system: System, name: Id) -> MemoryUpdated:
    found = system.pool.tables.snapshot(name)
    assert found is not None
    memory = found.memory
    gone = memory.status in GONE
    return MemoryUpdated(
        event_id="",
        memory_id=memory.memory_id,
        tenant_id=name[0],
        user_id=name[1],
        op="",
        status=memory.status,
        version=memory.version,
        content_hash=memory.content_hash,
        occurred_at_ms=found.occurred_at_ms,
        cause=found.proposal_id,
        memory=None if gone else memory,
        vectors=() if gone else found.vectors,
    )


def _store_holds_what_follows(system: System, audit: Audit, one: Projecting, drifted: Drifted) -> None:
    """Compare content, not fingerprints: each item with what the mapping makes of the truth."""
    tables, generation = system.pool.tables, one.generation
    items: Iterable[Any]
    match generation.store:
        case "milvus":
            items = [milvus_row(_update(system, n), generation.revision, generation.dimension) for n in tables.memories]
        case "neo4j":
            items = [neo4j_node(_update(system, name)) for name in tables.memories]
        case _:
            items = _points(system)
    wanted = {item.key if isinstance(item, InfluxPoint) else (item.memory_id,): _plain(item) for item in items}
    assert wanted.keys() == expected(tables, audit).keys()
    held = system.stores[generation.store].held(generation)
    for key, item in wanted.items():
        if (audit.name, audit.generation, key) in drifted:
            continue
        assert key in held, f"{generation.store} has nothing of {key}"
        shown = _plain(held[key])
        if isinstance(held[key], InfluxPoint) and not shown["masked_input"]:
            # A point that was projected after its key was destroyed has no text; one projected before keeps it.
            assert _key_of_point_is_destroyed(system, held[key]), f"influx lost the text of {key}"
            shown |= {name: item[name] for name in ("masked_input", "fields")}
        assert shown == item, f"{generation.store} shows {key} as it is not"
    assert not one.dead, "something could not be projected"
    for conflict in one.conflicts:
        place = (audit.name, audit.generation, tuple(conflict.aggregate_id.split(":")))
        assert place in drifted or audit.name == "influx", f"{conflict} without damage"


def _points(system: System) -> list[InfluxPoint]:
    points = []
    for event in system.pool.tables.working.values():
        assert event.body is not None
        held = system.keys._held[event.tenant_id, event.user_id, event.body.key_id]
        texts = system.texts[event.event_id]
        payload = WorkingPayload(masked_input=texts) if held is None else open_record(
            CODEC, event.body, held, WorkingPayload
        )  # fmt: skip
        points.append(influx_point(event, payload))
    return points


def _key_of_point_is_destroyed(system: System, point: InfluxPoint) -> bool:
    event = system.pool.tables.working[point.tenant_id, point.user_id, point.event_id]
    return event.body is not None and system.keys.is_destroyed(event.tenant_id, event.user_id, event.body.key_id)


def _plain(item: Any) -> dict[str, Any]:
    """Return the fields of an item in a form that can be compared; sets of edges have no order."""
    if isinstance(item, msgspec.Struct):
        return {**msgspec.structs.asdict(item), "event_id": "", "op": ""}
    plain: dict[str, Any] = {}
    for one in fields(item):
        value = getattr(item, one.name)
        if isinstance(value, np.ndarray):
            value = value.tobytes()
        elif isinstance(value, tuple) and value and isinstance(value[0], Edge):
            value = sorted(value)
        plain[one.name] = value
    return plain


def _of_kind(records: Records, kind: str) -> dict[str, Any]:
    return {name: body for (of, name), body in records.items() if of == kind}


def _same(found: dict[str, Any], wanted: dict[str, Any], what: str) -> None:
    if found == wanted:
        return
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    shown = "\n".join(f"  {found.get(name)}\n  {wanted.get(name)}" for name in names[:2])
    raise AssertionError(f"{what} differ at {names}:\n{shown}")
