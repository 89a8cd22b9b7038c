"""Thousands of injected differences of every kind: all are found, nothing else is, and one pass repairs them, twice."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pytest
from populated import DIMENSION, REVISION, admin
from running_stores import Running, running_stores

from projectors.entries import STORES, Store
from projectors.names import collection_name, graph_mark, group_name
from projectors.projection import influx_point, milvus_row
from schemas.memories import GONE, MemoryUpdated
from schemas.settings import Settings
from schemas.topics import UPDATED, WORKING
from streams.kafka import committed_offsets, end_offsets

pytestmark = [pytest.mark.chaos, pytest.mark.stack, pytest.mark.timeout(900)]
COUNT = 4_000
EACH = 120


@dataclass(frozen=True, slots=True)
class Expected:
    """How many differences of each kind were made in one store."""

    missing: int
    stale: int
    orphan: int

    @property
    def total(self) -> int:
        return self.missing + self.stale + self.orphan


def parts(chance: random.Random, updates: list[MemoryUpdated], count: int) -> list[list[MemoryUpdated]]:
    """Return ``count`` disjoint random lists of ``EACH`` updates."""
    chosen = chance.sample(updates, EACH * count)
    return [chosen[EACH * number : EACH * (number + 1)] for number in range(count)]


async def milvus_drift(running: Running, chance: random.Random) -> Expected:
    door, generation = running.doors["milvus"], running.generation("milvus")
    # Only active memories have a vector; for the others the store holds a tombstone.
    active = [update for update in running.world.updates if update.status == "active"]
    other = [update for update in running.world.updates if update.status != "active"]
    lost, behind, ahead, hashes, digests, vectors, users = parts(chance, active, 7)
    (shown,) = parts(chance, other, 1)
    unlike = np.asarray([0.5] * DIMENSION, dtype="<f4")

    def rows(updates: list[MemoryUpdated], **fields: Any) -> list[Any]:
        made = [milvus_row(update, REVISION, DIMENSION) for update in updates]
        return [replace(row, fingerprint=row.fingerprint._replace(**fields)) for row in made]

    wrong = [
        *rows(behind, version=0),
        *rows(ahead, version=77),
        *rows(hashes, content_hash="other"),
        *rows(digests, digest="other"),
        *(replace(row, vector=unlike) for row in rows(vectors)),
    ]
    live = milvus_row(active[0], REVISION, DIMENSION)
    wrong += [replace(live, memory_id=u.memory_id, tenant_id=u.tenant_id, user_id=u.user_id) for u in shown]
    ghosts = [f"ffffffff-0000-4000-8000-{number:012d}" for number in range(EACH)]
    wrong += [replace(live, memory_id=ghost) for ghost in ghosts]
    name = collection_name(running.settings.topic_prefix, generation)
    gone = [update.memory_id for update in (*lost, *users)]
    await door._call("a test", lambda client: client.delete(name, ids=gone))
    # The partition follows the user, so a row under another user is another row.
    wrong += [replace(row, user_id="somebody") for row in rows(users)]
    for start in range(0, len(wrong), 500):
        await door.write(generation, wrong[start : start + 500])
    return Expected(missing=EACH, stale=6 * EACH, orphan=2 * EACH)


async def neo4j_drift(running: Running, chance: random.Random) -> Expected:
    mark = graph_mark(running.settings.topic_prefix, running.generation("neo4j"))
    known = [update for update in running.world.updates if update.status not in GONE and update.memory is not None]
    gone = [update for update in running.world.updates if update.status in GONE]
    follows = [u for u in known if u.memory and any(edge.kind == "FOLLOWS" for edge in u.memory.edges)]
    edges, weights = parts(chance, follows, 2)
    taken = {update.memory_id for update in (*edges, *weights)}
    behind, ahead, hashes, users = parts(chance, [u for u in known if u.memory_id not in taken], 4)
    (shown,) = parts(chance, gone, 1)
    every = "UNWIND $ids AS id MATCH (m:Memory {generation: $generation, memory_id: id}) "
    statements = (
        ("SET m.version = 0", behind),
        ("SET m.version = 77", ahead),
        ("SET m.content_hash = 'other'", hashes),
        ("SET m.user_id = 'somebody'", users),
        ("MATCH (m)-[r:FOLLOWS]->() DELETE r", edges),
        ("MATCH (m)-[r:SIMILAR_TO]->() SET r.weight = 0.123", weights),
        ("SET m.tombstone = false", shown),
    )
    async with running.doors["neo4j"]._driver.session() as session:
        for statement, updates in statements:
            ids = [update.memory_id for update in updates]
            await (await session.run(every + statement, generation=mark, ids=ids)).consume()
    return Expected(missing=0, stale=6 * EACH, orphan=EACH)


async def influx_drift(running: Running, chance: random.Random) -> Expected:
    orphaned, hashes = (chance.sample(part, EACH) for part in (running.world.events[::2], running.world.events[1::2]))
    wrong = [influx_point(msgspec.structs.replace(event, event_type="orphaned"), None) for event in orphaned]
    wrong += [influx_point(msgspec.structs.replace(event, content_hash="other"), None) for event in hashes]
    await running.doors["influx"].write(running.generation("influx"), wrong)
    return Expected(missing=EACH, stale=EACH, orphan=0)


DRIFTS: dict[Store, Callable[[Running, random.Random], Awaitable[Expected]]] = {
    "milvus": milvus_drift,
    "neo4j": neo4j_drift,
    "influx": influx_drift,
}


async def test_all_are_found_and_one_pass_repairs_them_and_again_when_they_come_back(topics: Settings) -> None:
    async with running_stores(topics, COUNT) as running:
        assert (await running.compared(deep=True)).differences == 0
        for time in ("first", "again"):
            # The same drift both times: a repair that was asked for once must not be taken for done for ever.
            expected = {store: await drift(running, random.Random(7)) for store, drift in DRIFTS.items()}  # noqa: S311
            assert sum(made.total for made in expected.values()) > 2_000
            found = await running.compared(deep=True)
            for report in found.stores:
                made = expected[report.store]  # type: ignore[index]
                counted = Expected(report.missing, report.stale, report.orphan)
                assert counted == made, (time, report.store, Counter(e.kind for e in report.examples))
            await running.compared(deep=True, repair=True, yes=True)
            after = await running.compared(deep=True, wait_seconds=120.0)
            assert [(r.store, r.examples) for r in after.stores if r.differences] == [], time
            await quiet(running)


async def quiet(running: Running) -> None:
    """Wait until every repair has reached every store: to the others it is an ordinary snapshot, which mends old versions."""
    prefix = running.settings.topic_prefix
    async with asyncio.timeout(120):
        for store in STORES:
            topic = (WORKING if store == "influx" else UPDATED).named(prefix)
            group = group_name(prefix, running.generation(store))
            while True:
                with admin(running.settings) as connection:
                    left = connection.execute("SELECT count(*) FROM memory_outbox").fetchone()
                ends = await end_offsets(running.settings, topic)
                committed = await committed_offsets(running.settings, group, [topic])
                reached = {partition.partition: offset for partition, offset in committed.items()}
                if left == (0,) and all(reached.get(number, 0) >= end for number, end in ends.items()):
                    break
                await asyncio.sleep(0.2)
