"""Bytes and records: Avro with Confluent framing (magic 0, 4-byte schema id, body), strict both ways.

Called by everything that touches a topic. Encoding refuses unknown fields and wrong types; decoding checks the magic,
the id, the subject, that the whole buffer is consumed, and that the result has the record's shape.
"""

import io
import struct
from typing import Any, TypeVar

import fastavro
import msgspec

from schemas.encoding import Writer, writer_of
from schemas.errors import EngramError, Rejected
from schemas.registry import FileRegistry, HttpRegistry, Registry
from schemas.settings import Settings

R = TypeVar("R", bound=msgspec.Struct)
MAGIC = 0
_HEADER = struct.Struct(">bI")
_RAW = (bytes,)


class Codec:
    """Encodes and decodes records by class; the subject is the class's name.

    ``schemas`` is the registry to use; without one, the committed files are read.
    """

    def __init__(self, schemas: Registry | None = None) -> None:
        self._registry = schemas or FileRegistry()
        self._writers: dict[type[msgspec.Struct], tuple[bytes, Writer]] = {}

    def encode(self, record: msgspec.Struct) -> bytes:
        """Return the framed bytes of ``record``; raises ``Rejected`` (``bad_record``) when it does not fit its schema."""
        known = self._writers.get(type(record))
        header, write = known or self._writer(type(record))
        try:
            return header + write(record)
        except (ValueError, TypeError, OverflowError, AttributeError, struct.error) as error:
            raise Rejected(f"{type(record).__name__} does not fit its schema: {error}", code="bad_record") from error

    def _writer(self, record_type: type[msgspec.Struct]) -> tuple[bytes, Writer]:
        schema_id, schema = self._registry.writer_of_subject(record_type.__name__)
        made = (_HEADER.pack(MAGIC, schema_id), writer_of(schema))
        self._writers[record_type] = made
        return made

    def decode(self, data: bytes, record_type: type[R]) -> R:
        """Return the record in ``data``; raises ``Rejected`` (``bad_avro``, ``unknown_schema``) when it is not exactly one."""
        if len(data) < _HEADER.size or data[0] != MAGIC:
            raise Rejected("the bytes are not framed Avro (magic 0 and a schema id)", code="bad_avro")
        schema_id = _HEADER.unpack_from(data)[1]
        subject, written = self._registry.schema_of_id(schema_id)
        if subject != record_type.__name__:
            raise Rejected(f"expected {record_type.__name__}, found {subject}", code="bad_avro")
        reader_id, reader = self._registry.writer_of_subject(subject)
        body = io.BytesIO(data)
        body.seek(_HEADER.size)
        try:
            plain = fastavro.schemaless_reader(body, written, None if reader_id == schema_id else reader)
            consumed = body.tell()
            record = msgspec.convert(plain, record_type)
        except EngramError:
            raise
        except Exception as error:
            raise Rejected(f"the bytes are not a valid {subject}: {type(error).__name__}", code="bad_avro") from error
        if consumed != len(data):
            raise Rejected(f"{len(data) - consumed} bytes follow the {subject}", code="bad_avro")
        return record


def codec_of(settings: Settings) -> Codec:
    """Return the codec that everything here reads and writes with: by the registry of ``settings``, or the committed files."""
    return Codec(HttpRegistry(settings.schema_registry_url) if settings.schema_registry_url else None)


def plain(record: msgspec.Struct) -> Any:
    """Return ``record`` as plain dictionaries, lists and scalars (bytes stay bytes)."""
    return msgspec.to_builtins(record, builtin_types=_RAW)
