"""Payloads of sessions: unsealed for InfluxDB, gone where the key is gone."""

import secrets
from collections.abc import Sequence
from dataclasses import replace

import pytest
from fakes import FakeDoor
from projector_kit import CODEC
from projector_samples import event

from projectors.batch import Change
from projectors.entries import Generation
from projectors.mapping import InfluxMapping
from projectors.payloads import payload_opener
from projectors.projection import InfluxPoint
from schemas.errors import Rejected
from schemas.inputs import Sealed
from schemas.memories import Repair
from schemas.sealing import KEY_BYTES, KeyName
from schemas.settings import Settings
from schemas.working import WorkingEvent, WorkingPayload
from streams.key_store import KeyStore
from streams.sealed_records import seal_record

pytestmark = pytest.mark.stack
GENERATION = Generation("influx", 1)
PAYLOAD = WorkingPayload(masked_input="我对花生过敏", fields={"allergy": "花生"})


class Record:
    """A Kafka record, as far as a mapping looks."""

    def __init__(self, value: bytes, headers: tuple[tuple[str, bytes], ...] = ()) -> None:
        self.topic, self.partition, self.offset, self.key = "working.events", 0, 0, b"k"
        self.value = value
        self.headers = headers


@pytest.fixture
async def keys(settings: Settings):  # type: ignore[no-untyped-def]
    opened = await KeyStore.open(settings)
    yield opened
    await opened.close()


async def points(keys: KeyStore, *events: WorkingEvent) -> list[Change[InfluxPoint] | Rejected]:
    mapping = InfluxMapping(CODEC, payload_opener(CODEC, keys))
    return await mapping.changes([Record(CODEC.encode(one)) for one in events], GENERATION)


async def test_a_payload_is_opened_with_its_own_key(keys: KeyStore) -> None:
    made = await keys.mint("t1", "u1", 20)
    events = [
        event(number, body=seal_record(CODEC, replace_text(number), key)) for number, key in enumerate(made, start=1)
    ]
    changes = await points(keys, *events, event(99))
    shown = [change.item.masked_input for change in changes if isinstance(change, Change)]
    assert shown == [*(f"text {number}" for number in range(1, 21)), ""]


def replace_text(number: int) -> WorkingPayload:
    return WorkingPayload(masked_input=f"text {number}", fields=PAYLOAD.fields)


async def test_a_destroyed_key_leaves_a_point_without_text(keys: KeyStore) -> None:
    (key,) = await keys.mint("t1", "u1", 1)
    sealed = event(1, body=seal_record(CODEC, PAYLOAD, key))
    (before,) = await points(keys, sealed)
    assert isinstance(before, Change)
    assert (before.item.masked_input, before.item.fields) == ("我对花生过敏", '{"allergy":"花生"}')
    await keys.destroy_keys("t1", "u1", [key.key_id])
    (after,) = await points(keys, sealed)
    assert isinstance(after, Change)
    assert after.problem is None
    assert after.item == replace(before.item, masked_input="", fields="{}")
    door = FakeDoor[InfluxPoint]("influx")
    await door.prepare(GENERATION)
    await door.write(GENERATION, [before.item])
    await door.write(GENERATION, [after.item])
    assert [entry.key async for entry in door.fingerprints(GENERATION)] == [before.key]


async def test_a_broken_body_is_a_dead_letter_and_still_a_point(keys: KeyStore) -> None:
    (key,) = await keys.mint("t1", "u1", 1)
    sealed = seal_record(CODEC, PAYLOAD, key)
    broken = Sealed(sealed.key_id, sealed.nonce, secrets.token_bytes(len(sealed.ciphertext)))
    foreign = Sealed("00000000-0000-4000-8000-000000000000", sealed.nonce, secrets.token_bytes(KEY_BYTES))
    changes = await points(keys, event(1, body=broken), event(2, body=foreign))
    assert [change.problem.code for change in changes if isinstance(change, Change) and change.problem] == [
        "bad_seal",
        "unknown_key",
    ]
    assert [change.item.masked_input for change in changes if isinstance(change, Change)] == ["", ""]


async def test_the_keys_of_a_batch_are_asked_for_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    store, fresh = await KeyStore.open(settings), await KeyStore.open(settings)
    events = []
    for user in ("u1", "u2"):
        made = await store.mint("t1", user, 3)
        events += [event(n, user_id=user, body=seal_record(CODEC, PAYLOAD, key)) for n, key in enumerate(made, start=1)]
    await store.destroy_keys("t1", "u2", [made[1].key_id])
    asked: list[int] = []
    read = fresh._read

    async def counted(names: Sequence[KeyName]) -> dict[KeyName, tuple[object, ...]]:
        asked.append(len(names))
        return await read(names)

    monkeypatch.setattr(fresh, "_read", counted)
    changes = await points(fresh, *events, event(9, user_id="u3"))
    shown = [change.item.masked_input for change in changes if isinstance(change, Change)]
    assert shown == [PAYLOAD.masked_input] * 4 + ["", PAYLOAD.masked_input, ""]
    assert asked == [6]
    await store.close()
    await fresh.close()


async def test_another_users_key_opens_nothing(keys: KeyStore) -> None:
    (key,) = await keys.mint("t1", "u1", 1)
    (change,) = await points(keys, event(1, user_id="u2", body=seal_record(CODEC, PAYLOAD, key)))
    assert isinstance(change, Change)
    assert change.problem is not None
    assert change.item.masked_input == ""


async def test_what_is_no_event_is_refused_and_a_bad_header_makes_an_ordinary_event(keys: KeyStore) -> None:
    mapping = InfluxMapping(CODEC, payload_opener(CODEC, keys))
    good = Repair(store="influx", generation=1, observed_version=-1)
    results = await mapping.changes(
        [
            Record(b""),
            Record(b"\x00junk!"),
            Record(CODEC.encode(event(1)), (("repair", b"{broken"),)),
            Record(CODEC.encode(event(2)), (("other", b""), ("repair", json_of(good)))),
            Record(CODEC.encode(event(3, event_type=""))),
        ],
        GENERATION,
    )
    assert [one.code if isinstance(one, Rejected) else one.repair for one in results] == [
        "empty_record",
        "unknown_schema",
        None,
        good,
        "bad_id",
    ]


def json_of(record: Repair) -> bytes:
    import msgspec

    return msgspec.json.encode(record)
