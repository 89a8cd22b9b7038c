"""Framing, strictness both ways, and what hostile bytes may do: be refused, nothing else."""

import io
import json
import shutil
import struct
from pathlib import Path

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from schemas.candidates import Candidate, Extraction, Relation, Vector
from schemas.codec import Codec
from schemas.compatibility import check, problems_between
from schemas.derivation import avro_schema
from schemas.errors import Misconfigured, Rejected
from schemas.inputs import InputEnvelope, Origin, Sealed, TurnRecorded
from schemas.proposals import Proposal
from schemas.registry import AVRO_FOLDER, FileRegistry, fingerprint
from schemas.subjects import SUBJECTS

CODEC = Codec()
ENVELOPE = InputEnvelope(
    event_id="e1",
    kind="turn",
    tenant_id="acme",
    user_id="小明".encode().hex(),
    session_id="s",
    received_at_ms=1_764_000_000_000,
    timezone_offset="+08:00",
    override_rules=("zh.injection.1",),
    body=Sealed("k", b"n" * 12, b"\x00\xff"),
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def test_every_subject_is_committed_and_compatible() -> None:
    assert check() == []


@given(texts, st.none() | texts, st.lists(texts, max_size=3))
def test_a_turn_survives_the_round_trip(user: str, answer: str | None, recalled: list[str]) -> None:
    turn = TurnRecorded(user_message=user, assistant_message=answer, recalled_memory_ids=tuple(recalled))
    assert CODEC.decode(CODEC.encode(turn), TurnRecorded) == turn


@given(texts, st.floats(0, 1), st.binary(max_size=64))
def test_a_nested_record_survives_the_round_trip(text: str, confidence: float, values: bytes) -> None:
    candidate = Candidate(
        ordinal=0,
        type="fact",
        subject="user",
        entity_type="user",
        entity_id="self",
        attribute="likes",
        value=json.dumps(text),
        content=text,
        language="zh",
        confidence=confidence,
        importance=0.7,
        source="user_statement",
        relations=(
            Relation(subject_type="user", subject_id="self", predicate="likes", object_type="x", object_id=text),
        ),
        vectors=(Vector("use-m3-1", values),),
    )
    record = Extraction(status="extracted", candidates=(candidate, candidate))
    assert CODEC.decode(CODEC.encode(record), Extraction) == record


def test_defaults_of_maps_are_not_shared() -> None:
    proposal = Proposal(
        proposal_id="p",
        kind="edit",
        tenant_id="t",
        user_id="u",
        actor="a",
        occurred_at_ms=1,
        stated_at_ms=1,
        received_at_ms=1,
    )
    other = CODEC.decode(CODEC.encode(replace(proposal, origin=Origin(1, 2))), Proposal)
    assert other.origin == Origin(1, 2)
    assert other.expected_versions is not proposal.expected_versions


GOOD = CODEC.encode(ENVELOPE)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "bad_avro"),
        (b"\x00\x00", "bad_avro"),
        (b'{"tenant": "acme"}', "bad_avro"),
        (b"\x01" + GOOD[1:], "bad_avro"),
        (b"\x00" + struct.pack(">I", 9999) + GOOD[5:], "unknown_schema"),
        (GOOD + b"\x00", "bad_avro"),
        (GOOD[:-1], "bad_avro"),
        (CODEC.encode(TurnRecorded(user_message="你好")), "bad_avro"),
    ],
    ids=["empty", "short", "json", "magic", "unknown id", "trailing", "cut", "other subject"],
)
def test_bytes_that_are_not_the_record_are_refused(data: bytes, code: str) -> None:
    with pytest.raises(Rejected) as refused:
        CODEC.decode(data, InputEnvelope)
    assert refused.value.code == code


@given(st.binary(max_size=200))
def test_hostile_bodies_are_refused_or_a_record_but_never_anything_else(body: bytes) -> None:
    try:
        record = CODEC.decode(GOOD[:5] + body, InputEnvelope)
    except Rejected:
        return
    assert CODEC.decode(CODEC.encode(record), InputEnvelope) == record


def test_invalid_utf8_is_refused() -> None:
    data = GOOD.replace(b"acme", b"ac\xff\xfe")
    with pytest.raises(Rejected, match="not a valid InputEnvelope"):
        CODEC.decode(data, InputEnvelope)


def test_an_unpaired_surrogate_is_refused_when_encoding() -> None:
    with pytest.raises(Rejected, match="does not fit"):
        CODEC.encode(TurnRecorded(user_message="\ud83d"))


@pytest.mark.parametrize("value", [None, 7, b"bytes"])
def test_a_wrong_type_is_refused_when_encoding(value: object) -> None:
    with pytest.raises(Rejected, match="does not fit"):
        CODEC.encode(replace(ENVELOPE, event_id=value))


def test_data_of_an_older_version_is_read_by_todays_code(tmp_path: Path) -> None:
    folder = tmp_path / "avro"
    shutil.copytree(AVRO_FOLDER, folder)
    older = avro_schema(InputEnvelope)
    older["fields"] = [f for f in older["fields"] if f["name"] != "released_from"]
    (folder / "InputEnvelope" / "0.avsc").write_text(json.dumps(older))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["InputEnvelope"].insert(0, {"version": 0, "id": 900, "sha256": fingerprint(older)})
    (folder / "manifest.json").write_text(json.dumps(manifest))
    out = io.BytesIO(struct.pack(">bI", 0, 900))
    out.seek(5)
    plain = {f: getattr(ENVELOPE, f) for f in ENVELOPE.__struct_fields__ if f != "released_from"}
    plain["body"] = {"key_id": "k", "nonce": b"n" * 12, "ciphertext": b"\x00\xff"}
    fastavro.schemaless_writer(out, fastavro.parse_schema(older), plain)
    assert Codec(FileRegistry(folder)).decode(out.getvalue(), InputEnvelope) == ENVELOPE


def test_a_breaking_change_is_named() -> None:
    older = avro_schema(InputEnvelope)
    newer = avro_schema(InputEnvelope)
    newer["fields"].append({"name": "mood", "type": "string"})
    assert any("mood" in problem for problem in problems_between(newer, older))
    retyped = avro_schema(InputEnvelope)
    retyped["fields"][0] = {"name": "event_id", "type": "long"}
    assert any("string" in problem for problem in problems_between(retyped, older))


def test_a_schema_changed_after_commit_stops_the_registry(tmp_path: Path) -> None:
    shutil.copytree(AVRO_FOLDER, tmp_path / "avro")
    path = tmp_path / "avro" / "Proposal" / "1.avsc"
    path.write_text(path.read_text().replace('"actor"', '"acting"'))
    with pytest.raises(Misconfigured, match=r"Proposal/1\.avsc was changed"):
        FileRegistry(tmp_path / "avro")


def test_ids_and_names_are_unique() -> None:
    registry = FileRegistry()
    ids = [registry.writer_of_subject(record.__name__)[0] for record in SUBJECTS]
    assert len(set(ids)) == len(SUBJECTS)
