"""A refused input that is put back goes through the whole line, counts once, and is known by its own event id."""

import asyncio
import time
from pathlib import Path

import psycopg
import pytest
from worker_kit import Worker, grown_to, turn_producer, workers

from infra.dead_log import opened, replaying
from schemas.codec import Codec
from schemas.inputs import TurnRecorded
from schemas.settings import Settings
from schemas.topics import EXTRACTED, PROPOSALS
from streams.postgres import connection_text
from streams.producer import Scope

pytestmark = [pytest.mark.chaos, pytest.mark.stack, pytest.mark.timeout(600)]
CODEC = Codec()
HOUR_MS = 3_600_000


def rows(settings: Settings, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(connection_text(settings, settings.postgres_admin_user), autocommit=True) as connection:
        return connection.execute(statement).fetchall()  # type: ignore[call-overload,no-any-return]


async def ready(*running: Worker) -> None:
    for worker in running:
        await worker.state("ready")


async def outcomes(settings: Settings, count: int) -> list[tuple[object, ...]]:
    deadline = time.monotonic() + 120
    while len(found := rows(settings, "SELECT event_id, outcome FROM command_outcomes ORDER BY decided_at_ms")) < count:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.3)
    return found


async def test_an_input_refused_for_its_clock_becomes_a_memory_when_it_is_put_back(
    topics: Settings, tmp_path: Path
) -> None:
    now_ms = time.time_ns() // 1_000_000
    with workers(topics, tmp_path, "admit", "embed", "remember") as line:
        with workers(topics, tmp_path, "extract", "working", clock_ahead_hours=1) as strict:
            await ready(*line, *strict)
            async with turn_producer(topics) as producer:
                await producer.send(
                    Scope(
                        tenant="acme",
                        user="xiaoming",
                        session="s",
                        event_id="9b2f4c1e-0000-4000-8000-000000000001",
                        received_at_ms=now_ms + 5 * HOUR_MS,
                    ),
                    TurnRecorded(user_message="我对花生过敏"),
                )
            (first,) = await outcomes(topics, 1)
            assert first[1] == "nothing"
            assert [await worker.stop() for worker in strict] == [0, 0]
        async with opened(topics, CODEC) as log:
            (kept,) = await log.newest(lambda _: True, 10)
        assert (kept.letter.code, kept.letter.event_id) == ("clock_skew", first[0])
        with workers(topics, tmp_path, "extract", "working") as lenient:
            await ready(*lenient)
            async with replaying(topics, CODEC, now_ms) as replayer:
                (done,) = await replayer.replay([kept.position], again=False, dry_run=False)
                assert done.put_back_at
            found = await outcomes(topics, 2)
            assert [one[0] for one in found] == [first[0]] * 2
            assert sorted(str(one[1]) for one in found) == ["accepted", "nothing"]
            memories = rows(topics, "SELECT content, version FROM memories")
            assert len(memories) == 1
            assert "花生" in str(memories[0][0])
            # By accident twice: the same event again changes nothing.
            async with replaying(topics, CODEC, now_ms) as replayer:
                (refused,) = await replayer.replay([kept.position], again=False, dry_run=False)
                assert "--again" in refused.why_not
                await replayer.replay([kept.position], again=True, dry_run=False)
            await grown_to(topics, EXTRACTED, 3)
            await grown_to(topics, PROPOSALS, 3)
            deadline = time.monotonic() + 60
            while not rows(topics, "SELECT 1 FROM positions WHERE role = 'remember' AND last_offset = 2"):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.3)
            assert rows(topics, "SELECT content, version FROM memories") == memories
            assert len(await outcomes(topics, 2)) == 2
            while not rows(topics, "SELECT 1 FROM positions WHERE role = 'working' AND last_offset = 2"):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.3)
            assert rows(topics, "SELECT count(*) FROM working_events") == [(1,)]
