"""The log below Postgres is known by the ids of its topics, and another one is noticed."""

import asyncio
from pathlib import Path

import pytest
from worker_kit import turn_producer, workers

from schemas.errors import Misconfigured, Retryable
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS, PROPOSALS, TOPICS
from streams.kafka import admin, ensure_topics, topic_identities
from streams.log_watch import identity_of, known_log, watch_log
from streams.postgres import connect

ROLES = ("engram_writer", "engram_working", "engram_relay", "engram_projector")


async def made_anew(settings: Settings, name: str) -> None:
    async with admin(settings) as client:
        await client.delete_topics([name])
        async with asyncio.timeout(30):
            while True:
                if name not in await client.list_topics():
                    break
                await asyncio.sleep(0.05)  # The broker has no signal for it.
    await ensure_topics(settings)


@pytest.mark.stack
async def test_a_topic_made_anew_is_noticed_by_every_role_and_by_the_watch(topics: Settings) -> None:
    name = PROPOSALS.named(topics.topic_prefix)
    known = [await known_log(topics, role) for role in ROLES]
    assert set(known[0]) == {topic.named(topics.topic_prefix) for topic in TOPICS}
    assert known == [known[0]] * len(ROLES)
    assert len(set(known[0].values())) == len(TOPICS)
    watching = asyncio.create_task(watch_log(topics, known[0], every_seconds=0.05))
    done, _ = await asyncio.wait((watching,), timeout=0.5)
    assert not done
    await made_anew(topics, name)
    with pytest.raises(Misconfigured, match=f"topic {name} was .* Kafka was reset"):
        await asyncio.wait_for(watching, 30)
    for role in ROLES:
        with pytest.raises(Misconfigured, match=name):
            await known_log(topics, role)
    # What was known stays known: the next start says the same.
    assert (await topic_identities(topics))[name] != known[0][name]


@pytest.mark.stack
@pytest.mark.timeout(240)
async def test_a_position_is_kept_with_the_id_of_its_topic(topics: Settings, tmp_path: Path) -> None:
    with workers(topics, tmp_path, "working") as (working,):
        await working.state("ready")
        async with turn_producer(topics) as producer:
            await producer.turn(tenant="acme", user="ann", session="s", user_message="你好 hello", event_id="turn-1")
        connection = await connect(topics, topics.postgres_admin_user, autocommit=True)
        async with asyncio.timeout(60):
            while True:
                found = await (await connection.execute("SELECT topic_identity FROM positions")).fetchall()
                if found:
                    break
                await asyncio.sleep(0.1)  # The database has no signal for it.
        await connection.close()
        assert await working.stop() == 0
    assert found == [((await known_log(topics, ROLES[1]))[CHAT_TURNS.named(topics.topic_prefix)],)]


def test_a_topic_that_the_broker_still_makes_is_waited_for() -> None:
    with pytest.raises(Retryable, match=r"p\.chat\.turns yet"):
        identity_of({"p.memory.proposals": "one/b"}, "p.chat.turns")
    assert identity_of({"p.chat.turns": "one/a"}, "p.chat.turns") == "one/a"
