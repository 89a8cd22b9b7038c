"""The one fold: a record and a change give the next record.

Called by the writer of Postgres for every memory it stores, and by tests that fold the log again; the projections are rebuilt
from snapshots and need no fold. Pure. It never decides: what a change says is what holds. Order is checked, so a lost change
cannot pass unseen.
"""

from schemas.errors import Broken
from schemas.memories import Memory
from streams.changes import BeforeMark, Body, Change


def evolve(record: Body | None, change: Change) -> Body | None:
    """Return the record after ``change``; ``record`` is ``None`` when there was none.

    A memory whose content is gone (erased, or its key was destroyed) keeps id, version, status and hash; any other record
    without content is no more (``None``). A change of a version that is known already was delivered twice and changes nothing.
    Raises ``Broken`` when a memory's versions have a gap or the change is about another record.
    """
    match change.kind:
        case "memory":
            return evolve_memory(record, change)
        case "before":
            known = record.before_ms if isinstance(record, BeforeMark) else 0
            return BeforeMark(change.aggregate_id, max(known, change.version))
        case _:
            return change.body


def evolve_memory(record: Body | None, change: Change) -> Memory:
    """Return the memory after a change of it; raises ``Broken`` as ``evolve`` does."""
    if record is not None and not isinstance(record, Memory):
        raise Broken(f"a change of memory {change.aggregate_id} meets a record of another kind")
    known = 0 if record is None else record.version
    if record is not None and change.version <= known:
        return record
    if change.version != known + 1:
        raise Broken(f"memory {change.aggregate_id} has version {known} and meets version {change.version}")
    if change.body is None:
        return _emptied(change)
    if not isinstance(change.body, Memory) or change.body.memory_id != change.aggregate_id:
        raise Broken(f"the body of a change of memory {change.aggregate_id} is not that memory")
    return change.body


def _emptied(change: Change) -> Memory:
    """Return the memory that is left when its content is gone: identity, version, status and hash, nothing else."""
    return Memory(
        memory_id=change.aggregate_id,
        tenant_id=change.tenant_id,
        user_id=change.user_id,
        subject="",
        category="",
        type="",
        entity_type="",
        entity_id="",
        attribute="",
        dedupe_key="",
        value="null",
        content="",
        language="",
        importance=0.0,
        confidence=0.0,
        source="",
        status=change.status,
        version=change.version,
        body_version=1,
        content_hash=change.content_hash,
        stated_at_ms=change.occurred_at_ms,
        created_at_ms=change.occurred_at_ms,
        updated_at_ms=change.occurred_at_ms,
    )
