"""The measurements measure what they say: seeded memories are as the truth's own, the raw clients write the same."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from rich.console import Console

from bench.ground import administrator
from bench.load import Watch
from bench.projectors import mapping_of
from bench.raw_load import load, unused
from bench.recorded import RecordedDoor, in_batches
from bench.relay import publish
from bench.seed import Seeded, event_of, memories_of, seed_events, seed_memories
from bench.show import Shown
from bench.topics import read_topic
from projectors.batch import Change
from projectors.doors import open_door
from projectors.entries import STORES, Entry, Generation, Key, Store
from reconcile.run import compare
from schemas.memories import GONE
from schemas.settings import Settings
from streams.content_hash import content_hash
from streams.embedding import UseEmbedder
from streams.key_store import KeyStore

ROWS = 1_000
HASH_KEY = bytes(32)
SHOWN = Shown(Console(quiet=True))


def test_seeded_memories_are_the_same_each_time_with_true_hashes() -> None:
    found, again = memories_of(600, HASH_KEY), memories_of(600, HASH_KEY)
    assert found == again
    assert all(one.memory.content_hash == content_hash(one.memory, HASH_KEY) for one in found)
    assert len({one.memory.memory_id for one in found}) == 600


def test_seeded_memories_have_vectors_and_edges_unless_they_are_gone() -> None:
    found = memories_of(6_000, HASH_KEY)
    gone = [one for one in found if one.memory.status in GONE]
    live = [one for one in found if one.memory.status not in GONE]
    assert 0.02 < len(gone) / len(found) < 0.1
    assert all(one.vector is None and not one.memory.edges for one in gone)
    assert all(one.vector is not None and len(one.vector.values) == 4 * UseEmbedder.dimension for one in live)
    assert {edge.kind for one in live for edge in one.memory.edges} == {"BELONGS_TO", "FOLLOWS", "SIMILAR_TO"}


def test_no_two_seeded_events_share_a_place() -> None:
    events = [event_of(number, 24)[0] for number in range(9_000)]
    assert len({(e.tenant_id, e.user_id, e.session_id, e.sequence) for e in events}) == len(events)


def test_the_same_rows_in_bulk() -> None:
    assert in_batches([[1, 2, 3], None, [4, 5], None], 4) == [[1, 2, 3, 4], [5], None]


@pytest.fixture
async def published(topics: Settings) -> AsyncIterator[Settings]:
    keys = await KeyStore.open(topics)
    connection = await administrator(topics)
    try:
        seeded: tuple[Seeded, ...] = memories_of(ROWS, topics.hash_key_bytes())
        await seed_memories(connection, keys, topics, seeded, lambda _: None)
        await seed_events(connection, keys, topics, ROWS, lambda _: None)
        await publish(topics, 2 * ROWS, SHOWN, "")
        yield topics
    finally:
        await connection.close()
        await keys.close()


@pytest.mark.stack
@pytest.mark.parametrize("store", STORES)
async def test_what_a_projector_writes_agrees_with_postgres_and_with_the_raw_client(
    published: Settings, store: Store
) -> None:
    async with AsyncExitStack() as resources:
        door = RecordedDoor(open_door(published, store))
        resources.push_async_callback(door.close)
        mapping = await mapping_of(published, store, resources)
        ours, raw = unused(store), unused(store)
        for generation in (ours, raw):
            await door.prepare(generation)
            resources.push_async_callback(door.drop, generation)
        changes = await mapping.changes(await read_topic(published, mapping.topic), ours)
        await door.write(ours, [change.item for change in changes if isinstance(change, Change)])
        await door.flush(ours)
        report = await compare(published, door, ours)
        assert (report.checked, report.missing, report.stale, report.orphan) == (ROWS, 0, 0, 0)
        assert await load(published, raw, in_batches(door.steps, 300)) > 0
        assert await _entries(door, raw) == await _entries(door, ours)


async def _entries(door: RecordedDoor, generation: Generation) -> dict[Key, Entry]:
    return {entry.key: entry async for entry in door.fingerprints(generation)}


@pytest.mark.stack
async def test_a_watch_notes_how_far_each_user_is_remembered(settings: Settings) -> None:
    connection = await administrator(settings)
    try:
        watch = Watch(connection)
        for offset in (3, 7):
            await connection.execute(
                "INSERT INTO user_positions VALUES ('bench', 'u', 0, %s)"
                " ON CONFLICT (tenant_id, user_id) DO UPDATE SET origin_offset = excluded.origin_offset",
                (offset,),
            )
            await watch.look()
            await watch.look()
        assert [(user, offset) for user, offset, _ in watch.seen] == [("u", 3), ("u", 7)]
    finally:
        await connection.close()
