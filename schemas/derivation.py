"""Avro schemas derived from the record classes, so that contract and code cannot drift apart.

Called by the ``python -m schemas.commit`` tool and by the test that compares the newest committed schema with its class.
Not called at run time: workers read the committed files.
"""

import types
import typing
from typing import Any, get_args, get_origin

import msgspec

from schemas.errors import Misconfigured

_PRIMITIVES: dict[type, str] = {str: "string", bytes: "bytes", bool: "boolean", int: "long", float: "double"}
NAMESPACE = "engram"


def avro_schema(record: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the Avro schema of ``record``: one self-contained record, nested records defined where they first occur."""
    return _record(record, set())


def _record(record: type[msgspec.Struct], defined: set[str]) -> dict[str, Any]:
    defined.add(record.__name__)
    hints = typing.get_type_hints(record)
    return {
        "type": "record",
        "name": record.__name__,
        "namespace": NAMESPACE,
        "fields": [_field(field, hints[field.name], defined) for field in msgspec.structs.fields(record)],
    }


def _field(field: Any, hint: Any, defined: set[str]) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": field.name, "type": _type(hint, defined)}
    if field.default is not msgspec.NODEFAULT:
        default = field.default
        spec["default"] = default.decode("latin-1") if isinstance(default, bytes) else _plain(default)
    elif field.default_factory is not msgspec.NODEFAULT:
        spec["default"] = _plain(field.default_factory())
    return spec


def _plain(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


def _type(hint: Any, defined: set[str]) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, typing.Union) and type(None) in arguments:
        inner = next(a for a in arguments if a is not type(None))
        return ["null", _type(inner, defined)]
    if origin is tuple:
        return {"type": "array", "items": _type(arguments[0], defined)}
    if origin is dict:
        return {"type": "map", "values": _type(arguments[1], defined)}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"{NAMESPACE}.{hint.__name__}" if hint.__name__ in defined else _record(hint, defined)
    if hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    raise Misconfigured(f"no Avro type is defined for {hint!r}")
