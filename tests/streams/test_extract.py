"""The stage ``extract``: good inputs in both languages, and every bad one ends as a refusal with origin and reason."""

import struct

import msgspec
import pytest
import stage_kit as kit

from schemas.candidates import Extraction, MemoryExtracted
from schemas.errors import Rejected
from schemas.inputs import AttachmentDescribed, Origin, RecordReceived, Sealed, StepRecorded
from schemas.sealing import seal
from streams.extract import Extract
from streams.sealed_records import open_record
from streams.stage import StageResult

HOUR_MS = 3_600_000


@pytest.fixture
def keys() -> kit.MemoryKeys:
    return kit.MemoryKeys()


@pytest.fixture
def stage(keys: kit.MemoryKeys) -> Extract:
    return kit.extract_stage(keys)


def event_of(result: StageResult) -> MemoryExtracted:
    (output,) = result.outputs
    assert output.topic.name == "memory.extracted"
    return kit.CODEC.decode(output.value, MemoryExtracted)


@pytest.mark.parametrize("said", ["我对花生过敏", "I am allergic to peanuts"])
async def test_a_turn_becomes_a_sealed_extraction(stage: Extract, keys: kit.MemoryKeys, said: str) -> None:
    envelope = await kit.sealed_envelope(keys, kit.turn(said), device_timestamp_ms=kit.NOW_MS - 5_000)
    result = await kit.handled(stage, kit.CODEC.encode(envelope), kit.position_of())
    event = event_of(result)
    assert (event.tenant_id, event.user_id, event.event_id) == (kit.TENANT, kit.USER, "event-1")
    assert event.origin == kit.position_of()
    assert event.stated_at_ms == kit.NOW_MS - 5_000
    assert event.timezone_offset == "+08:00"
    assert result.outputs[0].key == b"acme/xiaoming"
    assert said.encode() not in result.outputs[0].value
    assert event.body is not None
    key = keys.made[envelope.body.key_id]
    assert event.body.key_id == key.key_id
    assert open_record(kit.CODEC, event.body, key, Extraction).candidates[0].content == said


async def test_nothing_found_still_travels_with_its_origin(stage: Extract, keys: kit.MemoryKeys) -> None:
    result = await kit.handled(stage, await kit.message(keys, kit.turn("", "好的")), kit.position_of(offset=99))
    event = event_of(result)
    assert (event.status, event.body, event.origin.offset) == ("nothing", None, 99)


@pytest.mark.parametrize(
    "body",
    [
        StepRecorded(step="tool_call", name="search", outcome="failed", error="timeout"),
        RecordReceived(
            source="business_record", entity_type="order", entity_id="A1", attributes={"status": '"shipped"'}
        ),
        AttachmentDescribed(media_type="image/png", uri="s3://b/k", sha256="0" * 64, size_bytes=10),
    ],
)
async def test_every_kind_is_read(stage: Extract, keys: kit.MemoryKeys, body: msgspec.Struct) -> None:
    result = await kit.handled(stage, await kit.message(keys, body), kit.position_of())  # type: ignore[arg-type]
    assert event_of(result).status == "nothing"


async def _bad_inputs(keys: kit.MemoryKeys) -> dict[str, tuple[bytes, str, bool]]:
    """Name → (message, code, whether its user can be read)."""
    good = await kit.sealed_envelope(keys, kit.turn("hello"))
    key = keys.made[good.body.key_id]
    encode, replace = kit.CODEC.encode, msgspec.structs.replace
    whole = encode(good)
    broken_text = encode(kit.turn("hello")).replace(b"hello", b"he\xff\xfeo")
    other_body = seal(encode(StepRecorded(step="plan")), key, b"n" * 12)
    return {
        "empty user": (encode(replace(good, user_id="")), "bad_id", False),
        "empty tenant": (encode(replace(good, tenant_id="")), "bad_id", False),
        "user outside the pattern": (encode(replace(good, user_id="a/b")), "bad_id", False),
        "user in Chinese": (encode(replace(good, user_id="小明")), "bad_id", False),
        "user too long": (encode(replace(good, user_id="u" * 129)), "bad_id", False),
        "empty event id": (encode(replace(good, event_id="")), "bad_id", False),
        "empty session": (encode(replace(good, session_id="")), "bad_id", False),
        "no bytes": (b"", "bad_avro", False),
        "not Avro": (b"\x07plain text", "bad_avro", False),
        "JSON": (b'{"tenant_id": "acme"}', "bad_avro", False),
        "unknown schema id": (struct.pack(">bI", 0, 999_999) + whole[5:], "unknown_schema", False),
        "a body where an envelope belongs": (encode(kit.turn("hi")), "bad_avro", False),
        "cut short": (whole[:-3], "bad_avro", False),
        "trailing bytes": (whole + b"\x00", "bad_avro", False),
        "unknown kind": (encode(replace(good, kind="poem")), "unknown_kind", True),
        "kind of another body": (encode(replace(good, body=other_body)), "bad_avro", True),
        "over 1 MiB": (await kit.message(keys, kit.turn("x" * 1_050_000)), "too_large", True),
        "invalid UTF-8": (encode(replace(good, body=seal(broken_text, key, b"n" * 12))), "bad_avro", True),
        "zero byte": (await kit.message(keys, kit.turn("a\x00b")), "bad_text", True),
        "zero byte in a label": (encode(replace(good, channel="\x00")), "bad_text", True),
        "device clock 25 h ahead": (
            encode(replace(good, device_timestamp_ms=kit.NOW_MS + 25 * HOUR_MS)),
            "clock_skew",
            True,
        ),
        "gateway clock 25 h ahead": (
            encode(replace(good, received_at_ms=kit.NOW_MS + 25 * HOUR_MS)),
            "clock_skew",
            True,
        ),
        "before 1970": (encode(replace(good, device_timestamp_ms=-1)), "bad_time", True),
        "zone that is none": (encode(replace(good, timezone_offset="Peking")), "bad_time", True),
        "unknown key": (encode(replace(good, body=Sealed("nobody", b"n" * 12, b"c"))), "unknown_key", True),
        "tampered": (encode(replace(good, body=replace(good.body, nonce=b"x" * 12))), "bad_seal", True),
    }


BAD = (
    "empty user", "empty tenant", "user outside the pattern", "user in Chinese", "user too long", "empty event id",
    "empty session", "no bytes", "not Avro", "JSON", "unknown schema id", "a body where an envelope belongs", "cut short",
    "trailing bytes", "unknown kind", "kind of another body", "over 1 MiB", "invalid UTF-8", "zero byte",
    "zero byte in a label", "device clock 25 h ahead", "gateway clock 25 h ahead", "before 1970", "zone that is none",
    "unknown key", "tampered",
)  # fmt: skip


async def test_the_list_of_bad_inputs_is_whole(keys: kit.MemoryKeys) -> None:
    assert set(await _bad_inputs(keys)) == set(BAD)


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_input_is_refused_with_its_code(stage: Extract, keys: kit.MemoryKeys, name: str) -> None:
    message, code, readable = (await _bad_inputs(keys))[name]
    position = kit.position_of()
    with pytest.raises(Rejected) as refused:
        await kit.handled(stage, message, position)
    assert refused.value.code == code
    refusal = await kit.refusal(stage, message, position, refused.value)
    assert refusal.dead
    if readable:
        event = event_of(refusal.result)
        assert (event.origin, event.status, event.body) == (position, "rejected", None)
        assert (refusal.tenant_id, refusal.user_id) == (kit.TENANT, kit.USER)
    else:
        assert refusal.result.outputs == ()


async def test_exactly_24_hours_ahead_is_accepted(stage: Extract, keys: kit.MemoryKeys) -> None:
    message = await kit.message(keys, kit.turn("hi"), device_timestamp_ms=kit.NOW_MS + 24 * HOUR_MS)
    assert event_of(await kit.handled(stage, message, kit.position_of())).stated_at_ms == kit.NOW_MS


async def test_a_destroyed_key_passes_as_erased_without_a_dead_letter(stage: Extract, keys: kit.MemoryKeys) -> None:
    envelope = await kit.sealed_envelope(keys, kit.turn("我叫小明"))
    keys.destroyed.add(envelope.body.key_id)
    message = kit.CODEC.encode(envelope)
    with pytest.raises(Rejected) as refused:
        await kit.handled(stage, message, kit.position_of())
    refusal = await kit.refusal(stage, message, kit.position_of(), refused.value)
    event = event_of(refusal.result)
    assert (event.status, event.body, event.origin) == ("erased", None, kit.position_of())
    assert not refusal.dead


async def test_a_record_in_another_users_partition_is_refused_and_waited_for_by_nobody(
    stage: Extract, keys: kit.MemoryKeys
) -> None:
    right = kit.position_of()
    wrong = Origin((right.partition + 1) % 4, right.offset)
    message = await kit.message(keys, kit.turn("hi"))
    with pytest.raises(Rejected) as refused:
        await kit.handled(stage, message, wrong)
    assert refused.value.code == "bad_partition"
    refusal = await kit.refusal(stage, message, wrong, refused.value)
    assert refusal.dead
    assert refusal.result.outputs == ()


async def test_reasons_never_quote_what_was_said(stage: Extract, keys: kit.MemoryKeys) -> None:
    for message, _, _ in (await _bad_inputs(keys)).values():
        with pytest.raises(Rejected) as refused:
            await kit.handled(stage, message, kit.position_of())
        assert "hello" not in refused.value.reason
