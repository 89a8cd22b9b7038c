"""Ids, keys, routing, sealing, settings: each law with the case that breaks it."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from aiokafka.partitioner import murmur2
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import Codec
from schemas.derivation import avro_schema
from schemas.errors import Misconfigured, Rejected, Retryable
from schemas.ids import check_id, derived_id, routing_key, user_id_of_name
from schemas.inputs import Sealed, TurnRecorded
from schemas.registry import HttpRegistry
from schemas.routing import partition_of
from schemas.sealing import DataKey, derive_key, seal, unseal
from schemas.settings import load_settings

KEY = DataKey("key-1", b"k" * 32)


@pytest.mark.parametrize("value", ["u", "a.b_c:d@e-f", "A" * 128, "0"])
def test_ids_inside_the_pattern_pass(value: str) -> None:
    assert check_id("user_id", value) == value


@pytest.mark.parametrize("value", [None, "", "a b", "张三", "a/b", 'a" or 1=1', "A" * 129, "a\n", "a\x00"])
def test_ids_outside_the_pattern_are_refused(value: str | None) -> None:
    with pytest.raises(Rejected, match="user_id") as refused:
        check_id("user_id", value)
    assert refused.value.code == "bad_id"


def test_a_name_becomes_a_user_id() -> None:
    assert user_id_of_name("alice") == "alice"
    assert user_id_of_name("张曼婷") == user_id_of_name("张曼婷")
    assert user_id_of_name("张曼婷") != user_id_of_name("李华")
    assert len(user_id_of_name("Mary Ann")) == 34
    assert check_id("user_id", user_id_of_name("")) == user_id_of_name("")


@given(st.text(max_size=5), st.text(max_size=5))
def test_derived_ids_depend_on_every_part(left: str, right: str) -> None:
    assert derived_id(left, right) == derived_id(left, right)
    if left != right:
        assert derived_id("a", left) != derived_id("a", right)


def test_partitions_are_those_of_kafkas_default_partitioner() -> None:
    # Kafka's Java client gives -973932308 for the key "21".
    assert murmur2(b"21") == -973932308 & 0xFFFFFFFF
    assert routing_key("acme", "小明") == "acme/小明".encode()
    assert {partition_of("acme", f"user-{n}", 24) for n in range(1000)} == set(range(24))


@given(st.binary(max_size=100), st.binary(min_size=12, max_size=12))
def test_what_is_sealed_opens_with_its_key_alone(text: bytes, nonce: bytes) -> None:
    sealed = seal(text, KEY, nonce)
    assert unseal(sealed, KEY) == text
    with pytest.raises(Rejected, match="does not open"):
        unseal(sealed, DataKey("key-1", b"x" * 32))
    with pytest.raises(Rejected, match="does not open"):
        unseal(Sealed("key-2", sealed.nonce, sealed.ciphertext), DataKey("key-2", KEY.material))


def test_a_data_key_never_shows_its_material() -> None:
    assert "kkk" not in repr(KEY)
    assert derive_key(b"m" * 32, "a") != derive_key(b"m" * 32, "b")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ENGRAM_PARTITIONS", "many", "ENGRAM_PARTITIONS is wrong"),
        ("ENGRAM_PARTITIONS", "0", "ENGRAM_PARTITIONS is wrong"),
        ("ENGRAM_MASTER_KEY", "not base64!", "ENGRAM_MASTER_KEY is wrong: must be 32 bytes"),
        (
            "ENGRAM_MASTER_KEY",
            base64.urlsafe_b64encode(b"short").decode(),
            "ENGRAM_MASTER_KEY is wrong: must be 32 bytes",
        ),
        ("ENGRAM_POSTGRES_DATABASE", "a; drop", "ENGRAM_POSTGRES_DATABASE is wrong"),
        ("ENGRAM_CRASH_AT", "after_commit", "ENGRAM_CRASH_AT is wrong"),
        ("ENGRAM_KEY_CACHE_SECONDS", "60", "ENGRAM_KEY_CACHE_SECONDS is wrong"),
    ],
)
def test_a_wrong_setting_is_one_sentence_that_names_it(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Misconfigured) as wrong:
        load_settings()
    assert str(wrong.value).startswith(said)
    assert "\n" not in str(wrong.value)
    if "KEY" in name and "CACHE" not in name:
        assert value not in str(wrong.value)


def test_a_missing_master_key_is_said_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENGRAM_MASTER_KEY", raising=False)
    with pytest.raises(Misconfigured, match="ENGRAM_MASTER_KEY is not set"):
        load_settings().master_key_bytes()


class _Registry(BaseHTTPRequestHandler):
    """A registry that speaks the protocol over a real socket: one schema under id 41."""

    def do_GET(self) -> None:
        schema = json.dumps(avro_schema(TurnRecorded))
        answers = {
            "/schemas/ids/41": {"schema": schema},
            "/subjects/TurnRecorded/versions/latest": {"id": 41, "schema": schema},
        }
        found = answers.get(self.path)
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(json.dumps(found or {"error_code": 40403}).encode())

    def log_message(self, *arguments: object) -> None:
        """Say nothing on the test's output."""


@pytest.fixture
def registry_url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_registry_server_serves_the_same_codec(registry_url: str) -> None:
    codec = Codec(HttpRegistry(registry_url))
    turn = TurnRecorded(user_message="我叫小明")
    data = codec.encode(turn)
    assert data[:5] == b"\x00\x00\x00\x00\x29"
    assert codec.decode(data, TurnRecorded) == turn
    with pytest.raises(Rejected, match="does not know"):
        codec.decode(b"\x00\x00\x00\x00\x2a" + data[5:], TurnRecorded)


def test_a_registry_that_is_away_is_retryable_and_a_wrong_url_is_not() -> None:
    with pytest.raises(Retryable, match="does not answer"):
        HttpRegistry("http://127.0.0.1:9", timeout_seconds=0.5).schema_of_id(1)
    with pytest.raises(Misconfigured, match="must start with http"):
        HttpRegistry("file:///etc/passwd")
