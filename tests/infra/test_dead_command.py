"""Dead letters are listed, explained and put back where they belong, once, by `engram dead`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import environment_of

from infra.replay import EXPLANATIONS, obstacle
from schemas.codec import Codec
from schemas.dead import DeadLetter
from schemas.errors import Rejected
from schemas.ids import routing_key
from schemas.inputs import Origin
from schemas.routing import partition_of
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS, DEAD, UPDATED, Topic
from streams.dead_letters import REPLAY_OF, dead_letter, dead_output
from streams.kafka import TopicPartition, consumer, end_offsets, producer, send, started

ROOT = Path(__file__).parents[2]
CODEC = Codec()
BYTES = "花生 secret text".encode()


def engram(settings: Settings, *words: str, code: int = 0) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
    done = subprocess.run(
        [sys.executable, "-m", "infra.cli", *words],
        env={**own, **environment_of(settings)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def listed(settings: Settings, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(engram(settings, "dead", "list", "--json", *words))
    return found


async def put(settings: Settings, stage: str, topic: Topic, at_ms: int, **changes: Any) -> str:
    """Write a letter as the stages do; return its position."""
    error = Rejected("the reason", code=changes.pop("code", "bad_avro"))
    given = {"key": b"acme/ann", "value": BYTES, "position": Origin(1, 7), "limit_bytes": 1_000} | changes
    name = topic.named(settings.topic_prefix)
    letter = dead_letter(stage, name, given.pop("position"), given.pop("value"), error, at_ms=at_ms, **given)
    output = dead_output(letter, CODEC)
    async with started(producer(settings)) as client:
        at = await send(client, DEAD.named(settings.topic_prefix), output.value, key=output.key)
    return f"{at.partition}:{at.offset}"


async def records(settings: Settings, topic: Topic) -> list[Any]:
    name = topic.named(settings.topic_prefix)
    wanted = {number: end for number, end in (await end_offsets(settings, name)).items() if end}
    found: list[Any] = []
    async with started(consumer(settings, group=None)) as client:
        partitions = [TopicPartition(name, number) for number in wanted]
        if partitions:
            client.assign(partitions)
            await client.seek_to_beginning(*partitions)
        while len(found) < sum(wanted.values()):
            for some in (await client.getmany(timeout_ms=300)).values():
                found += some
    return found


@pytest.mark.stack
async def test_letters_are_listed_newest_first_filtered_and_never_with_what_they_say(topics: Settings) -> None:
    places = [
        await put(topics, "extract", CHAT_TURNS, 1_000),
        await put(topics, "extract", CHAT_TURNS, 3_000, code="unknown_schema", tenant_id="acme", user_id="小明"),
        await put(topics, "milvus", UPDATED, 2_000, value=None, key=b"other"),
    ]
    printed = engram(topics, "dead", "list") + engram(topics, "dead", "list", "--json")
    assert "secret text" not in printed
    assert "花生" not in printed
    assert [row["position"] for row in listed(topics)] == [places[1], places[2], places[0]]
    assert [row["position"] for row in listed(topics, "--limit", "1")] == [places[1]]
    assert [row["position"] for row in listed(topics, "--stage", "milvus")] == [places[2]]
    assert [row["position"] for row in listed(topics, "--code", "bad_avro", "--stage", "extract")] == [places[0]]
    assert listed(topics, "--since", "2h") == []
    shown = json.loads(engram(topics, "dead", "show", places[1], "--json"))
    assert (shown["code"], shown["user_id"], shown["cannot_be_replayed"]) == ("unknown_schema", "小明", "")
    assert shown["meaning"] == EXPLANATIONS["unknown_schema"]
    assert "reconcile milvus --repair" in engram(topics, "dead", "show", places[2])
    engram(topics, "dead", "show", "0:99", code=65)
    engram(topics, "dead", "show", "99", code=2)


@pytest.mark.stack
async def test_an_input_is_put_back_once_in_its_users_partition_with_its_own_bytes(topics: Settings) -> None:
    right = partition_of("acme", "ann", topics.partitions)
    wrong = Origin((right + 1) % topics.partitions, 0)
    place = await put(
        topics,
        "extract",
        CHAT_TURNS,
        5,
        key=b"x",
        position=wrong,
        code="bad_partition",
        tenant_id="acme",
        user_id="ann",
    )
    assert "can be put back" in engram(topics, "dead", "replay", place, "--dry-run")
    assert await records(topics, CHAT_TURNS) == []
    answer = json.loads(engram(topics, "dead", "replay", place, "--json"))
    (record,) = await records(topics, CHAT_TURNS)
    assert (record.partition, record.key, record.value) == (right, routing_key("acme", "ann"), BYTES)
    assert dict(record.headers) == {REPLAY_OF: place.encode()}
    put_back_at = f"{topics.topic_prefix}chat.turns {right}:0"
    assert answer == [{"position": place, "put_back_at": put_back_at, "why_not": ""}]
    assert [row["put_back_at"] for row in listed(topics)] == [[put_back_at]]  # The note itself is no letter.
    assert "--again" in engram(topics, "dead", "replay", place, code=1)
    assert engram(topics, "dead", "replay", "--code", "bad_partition").endswith("0 of 0 put back\n")
    assert len(await records(topics, CHAT_TURNS)) == 1
    engram(topics, "dead", "replay", place, "--again")
    assert len(await records(topics, CHAT_TURNS)) == 2
    note = [CODEC.decode(one.value, DeadLetter) for one in await records(topics, DEAD)][-1]
    assert (note.code, note.value) == ("replayed", None)


@pytest.mark.stack
async def test_what_was_too_large_to_keep_is_read_from_its_topic_while_it_is_there(topics: Settings) -> None:
    async with started(producer(topics)) as client:
        at = await send(client, CHAT_TURNS.named(topics.topic_prefix), BYTES, key=b"acme/ann")
    there = await put(topics, "extract", CHAT_TURNS, 1, position=at, limit_bytes=3, code="too_large")
    gone = await put(
        topics, "extract", CHAT_TURNS, 2, position=Origin(at.partition, 50), limit_bytes=3, code="too_large"
    )
    answer = json.loads(engram(topics, "dead", "replay", "--code", "too_large", "--json", code=1))
    assert [one["position"] for one in answer] == [there, gone]
    assert answer[0]["put_back_at"]
    assert "is there no more" in answer[1]["why_not"]
    first, second = await records(topics, CHAT_TURNS)
    assert (second.partition, second.key, second.value) == (first.partition, first.key, first.value)


@pytest.mark.stack
async def test_one_letter_that_cannot_be_put_back_does_not_stop_the_others(topics: Settings) -> None:
    final = await put(
        topics, "remember", Topic("memory.proposals", {}), 1, tenant_id="acme", user_id="ann", event_id="e"
    )
    store = await put(topics, "neo4j", UPDATED, 2, value=None)
    good = await put(topics, "extract", CHAT_TURNS, 3)
    answer = json.loads(engram(topics, "dead", "replay", final, store, "0:77", good, "--json", code=1))
    assert [
        "final" in answer[0]["why_not"],
        "--repair" in answer[1]["why_not"],
        "no dead letter" in answer[2]["why_not"],
    ] == [True] * 3
    assert answer[3]["put_back_at"]
    engram(topics, "dead", "replay", code=2)
    engram(topics, "dead", "replay", good, "--code", "bad_avro", code=2)


def test_a_letter_of_another_installation_is_not_put_back_here() -> None:
    letter = DeadLetter(stage="extract", topic="b.chat.turns", partition=0, offset=1, code="x", reason="", at_ms=0)
    assert "does not read here" in obstacle(letter, "a.")
    assert obstacle(letter, "b.") == ""
    assert "no stage" in obstacle(msgspec.structs.replace(letter, stage="x"), "b.")
