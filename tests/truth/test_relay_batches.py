"""The relay prepares a batch while the one before it is on its way: what fails there still holds back its user here."""

import asyncio

import pytest
from test_relay import drained, left, running, until
from truth_bench import CODEC, opened
from truth_topics import records_of
from truth_world import USER, candidate, said

from schemas.memories import MemoryChanged
from schemas.settings import Settings
from schemas.topics import CHANGES
from streams.postgres_outbox import Outbox

pytestmark = pytest.mark.stack


async def test_rows_behind_a_claim_are_those_that_follow_it_and_nothing_late(topics: Settings) -> None:
    small = topics.model_copy(update={"relay_claim_rows": 2})
    async with opened(topics) as bench:
        for number in range(3):
            await bench.apply(said(number, candidate("city", f'"{number}"')), number)
        numbers = [row[0] for row in await bench.rows("SELECT outbox_id FROM memory_outbox ORDER BY outbox_id")]
        outbox = await Outbox.open(small)
        await outbox.take_shards()
        first = await outbox.claim()
        behind = await outbox.claim_behind(first)
        assert [row.outbox_id for row in [*first, *behind]] == numbers[:4]
        # Not a whole claim: nothing is behind it. And when it is time to look, nothing is read ahead.
        assert await outbox.claim_behind(first[:1]) == []
        outbox._looked_at = float("-inf")
        assert await outbox.claim_behind(first) == []
        assert [row.outbox_id for row in await outbox.claim()] == numbers[:2]
        await outbox.close()


@pytest.mark.parametrize("place", [1, 2, 3, 4])
async def test_a_poison_row_holds_back_the_rows_of_its_user_in_the_batches_behind(topics: Settings, place: int) -> None:
    small = topics.model_copy(update={"relay_claim_rows": 3})
    async with opened(topics) as bench:
        for number in range(6):
            await bench.apply(said(number, candidate("city", f'"{number}"')), 2 * number)
            await bench.apply(said(10 + number, candidate("city", f'"{number}"'), user_id="bob"), 2 * number + 1)
        mine = [
            (row[0], row[1])
            for row in await bench.rows(
                "SELECT outbox_id, event_id::text FROM memory_outbox WHERE user_id = %s ORDER BY outbox_id", USER
            )
        ]
        of_bob = await left(bench) - len(mine)
        await bench.rows("UPDATE memory_outbox SET payload = NULL WHERE outbox_id = %s RETURNING 1", mine[place][0])
        async with running(small) as relay:
            await until(lambda: relay.published >= of_bob + place)
            await until(lambda: bench.rows("SELECT 1 FROM memory_outbox WHERE attempts > 0"))
            await asyncio.sleep(0.3)  # Nothing more may come: the others of this user wait.
            assert relay.published == of_bob + place
        waiting = await bench.rows("SELECT outbox_id, attempts FROM memory_outbox ORDER BY outbox_id")
        assert waiting[0] == (mine[place][0], 1)
        assert waiting[1:] == [(number, 0) for number, _ in mine[place + 1 :]]
        events = [CODEC.decode(value, MemoryChanged) for _, _, value, _ in await records_of(topics, CHANGES)]
        assert [e.event_id for e in events if e.user_id == USER] == [event_id for _, event_id in mine[:place]]


async def test_a_partition_with_more_than_one_kafka_batch_keeps_its_order(topics: Settings) -> None:
    async with opened(topics) as bench:
        for number in range(12):
            await bench.apply(said(number, candidate("city", f'"{number}"', content="x" * 40_000)), number)
        wanted = [row[0] for row in await bench.rows("SELECT event_id::text FROM memory_outbox ORDER BY outbox_id")]
        async with running(topics):
            await drained(bench)
        events = [CODEC.decode(value, MemoryChanged) for _, _, value, _ in await records_of(topics, CHANGES)]
        assert [event.event_id for event in events] == wanted
