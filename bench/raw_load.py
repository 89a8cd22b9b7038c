"""Gives a store's raw client what a projector wrote: one door for the three raw clients.

Called by the groups ``projectors`` and ``rebuild``.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count

from bench import raw_influx, raw_milvus, raw_neo4j
from bench.recorded import Step
from projectors.door import Door
from projectors.entries import Generation, Store
from projectors.names import collection_name, database_name, graph_mark
from schemas.settings import Settings
from streams.embedding import UseEmbedder

_LOADS: dict[Store, tuple[Callable[[Settings, str, Sequence[Step]], float], Callable[[str, Generation], str]]] = {
    "milvus": (raw_milvus.load, collection_name),
    "neo4j": (raw_neo4j.load, graph_mark),
    "influx": (raw_influx.load, database_name),
}
# Numbers that no projection of a fresh area reaches.
_NUMBERS = count(9_000)


async def raw_seconds(settings: Settings, door: Door[object], steps: Sequence[Step]) -> float:
    """Return the seconds of the raw client for the steps into an empty generation of its own, which is dropped again.

    The door makes and drops the empty generation, outside the measured time.
    """
    generation = unused(door.store)
    await door.prepare(generation)
    try:
        return await load(settings, generation, steps)
    finally:
        await door.drop(generation)


def unused(store: Store) -> Generation:
    """Return a generation that nothing projects."""
    revision, dimension = (UseEmbedder.revision, UseEmbedder.dimension) if store == "milvus" else ("", 0)
    return Generation(store, next(_NUMBERS), "building", revision, dimension)


async def load(settings: Settings, generation: Generation, steps: Sequence[Step]) -> float:
    """Return the seconds of the raw client for the steps into ``generation``, which the door has prepared."""
    call, name_of = _LOADS[generation.store]
    return await asyncio.to_thread(call, settings, name_of(settings.topic_prefix, generation), steps)


def rows_of(steps: Sequence[Step]) -> int:
    """Return the number of rows in the steps."""
    return sum(len(step) for step in steps if step is not None)
