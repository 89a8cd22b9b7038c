"""Watches the projectors of one store: a partition without progress, and the conflicts that are open.

Run beside the projectors. It asks for the whole group of each generation, since a projector is scaled by processes and none knows
its partitions from outside: where one of several stands still, all of that store start again, which deals the partitions anew.
"""

import asyncio
from collections.abc import Mapping

from infra.conflicts import conflict_counts
from infra.watched import WatchedGroups
from infra.worker_process import Here
from projectors.entries import Generation, Store
from projectors.generations import ROLE, generations
from projectors.names import group_name
from schemas.errors import Broken, EngramError
from schemas.settings import Settings
from streams.postgres import connected
from streams.watchdog import EVERY_SECONDS, Progress, Watched, look


async def watch_projectors(
    here: Here, store: Store, topic: str, *, patience_seconds: float, every_seconds: float = EVERY_SECONDS
) -> None:
    """Watch until cancelled; raises ``Broken`` with the generation and its partitions that made no progress.

    While the heartbeat says ``waiting``, the store is away and standing still is on purpose. A Kafka or Postgres that does not
    answer is no stall either: the next look tries again.
    """
    groups = WatchedGroups(here.metrics)
    conflicts: Mapping[str, int] = {}
    here.metrics.show(
        "engram_conflicts_open", "Conflicts not settled.", ("store",), lambda: {(store,): conflicts.get(store, 0)}
    )
    progress: dict[int, Progress] = {}
    while True:
        await asyncio.sleep(every_seconds)
        if here.heartbeat.state == "waiting":
            progress.clear()
            continue
        try:
            conflicts = await conflict_counts(here.settings)
            looks = await _looks(here.settings, store, topic, progress, patience_seconds)
        except EngramError:
            continue
        for generation, found in looks:
            groups.teller(group_name(here.settings.topic_prefix, generation), topic)(found)
            if found.stalled:
                raise Broken(
                    f"generation {generation.number} of {store} made no progress for {patience_seconds:.0f} s in partitions "
                    f"{', '.join(map(str, found.stalled))} of {topic}"
                )


async def _looks(
    settings: Settings, store: Store, topic: str, progress: dict[int, Progress], patience_seconds: float
) -> list[tuple[Generation, Watched]]:
    """Look at the group of every generation that exists."""
    looks = []
    for generation in await _existing(settings, store):
        own = progress.setdefault(generation.number, Progress(patience_seconds=patience_seconds))
        group = group_name(settings.topic_prefix, generation)
        looks.append((generation, await look(settings, group, topic, tuple(range(settings.partitions)), own)))
    return looks


async def _existing(settings: Settings, store: Store) -> tuple[Generation, ...]:
    async with connected(settings, ROLE) as connection:
        return tuple(one for one in await generations(connection, store) if one.state != "dropped")
