"""The generations of the projections: which exist, which is live, and the switch between them.

Owns the table ``projections`` and ``projection_conflicts``. Called by the workers, by rebuild, and by every reader of a
store (``live_generation``), which stays on the generation it was given for the whole of a request.
"""

from pathlib import Path
from typing import Any

import msgspec
from psycopg.types.json import Jsonb

from projectors.batch import Conflict
from projectors.entries import Generation, Store
from schemas.errors import Rejected
from streams.postgres import Connection, sql, translated

ROLE = "engram_projector"
_FOLDER = Path(__file__).parent / "sql"


class Detail(msgspec.Struct, frozen=True):
    """What stands in the column ``detail``: the vectors that a generation of Milvus holds."""

    revision: str = ""
    dimension: int = 0


async def generations(connection: Connection, store: Store) -> tuple[Generation, ...]:
    """Return every generation of ``store``, dropped ones included, oldest first."""
    return tuple(_generation(store, row) for row in await _rows(connection, "generations", name=store))


async def live_generation(connection: Connection, store: Store) -> Generation:
    """Return the generation that readers use; raises ``Rejected`` (``no_generation``) before the first worker has started."""
    rows = await _rows(connection, "generation_live", name=store)
    if not rows:
        raise Rejected(f"{store} has no live generation yet: its worker has not started", code="no_generation")
    return _generation(store, rows[0])


async def ensure_first(connection: Connection, store: Store, detail: Detail, now_ms: int, *, number: int = 1) -> None:
    """Create generation ``number`` as live where there is none at all; safe when several workers do it at once."""
    await _execute(connection, "generation_first", name=store, generation=number, now_ms=now_ms, detail=_json(detail))


async def begin_building(connection: Connection, store: Store, detail: Detail, now_ms: int) -> Generation:
    """Return the generation being built, begun now or by a run before; raises ``Rejected`` (``no_generation``)."""
    await _execute(connection, "generation_building", name=store, now_ms=now_ms, detail=_json(detail))
    for generation in await generations(connection, store):
        if generation.state == "building":
            return generation
    raise Rejected(f"{store} has no generation yet: start its worker first", code="no_generation")


async def switch(connection: Connection, generation: Generation, now_ms: int) -> bool:
    """Make the building ``generation`` live and let the live one drain, in one transaction; return whether it was done."""
    names = {"name": generation.store, "generation": generation.number, "now_ms": now_ms}
    with translated():
        async with connection.transaction():
            await connection.execute(sql("generation_leave", _FOLDER), names)
            cursor = await connection.execute(sql("generation_enter", _FOLDER), names)
            return cursor.rowcount == 1


async def mark_dropped(connection: Connection, generation: Generation, now_ms: int) -> None:
    """Mark a building or draining generation dropped, so that its projector ends."""
    await _execute(connection, "generation_drop", name=generation.store, generation=generation.number, now_ms=now_ms)


async def record_conflict(connection: Connection, conflict: Conflict, now_ms: int) -> None:
    """Keep a conflict for operators; a redelivery of the same event raises its count."""
    await _execute(connection, "conflict_record", **msgspec.structs.asdict(conflict), now_ms=now_ms)


async def _rows(connection: Connection, statement: str, /, **arguments: Any) -> list[tuple[Any, ...]]:
    with translated():
        return await (await connection.execute(sql(statement, _FOLDER), arguments)).fetchall()


async def _execute(connection: Connection, statement: str, /, **arguments: Any) -> None:
    with translated():
        async with connection.transaction():
            await connection.execute(sql(statement, _FOLDER), arguments)


def _json(detail: Detail) -> Jsonb:
    return Jsonb(msgspec.to_builtins(detail))


def _generation(store: Store, row: tuple[Any, ...]) -> Generation:
    number, state, detail, changed_at_ms = row
    found = msgspec.convert(detail, Detail)
    return Generation(store, number, state, found.revision, found.dimension, changed_at_ms)
