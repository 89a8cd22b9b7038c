"""What the codec writes is, byte for byte, what the reference writer gives, for every record we have."""

import io
import types
import typing
from typing import Any, get_args, get_origin

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from schemas.candidates import Relation, Vector
from schemas.codec import Codec, plain
from schemas.encoding import writer_of
from schemas.errors import Misconfigured, Rejected
from schemas.memories import Edge, MemoryVectors
from schemas.registry import FileRegistry
from schemas.subjects import SUBJECTS

CODEC, REGISTRY = Codec(), FileRegistry()
PRIMITIVES: dict[type, st.SearchStrategy[Any]] = {
    str: st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    bytes: st.binary(max_size=80),
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63 - 1) | st.integers(-5000, 5000),
    float: st.floats(),
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Return everything that a field of this type can hold."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return st.none() | values(next(a for a in arguments if a is not type(None)))
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(values(str), values(arguments[1]), max_size=3)
    if issubclass(hint, msgspec.Struct):
        return records(hint)
    return PRIMITIVES[hint]


def records(record_type: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(record_type)
    fields = {name: values(hints[name]) for name in record_type.__struct_fields__}
    return st.fixed_dictionaries(fields).map(lambda given_fields: record_type(**given_fields))


@given(st.data())
@pytest.mark.parametrize("record_type", SUBJECTS, ids=lambda kind: kind.__name__)
def test_the_bytes_are_those_of_the_reference_writer(record_type: type[msgspec.Struct], data: st.DataObject) -> None:
    record = data.draw(records(record_type))
    schema_id, schema = REGISTRY.writer_of_subject(record_type.__name__)
    out = io.BytesIO()
    out.write(b"\x00" + schema_id.to_bytes(4, "big"))
    fastavro.schemaless_writer(out, schema, plain(record), strict=True)
    assert CODEC.encode(record) == out.getvalue()


EDGE = Edge(kind="FOLLOWS", target_kind="memory", target_id="m")
RELATION = Relation(subject_type="user", subject_id="u", predicate="p", object_type="x", object_id="y")


@pytest.mark.parametrize(
    "vectors",
    [None, "text", 7, (7,), (None,), (EDGE,), (Vector(None, b""),), (Vector("r", "text"),)],  # type: ignore[arg-type]
    ids=["none", "text", "number", "of numbers", "of none", "of others", "no text", "no bytes"],
)
def test_a_nested_value_of_a_wrong_type_is_refused(vectors: Any) -> None:
    with pytest.raises(Rejected, match="MemoryVectors does not fit") as refused:
        CODEC.encode(MemoryVectors(memory_id="m", vectors=vectors))
    assert refused.value.code == "bad_record"


@pytest.mark.parametrize(("name", "value"), [("version", 2**63), ("version", 1.0), ("version", True), ("locked", 1)])
def test_numbers_are_refused_that_are_not_of_the_type(name: str, value: Any) -> None:
    memory_type = next(kind for kind in SUBJECTS if kind.__name__ == "Memory")
    texts = dict.fromkeys(memory_type.__struct_fields__[:16], "")
    numbers = dict.fromkeys(("version", "body_version", "stated_at_ms", "created_at_ms", "updated_at_ms"), 1)
    memory = memory_type(**texts, **numbers, status="active", content_hash="")
    memory = replace(memory, importance=0.5, confidence=1, edges=(EDGE,), relations=(RELATION,))
    assert CODEC.decode(CODEC.encode(memory), memory_type) == memory
    with pytest.raises(Rejected, match="does not fit"):
        CODEC.encode(replace(memory, **{name: value}))


def test_a_record_with_another_shape_than_its_schema_is_refused() -> None:
    wider = msgspec.defstruct("MemoryVectors", [("memory_id", str), ("vectors", tuple), ("more", str)])
    with pytest.raises(Rejected, match="fields that its schema does not know"):
        CODEC.encode(wider("m", (), ""))
    narrower = msgspec.defstruct("MemoryVectors", [("memory_id", str)])
    with pytest.raises(Rejected, match="does not fit"):
        CODEC.encode(narrower("m"))


def test_a_schema_with_a_type_that_no_record_has_is_refused_at_once() -> None:
    schema = fastavro.parse_schema(
        {"type": "record", "name": "X", "fields": [{"name": "a", "type": ["null", "int", "string"]}]}
    )
    with pytest.raises(Misconfigured, match="no writer"):
        writer_of(schema)
