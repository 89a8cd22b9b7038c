"""The watchdog's judgement: work without progress for too long is a stall, and nothing else is."""

import asyncio

import pytest
from worker_kit import send_raw

from schemas.errors import Broken
from schemas.routing import partition_of
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS
from streams.heartbeat import Heartbeat
from streams.watchdog import Progress, watch


def stalls(*looks: tuple[float, dict[int, int], dict[int, int]]) -> list[tuple[int, ...]]:
    progress = Progress(patience_seconds=60)
    return [progress.stalled(ends, committed, now_seconds=now) for now, ends, committed in looks]


def test_work_without_progress_is_a_stall_after_the_patience() -> None:
    assert stalls((0, {1: 5}, {1: 3}), (59, {1: 5}, {1: 3}), (60, {1: 5}, {1: 3})) == [(), (), (1,)]


def test_progress_starts_the_patience_anew() -> None:
    assert stalls((0, {1: 9}, {1: 3}), (50, {1: 9}, {1: 4}), (100, {1: 9}, {1: 4}), (110, {1: 9}, {1: 4}))[-2:] == [
        (),
        (1,),
    ]


def test_an_idle_partition_is_no_stall_and_new_work_gets_full_patience() -> None:
    looks = ((0.0, {1: 3}, {1: 3}), (500.0, {1: 3}, {1: 3}), (505.0, {1: 4}, {1: 3}), (559.0, {1: 4}, {1: 3}))
    assert stalls(*looks) == [(), (), (), ()]
    assert stalls(*looks, (561.0, {1: 4}, {1: 3}))[-1] == (1,)


def test_a_partition_that_never_committed_counts_from_nothing() -> None:
    assert stalls((0, {0: 2}, {}), (61, {0: 2}, {}))[-1] == (0,)


def test_a_partition_that_left_and_came_back_gets_full_patience() -> None:
    assert stalls((0, {1: 5}, {1: 3}), (50, {}, {}), (70, {1: 5}, {1: 3}), (100, {1: 5}, {1: 3}))[-1] == ()


def test_one_stalled_partition_among_working_ones_is_named() -> None:
    looks = [(float(now), {0: 100, 1: 100}, {0: now, 1: 7}) for now in range(0, 80, 10)]
    assert stalls(*looks)[-1] == (1,)


async def watched(settings: Settings, heartbeat: Heartbeat, seconds: float) -> None:
    topic = CHAT_TURNS.named(settings.topic_prefix)
    async with asyncio.timeout(seconds):
        await watch(
            settings, "stalled-group", topic, lambda: range(4), heartbeat, patience_seconds=0.5, every_seconds=0.2
        )


@pytest.mark.stack
async def test_a_real_group_that_does_not_move_is_noticed_and_its_partition_named(topics: Settings) -> None:
    await send_raw(topics, CHAT_TURNS, (b"acme/ann", b"x"))
    heartbeat = Heartbeat(None, "extract")
    heartbeat.set("ready")
    number = partition_of("acme", "ann", topics.partitions)
    with pytest.raises(Broken, match=f"no progress for 0 s in partitions {number} of"):
        await watched(topics, heartbeat, 30)


@pytest.mark.stack
async def test_standing_still_on_purpose_is_no_stall(topics: Settings) -> None:
    await send_raw(topics, CHAT_TURNS, (b"acme/ann", b"x"))
    heartbeat = Heartbeat(None, "extract")
    heartbeat.set("waiting", "Postgres does not answer")
    with pytest.raises(TimeoutError):
        await watched(topics, heartbeat, 3)
