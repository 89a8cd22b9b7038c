"""The consumer helper for other services: typed, resumes, each version once, bad records do not stop it."""

import asyncio
from contextlib import aclosing

import pytest
from worker_kit import send_raw

from schemas.codec import Codec
from schemas.memories import MemoryUpdated
from schemas.settings import Settings
from schemas.topics import UPDATED
from streams.updates import MemoryUpdates

pytestmark = pytest.mark.stack
CODEC = Codec()


def update(memory_id: str, version: int, op: str = "updated") -> tuple[bytes, bytes]:
    record = MemoryUpdated(
        event_id=f"{memory_id}-{version}",
        memory_id=memory_id,
        tenant_id="acme",
        user_id="ann",
        op=op,
        status="active",
        version=version,
        content_hash="0" * 64,
        occurred_at_ms=1,
        cause="turn",
    )
    return b"one-key", CODEC.encode(record)


async def take(settings: Settings, count: int, group: str = "crm") -> list[tuple[str, int, str]]:
    found: list[tuple[str, int, str]] = []
    async with MemoryUpdates(settings, group) as updates, aclosing(aiter(updates)) as changes, asyncio.timeout(30):
        async for change in changes:
            found.append((change.memory_id, change.version, change.op))
            if len(found) == count:
                # Asking for the next one says that this one is done.
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(changes), 1.5)
                break
    return found


async def test_each_version_comes_once_and_vectors_are_a_change_of_their_own(topics: Settings) -> None:
    await send_raw(
        topics, UPDATED, update("m1", 1, "created"), update("m1", 1), update("m1", 2), update("m1", 1), update("m2", 1),
        update("m1", 2, "revectored"), update("m1", 3, "erased"),
    )  # fmt: skip
    assert await take(topics, 5) == [
        ("m1", 1, "created"),
        ("m1", 2, "updated"),
        ("m2", 1, "updated"),
        ("m1", 2, "revectored"),
        ("m1", 3, "erased"),
    ]


async def test_a_group_resumes_where_it_left_off_and_another_gets_everything(topics: Settings) -> None:
    await send_raw(topics, UPDATED, update("m1", 1), update("m2", 1))
    assert len(await take(topics, 2)) == 2
    await send_raw(topics, UPDATED, update("m3", 1))
    assert await take(topics, 1) == [("m3", 1, "updated")]
    assert len(await take(topics, 3, group="billing")) == 3


async def test_a_record_that_cannot_be_read_is_counted_and_passed_over(topics: Settings) -> None:
    await send_raw(topics, UPDATED, (b"one-key", b"garbage"), update("m1", 1))
    async with MemoryUpdates(topics, "crm") as updates:
        async with aclosing(aiter(updates)) as changes:
            change = await asyncio.wait_for(anext(changes), 30)
        assert (change.memory_id, updates.skipped) == ("m1", 1)


async def test_a_change_in_hand_comes_again_after_a_crash(topics: Settings) -> None:
    await send_raw(topics, UPDATED, update("m1", 1))
    async with MemoryUpdates(topics, "crm") as updates, aclosing(aiter(updates)) as changes:
        await asyncio.wait_for(anext(changes), 30)
    assert await take(topics, 1) == [("m1", 1, "updated")]
