"""The producer: refusals before anything is sent, order per user, receipts, keys in advance."""

import asyncio
import uuid

import pytest
import stage_kit as kit
from worker_kit import read_all, turn_producer

from schemas.codec import Codec
from schemas.errors import Broken, Rejected, Retryable
from schemas.inputs import InputEnvelope, RecordReceived, StepRecorded, TurnRecorded
from schemas.routing import partition_of
from schemas.sealing import DataKey
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS
from streams.key_pool import KeyPool
from streams.key_store import KeyStore
from streams.producer import Scope, TurnProducer
from streams.sealed_records import open_record

CODEC = Codec()
HOUR_MS = 3_600_000


def scope(**changes: object) -> Scope:
    return Scope(**{"tenant": "acme", "user": "ann", "session": "s", **changes})  # type: ignore[arg-type]


REFUSED = {
    "no tenant": (scope(tenant=""), kit.turn("hi"), "bad_id", "tenant is missing"),
    "no user": (scope(user=""), kit.turn("hi"), "bad_id", "user is missing"),
    "user in Chinese": (scope(user="小明"), kit.turn("hi"), "bad_id", "user must be"),
    "no session": (scope(session=""), kit.turn("hi"), "bad_id", "session is missing"),
    "empty event id": (scope(event_id=""), kit.turn("hi"), "bad_id", "event_id is missing"),
    "nothing said": (scope(), kit.turn("  ", None), "empty", "needs a user message or an answer"),
    "zero byte": (scope(), kit.turn("a\x00b"), "bad_text", "user_message has a zero byte"),
    "half a surrogate": (scope(), kit.turn("ok", "a\ud800"), "bad_text", "assistant_message has half of a surrogate"),
    "device clock ahead": (
        scope(device_timestamp_ms=kit.NOW_MS + 25 * HOUR_MS),
        kit.turn("hi"),
        "clock_skew",
        "clock is more",
    ),
    "zone": (scope(timezone_offset="8"), kit.turn("hi"), "bad_time", "must look like"),
    "unknown step": (scope(), StepRecorded(step="dance"), "bad_record", "step must be one of"),
    "record source": (
        scope(),
        RecordReceived(source="rumour", entity_type="order", entity_id="1", attributes={}),
        "bad_record",
        "source must be one of",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refusal_is_one_clear_sentence_before_anything_is_sent(name: str) -> None:
    where, body, code, sentence = REFUSED[name]
    producer = TurnProducer(kit.pure_settings(), kit.MemoryKeys(), now_ms=lambda: kit.NOW_MS)
    with pytest.raises(Rejected) as refused:
        producer._checked(where, body)
    assert refused.value.code == code
    assert sentence in refused.value.reason


async def test_it_must_be_connected() -> None:
    with pytest.raises(Broken, match="context manager"):
        await TurnProducer(kit.pure_settings(), kit.MemoryKeys()).send(scope(), kit.turn("hi"))


@pytest.mark.stack
async def test_every_kind_arrives_sealed_in_its_users_partition(topics: Settings) -> None:
    keys = await KeyStore.open(topics)
    async with TurnProducer(topics, keys) as producer:
        receipts = [
            await producer.turn(tenant="acme", user="ann", session="s", user_message="我对花生过敏", locale="zh"),
            await producer.step(scope(), step="tool_call", name="search", outcome="failed", error="timeout"),
            await producer.record(
                scope(),
                source="business_record",
                entity_type="order",
                entity_id="A1",
                attributes={"total": 12, "paid": True},
            ),
            await producer.attachment(scope(), media_type="image/png", uri="s3://b/k", sha256="0" * 64, size_bytes=5),
        ]
    found = await read_all(topics, CHAT_TURNS)
    number = partition_of("acme", "ann", topics.partitions)
    assert [(partition, offset) for partition, offset, _ in found] == [(number, n) for n in range(4)]
    assert [(r.position.partition, r.position.offset) for r in receipts] == [(number, n) for n in range(4)]
    envelopes = [CODEC.decode(value, InputEnvelope) for _, _, value in found]
    assert [envelope.kind for envelope in envelopes] == ["turn", "step", "record", "attachment"]
    assert len({envelope.body.key_id for envelope in envelopes}) == 4
    assert "花生".encode() not in found[0][2]
    key = await keys.key("acme", "ann", envelopes[0].body.key_id)
    assert open_record(CODEC, envelopes[0].body, key, TurnRecorded).user_message == "我对花生过敏"
    key = await keys.key("acme", "ann", envelopes[2].body.key_id)
    assert open_record(CODEC, envelopes[2].body, key, RecordReceived).attributes == {"total": "12", "paid": "true"}
    await keys.close()


@pytest.mark.stack
async def test_calls_side_by_side_keep_the_order_of_each_user(topics: Settings) -> None:
    async with turn_producer(topics) as producer:
        calls = [
            producer.turn(tenant="acme", user=f"user-{n % 5}", session="s", user_message="hi", event_id=f"{n:04}")
            for n in range(200)
        ]
        receipts = await asyncio.gather(*calls)
    assert [receipt.event_id for receipt in receipts] == [f"{n:04}" for n in range(200)]
    envelopes = [CODEC.decode(value, InputEnvelope) for _, _, value in await read_all(topics, CHAT_TURNS)]
    for user in range(5):
        ids = [envelope.event_id for envelope in envelopes if envelope.user_id == f"user-{user}"]
        assert ids == sorted(ids)
        assert len(ids) == 40


@pytest.mark.stack
async def test_an_input_over_the_limit_is_refused_as_serialised_and_the_next_one_passes(topics: Settings) -> None:
    async with turn_producer(topics) as producer:
        with pytest.raises(Rejected, match="the limit is 1048576") as refused:
            await producer.turn(tenant="acme", user="ann", session="s", user_message="很" * 349_600)
        assert refused.value.code == "too_large"
        await producer.turn(tenant="acme", user="ann", session="s", user_message="很" * 300_000)
    assert len(await read_all(topics, CHAT_TURNS)) == 1


async def test_a_broker_that_is_away_is_said_so() -> None:
    settings = kit.pure_settings(kafka_bootstrap_servers="127.0.0.1:9")
    with pytest.raises(Retryable, match="Kafka failed while connecting"):
        async with TurnProducer(settings, kit.MemoryKeys()):
            pass


class CountingKeys:
    """Counts how many keys were asked for at a time."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    async def mint(self, tenant_id: str, user_id: str, count: int) -> list[DataKey]:
        self.calls.append(count)
        await asyncio.sleep(0)
        return [DataKey(str(uuid.uuid4()), b"k" * 32) for _ in range(count)]


async def test_a_busy_user_gets_keys_in_advance_and_none_twice() -> None:
    keys = CountingKeys()
    pool = KeyPool(keys, 8, 10.0)
    taken = [await pool.take("acme", "ann") for _ in range(40)]
    assert len({key.key_id for key in taken}) == 40
    assert max(keys.calls) == 8
    assert len(keys.calls) <= 10
    await pool.close()


async def test_a_quiet_user_costs_one_key_a_time() -> None:
    now = [0.0]
    keys = CountingKeys()
    pool = KeyPool(keys, 8, 10.0, now=lambda: now[0])
    for _ in range(5):
        await pool.take("acme", "ann")
        now[0] += 60
    assert sum(keys.calls) <= 9
    await pool.close()


async def test_a_key_that_waited_too_long_is_not_used() -> None:
    now = [0.0]
    pool = KeyPool(CountingKeys(), 8, 10.0, now=lambda: now[0])
    for _ in range(3):
        await pool.take("acme", "ann")
    stock = pool._stocks["acme", "ann"]
    if stock.refill is not None:
        await stock.refill
    kept = {key.key_id for _, key in stock.ready}
    assert kept
    now[0] = 10.5
    assert (await pool.take("acme", "ann")).key_id not in kept
    await pool.close()


async def test_a_key_store_that_is_away_fails_the_call_and_not_the_next_one() -> None:
    class Failing(CountingKeys):
        async def mint(self, tenant_id: str, user_id: str, count: int) -> list[DataKey]:
            if not self.calls:
                self.calls.append(0)
                raise Retryable("away")
            return await super().mint(tenant_id, user_id, count)

    pool = KeyPool(Failing(), 8, 10.0)
    with pytest.raises(Retryable):
        await pool.take("acme", "ann")
    assert await pool.take("acme", "ann")
    await pool.close()


async def test_a_broker_that_never_answers_ends_in_a_sentence_that_says_what_to_do() -> None:
    producer = TurnProducer(kit.pure_settings(), kit.MemoryKeys(), acknowledged_within_seconds=0.05)
    await producer._room.acquire()
    free = producer._room._value
    with pytest.raises(Retryable, match="send the same event_id again"):
        await producer._receipt("event-1", asyncio.get_running_loop().create_future())
    assert producer._room._value == free + 1
