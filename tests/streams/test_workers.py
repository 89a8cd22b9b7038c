"""Delivery with real worker processes on the real broker: bad records do not stop them, death loses nothing."""

import asyncio
import random
from pathlib import Path

import pytest
from worker_kit import Door, Worker, grown_to, read_all, send_raw, turn_producer, workers

from schemas.candidates import MemoryExtracted
from schemas.codec import Codec
from schemas.dead import DeadLetter
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS, DEAD, EXTRACTED
from streams.faust_stage import group_of
from streams.kafka import committed_offsets, end_offsets

pytestmark = [pytest.mark.chaos, pytest.mark.stack, pytest.mark.timeout(400)]
CODEC = Codec()
USERS = ("ann", "bob", "xiaoming", "li.hua", "chen", "dora")
SAID = ("I am allergic to peanuts", "我喜欢喝美式咖啡", "I live in Leeds", "我叫小明，在深圳做后端")


async def send_turns(settings: Settings, count: int, *, first: int = 0) -> list[str]:
    async with turn_producer(settings) as producer:
        for number in range(first, first + count):
            await producer.turn(
                tenant="acme",
                user=USERS[number % len(USERS)],
                session="s",
                user_message=SAID[number % len(SAID)],
                event_id=f"turn-{number:04}",
            )
    return [f"turn-{number:04}" for number in range(first, first + count)]


async def extracted(settings: Settings) -> list[MemoryExtracted]:
    return [CODEC.decode(value, MemoryExtracted) for _, _, value in await read_all(settings, EXTRACTED)]


async def all_extracted(settings: Settings, sent: list[str], seconds: float = 120.0) -> None:
    """Wait until each of ``sent`` came out; what came out twice after a kill does not count twice."""
    deadline = asyncio.get_running_loop().time() + seconds
    while missing := set(sent) - {event.event_id for event in await extracted(settings)}:
        assert asyncio.get_running_loop().time() < deadline, f"missing: {sorted(missing)}"
        await asyncio.sleep(0.5)


def assert_order_kept(events: list[MemoryExtracted]) -> None:
    """The first time that each turn of a user appears, it appears after the turns before it."""
    for user in USERS:
        seen = list(dict.fromkeys(event.event_id for event in events if event.user_id == user))
        assert seen == sorted(seen), f"order of {user}"


async def test_bad_records_become_dead_letters_and_the_stream_goes_on(topics: Settings, tmp_path: Path) -> None:
    with workers(topics, tmp_path, "extract") as (extract,):
        await extract.state("ready")
        await send_turns(topics, 3)
        bad = [b"", b"plain text", b"\x00\x00\x00\x00\x01" + b"\xff" * 40]
        await send_raw(topics, CHAT_TURNS, *[(b"acme/ann", value) for value in bad])
        await send_turns(topics, 3, first=3)
        await grown_to(topics, EXTRACTED, 6)
        assert [event.event_id for event in sorted(await extracted(topics), key=lambda e: e.event_id)] == [
            f"turn-{number:04}" for number in range(6)
        ]
        letters = [CODEC.decode(value, DeadLetter) for _, _, value in await read_all(topics, DEAD)]
        assert sorted(letter.value or b"" for letter in letters) == sorted(bad)
        for letter in letters:
            assert (letter.stage, letter.topic, letter.code) == (
                "extract",
                f"{topics.topic_prefix}chat.turns",
                "bad_avro",
            )
            assert letter.reason
        assert await extract.stop() == 0


async def test_a_clean_stop_has_committed_everything_and_a_restart_repeats_nothing(
    topics: Settings, tmp_path: Path
) -> None:
    with workers(topics, tmp_path, "extract") as (extract,):
        await extract.state("ready")
        await send_turns(topics, 12)
        await grown_to(topics, EXTRACTED, 12)
        assert await extract.stop() == 0
    source = CHAT_TURNS.named(topics.topic_prefix)
    ends = {number: end for number, end in (await end_offsets(topics, source)).items() if end}
    committed = await committed_offsets(topics, group_of("extract", topics), [source])
    assert {partition.partition: offset for partition, offset in committed.items() if offset} == ends


async def test_a_clean_stop_under_load_neither_loses_nor_repeats(topics: Settings, tmp_path: Path) -> None:
    sending = asyncio.create_task(send_turns(topics, 200))
    for goal in (40, 90):
        with workers(topics, tmp_path, "extract") as (extract,):
            await extract.state("ready")
            await grown_to(topics, EXTRACTED, goal)
            assert await extract.stop() == 0
    sent = await sending
    with workers(topics, tmp_path, "extract") as (extract,):
        await extract.state("ready")
        await grown_to(topics, EXTRACTED, 200)
        assert await extract.stop() == 0
    assert sorted(event.event_id for event in await extracted(topics)) == sent


@pytest.mark.parametrize("step", ["after_consume", "after_model", "before_ack"])
async def test_a_kill_at_any_step_loses_nothing_and_keeps_the_order(
    topics: Settings, tmp_path: Path, step: str
) -> None:
    with workers(topics, tmp_path, "extract", crash_at=f"{step}:7") as (extract,):
        await extract.state("ready")
        sent = await send_turns(topics, 20)
        assert await extract.ended() == -9
    with workers(topics, tmp_path, "extract") as (extract,):
        await extract.state("ready")
        await all_extracted(topics, sent)
        assert await extract.stop() == 0
    assert_order_kept(await extracted(topics))


async def test_kills_at_random_moments_under_load_lose_nothing(topics: Settings, tmp_path: Path) -> None:
    chance = random.Random(20)  # noqa: S311 - a test's moments, not a secret
    sending = asyncio.create_task(send_turns(topics, 300))
    for _ in range(3):
        with workers(topics, tmp_path, "extract") as (extract,):
            await extract.state("ready")
            await asyncio.sleep(chance.uniform(0.5, 2.0))
    sent = await sending
    with workers(topics, tmp_path, "extract") as (extract,):
        await extract.state("ready")
        await all_extracted(topics, sent)
    assert_order_kept(await extracted(topics))


async def test_two_workers_share_the_work_and_one_may_die(topics: Settings, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with workers(topics, tmp_path, "extract") as (stays,), workers(topics, other, "extract") as (dies,):
        await asyncio.gather(stays.state("ready"), dies.state("ready"))
        sending = asyncio.create_task(send_turns(topics, 120))
        await grown_to(topics, EXTRACTED, 40)
        dies.kill()
        sent = await sending
        await all_extracted(topics, sent)
        assert await stays.stop() == 0
    assert_order_kept(await extracted(topics))


async def test_a_dependency_that_goes_away_is_waited_for_in_place_and_nothing_is_lost(
    topics: Settings, tmp_path: Path
) -> None:
    async with Door(topics.postgres_host, topics.postgres_port) as door:
        with workers(topics, tmp_path, "extract", postgres_host="127.0.0.1", postgres_port=door.port) as (extract,):
            await extract.state("ready")
            await send_turns(topics, 3)
            await grown_to(topics, EXTRACTED, 3)
            await door.shut()
            await send_turns(topics, 5, first=3)
            beat = await extract.state("waiting")
            assert "Postgres" in beat.detail
            await door.open()
            await grown_to(topics, EXTRACTED, 8)
            await extract.state("ready")
            assert await extract.stop() == 0
    assert [event.event_id for event in sorted(await extracted(topics), key=lambda e: e.event_id)] == [
        f"turn-{number:04}" for number in range(8)
    ]
    assert await read_all(topics, DEAD) == []


async def test_a_dependency_that_is_away_at_the_start_is_waited_for_with_a_sentence(
    topics: Settings, tmp_path: Path
) -> None:
    with workers(topics, tmp_path, "admit", postgres_port=9) as (admit,):
        beat = await admit.state("waiting")
        assert "Postgres does not answer" in beat.detail
        assert await admit.stop() == 0


async def test_a_wrong_master_key_stops_with_its_code_and_acknowledges_nothing(
    topics: Settings, tmp_path: Path
) -> None:
    await send_turns(topics, 2)
    wrong = type(topics.master_key)("A" * 43 + "=")
    with workers(topics, tmp_path, "extract", master_key=wrong) as (extract,):
        assert await extract.ended(60) == 78
        assert "ENGRAM_MASTER_KEY" in extract.log()
    assert await committed_offsets(topics, group_of("extract", topics), [CHAT_TURNS.named(topics.topic_prefix)]) == {}
    with workers(topics, tmp_path, "extract") as (extract,):
        await extract.state("ready")
        await grown_to(topics, EXTRACTED, 2)
        assert await extract.stop() == 0


async def test_an_unknown_role_is_named(topics: Settings, tmp_path: Path) -> None:
    worker = Worker("king", topics, tmp_path)
    assert await worker.ended(30) == 78
    assert "there is no role king" in worker.log()
