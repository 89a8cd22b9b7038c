"""What the door to InfluxDB promises: one suite, run on the fake and on the real server."""

import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from fakes import FakeDoor
from projector_samples import event

from projectors.door import Door
from projectors.entries import Entry, Fingerprint, Generation
from projectors.influx import InfluxDoor
from projectors.line_protocol import lines, rfc3339
from projectors.projection import InfluxPoint, influx_point
from schemas.errors import Misconfigured, Rejected, Retryable
from schemas.settings import Settings
from schemas.working import WorkingPayload

GENERATION = Generation("influx", 1)
OTHER = Generation("influx", 2)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.stack)])
async def door(request: pytest.FixtureRequest) -> AsyncIterator[Door[InfluxPoint]]:
    if request.param == "fake":
        yield FakeDoor[InfluxPoint]("influx")
        return
    opened = InfluxDoor(request.getfixturevalue("settings"))
    yield opened
    await opened.drop(GENERATION)
    await opened.drop(OTHER)
    await opened.close()


def point(sequence: int, text: str = "hello", **changes: str) -> InfluxPoint:
    return influx_point(event(sequence, **changes), WorkingPayload(masked_input=text, fields={"allergy": "花生"}))


async def entries(door: Door[InfluxPoint], generation: Generation = GENERATION) -> list[Entry]:
    return [entry async for entry in door.fingerprints(generation)]


def expected(points: Sequence[InfluxPoint]) -> list[Entry]:
    return [
        Entry(
            one.key,
            one.tenant_id,
            one.user_id,
            Fingerprint(one.sequence, one.content_hash, "", one.event_id),
        )
        for one in sorted(points, key=lambda one: one.key)
    ]


async def test_a_prepared_generation_is_empty(door: Door[InfluxPoint]) -> None:
    await door.healthy()
    await door.prepare(GENERATION)
    await door.prepare(GENERATION)
    assert await door.count(GENERATION) == 0
    assert await entries(door) == []
    assert await door.fingerprints_of(GENERATION, [point(1).key]) == {}


async def test_entries_come_in_key_order(door: Door[InfluxPoint]) -> None:
    await door.prepare(GENERATION)
    points = [
        point(sequence, tenant_id=tenant_id, user_id=user_id, session_id=session_id, event_type=f"Event{sequence % 2}")
        for tenant_id in ("t2", "t1", "T1")
        for user_id in ("u1", "u.1", "u", "U:9")
        for session_id in ("s-2", "s10", "s1")
        for sequence in (3, 1, 2, 11)
    ]
    await door.write(GENERATION, points)
    assert await entries(door) == expected(points)
    assert await door.count(GENERATION) == len(points)
    some = points[5:40:3]
    assert await door.fingerprints_of(GENERATION, [one.key for one in some]) == {
        entry.key: entry for entry in expected(some)
    }


async def test_a_replay_overwrites_a_point_with_itself(door: Door[InfluxPoint]) -> None:
    await door.prepare(GENERATION)
    await door.write(GENERATION, [point(1), point(2)])
    await door.write(GENERATION, [point(2), point(1)])
    assert await entries(door) == expected([point(1), point(2)])


async def test_generations_do_not_see_each_other(door: Door[InfluxPoint]) -> None:
    await door.prepare(GENERATION)
    await door.prepare(OTHER)
    await door.write(GENERATION, [point(1)])
    await door.write(OTHER, [point(2)])
    await door.drop(GENERATION)
    await door.drop(GENERATION)
    assert await entries(door, OTHER) == expected([point(2)])


async def test_an_orphaned_event_removes_its_point_wherever_it_stands(door: Door[InfluxPoint]) -> None:
    await door.prepare(GENERATION)
    other = point(1, user_id="u2", event_id=point(1).event_id)
    await door.write(GENERATION, [point(1), point(2), other])
    await door.write(GENERATION, [point(1, event_type="orphaned", session_id="", event_id=point(1).event_id)])
    assert await entries(door) == expected([point(2), other])


async def test_a_forced_point_replaces_every_point_of_its_event(door: Door[InfluxPoint]) -> None:
    await door.prepare(GENERATION)
    misplaced = replace(point(1), time_ns=point(1).time_ns + 1_000_000)
    wrong_type = point(1, event_type="Forged", content_hash="forged")
    await door.write(GENERATION, [point(2), misplaced, wrong_type])
    await door.write(GENERATION, [point(1)], forced=True)
    assert await entries(door) == expected([point(1), point(2)])


async def test_a_forced_point_leaves_its_neighbours(door: Door[InfluxPoint]) -> None:
    await door.prepare(GENERATION)
    at_ms = event(1).occurred_at_ms
    points = [influx_point(event(sequence, occurred_at_ms=at_ms), None) for sequence in (1, 2, 3)]
    assert [one.time_ns - points[0].time_ns for one in points] == [0, 1, 2]
    await door.write(GENERATION, points)
    await door.write(GENERATION, [points[1]], forced=True)
    assert await entries(door) == expected(points)


class Recorder(BaseHTTPRequestHandler):
    """A server that says which version it is, has no points, and remembers what it was asked to delete."""

    version = ""
    status = 204
    answer = b""

    def do_GET(self) -> None:
        self._reply(204)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith("/query"):
            self._reply(200, b'{"results":[{"statement_id":0}]}')
            return
        if "/delete" in self.path:
            self.server.deleted.append(json.loads(body))  # type: ignore[attr-defined]
        self._reply(self.status, self.answer)

    def _reply(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("X-Influxdb-Version", self.version)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def recording(version: str, status: int = 204, answer: bytes = b"") -> Iterator[tuple[Settings, list[Any]]]:
    handler = type("Recording", (Recorder,), {"version": version, "status": status, "answer": answer})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.deleted = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Settings(influx_url=f"http://127.0.0.1:{server.server_port}"), server.deleted  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("version", "stop"), [("1.8.10", "8Z"), ("1.13.0", "8Z"), ("v2.7.1", "7Z"), ("2.9.0", "7Z")])
async def test_a_delete_takes_one_point_only(version: str, stop: str) -> None:
    """InfluxDB 2 removes what stands at the stop as well, and the next event may stand there."""
    with recording(version) as (settings, deleted):
        door = InfluxDoor(settings)
        await door.write(GENERATION, [replace(point(1), time_ns=1_790_000_000_000_000_007)], forced=True)
        await door.close()
    start = "2026-09-21T14:13:20.000000007Z"
    assert [(one["start"], one["stop"]) for one in deleted] == [(start, start[:-2] + stop)]


@pytest.mark.parametrize("secret", ["我的密码是花生", "my password is peanut"])
@pytest.mark.parametrize("status", [400, 422, 500])
async def test_a_refusal_does_not_repeat_the_line(secret: str, status: int) -> None:
    answer = json.dumps({"code": "invalid", "message": f"unable to parse '{secret}'"}, ensure_ascii=False).encode()
    with recording("1.8.10", status, answer) as (settings, _):
        door = InfluxDoor(settings)
        with pytest.raises(Rejected if status < 500 else Retryable) as raised:
            await door.write(GENERATION, [point(1, secret)])
        await door.close()
    assert secret not in str(raised.value)
    assert str(status) in str(raised.value)


@pytest.mark.stack
async def test_two_types_at_one_time_equal_no_truth(settings: Settings) -> None:
    door = InfluxDoor(settings)
    await door.prepare(GENERATION)
    await door.write(GENERATION, [point(1), point(1, event_type="Forged")])
    (entry,) = await entries(door)
    assert "+" in entry.fingerprint.content_hash
    await door.write(GENERATION, [point(1)], forced=True)
    assert await entries(door) == expected([point(1)])
    await door.drop(GENERATION)
    await door.close()


@pytest.mark.stack
@pytest.mark.parametrize(
    "text", ['say "hi" \\ and\nmore', "ends with \\", "名字=张总, 地址", "'; DROP DATABASE x", "🙂"]
)
async def test_texts_are_read_back_as_they_were(settings: Settings, text: str) -> None:
    door = InfluxDoor(settings)
    await door.prepare(GENERATION)
    await door.write(GENERATION, [point(1, text)])
    name = f"{settings.topic_prefix.replace('.', '_')}engram_g1"
    answers = list(door._query("SELECT masked_input, fields FROM working_memory", name))
    assert answers[0]["series"][0]["values"][0][1:] == [text, '{"allergy":"花生"}']
    hidden = influx_point(event(1), None)
    await door.write(GENERATION, [hidden])
    answers = list(door._query("SELECT masked_input, fields FROM working_memory", name))
    assert [value[1:] for value in answers[0]["series"][0]["values"]] == [["", "{}"]]
    await door.drop(GENERATION)
    await door.close()


@pytest.mark.stack
async def test_what_is_away_can_be_tried_again_and_a_wrong_token_cannot(settings: Settings) -> None:
    door = InfluxDoor(settings)
    with pytest.raises(Retryable):
        await door.write(OTHER, [point(1)])
    with pytest.raises(Retryable):
        await door.count(OTHER)
    await door.close()
    away = InfluxDoor(settings.model_copy(update={"influx_url": "http://127.0.0.1:1", "store_timeout_seconds": 1.0}))
    with pytest.raises(Retryable):
        await away.healthy()
    await away.close()
    from pydantic import SecretStr

    wrong = InfluxDoor(settings.model_copy(update={"influx_token": SecretStr("engram:wrong")}))
    with pytest.raises(Misconfigured):
        await wrong.count(GENERATION)
    await wrong.close()


def test_lines_escape_what_would_end_them() -> None:
    odd = replace(point(1), event_type="a b,c=d", event_id='x"y\\')
    assert lines([odd]).startswith(b"working_memory,event_type=a\\ b\\,c\\=d,session_id=s1,tenant_id=t1,user_id=u1 ")
    assert b'event_id="x\\"y\\\\"' in lines([odd])


def test_times_have_nanoseconds() -> None:
    assert rfc3339(1_790_000_000_000_000_007) == "2026-09-21T14:13:20.000000007Z"
