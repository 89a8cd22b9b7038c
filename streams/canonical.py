"""The one text form of a JSON value, so that hashes and keys do not depend on who wrote the text.

Called by ``decide``, the content hash and the readers of Postgres (``jsonb`` gives another text than it got). Pure.
"""

import json
from typing import Any

from schemas.errors import Rejected

_LIMIT_DIGITS = 400


def canonical_value(text: str) -> str:
    """Return the JSON text of the same value: sorted names, no spaces, whole numbers without exponent or fraction.

    Raises ``Rejected`` (``bad_value``) for text that is not JSON or holds what Postgres cannot keep.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_number, parse_int=_number)
        canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        canonical.encode()
    except (ValueError, RecursionError) as error:
        raise Rejected(f"the value is not JSON: {error}", code="bad_value") from error
    if "\\u0000" in canonical:
        raise Rejected("the value holds a NUL character", code="bad_value")
    return canonical


def canonical_json(value: Any) -> bytes:
    """Return plain data (dictionaries, lists, scalars) as canonical JSON bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _number(text: str) -> int | float:
    if len(text) > _LIMIT_DIGITS:
        raise ValueError("a number is too long")
    number = float(text)
    # Overflow gives infinity, which allow_nan refuses; int() of it must not be tried.
    if number in (float("inf"), float("-inf")):
        return number
    try:
        return int(text)
    except ValueError:
        return int(number) if number.is_integer() else number


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
