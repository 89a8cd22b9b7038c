"""Typed ids: their pattern, how they are checked, and how derived ids are made.

Called wherever an id enters (producer, ``extract``, ``working``, command line) or is derived (``decide``). Pure: chance
and time come in as arguments, so a replay derives the same ids.
"""

import hashlib
import re
import uuid
from typing import NewType

from schemas.errors import Rejected

TenantId = NewType("TenantId", str)
UserId = NewType("UserId", str)
SessionId = NewType("SessionId", str)
EventId = NewType("EventId", str)
MemoryId = NewType("MemoryId", str)
ProposalId = NewType("ProposalId", str)

ID_PATTERN = re.compile(r"^[A-Za-z0-9_.:@-]{1,128}\Z")
_MEMORY_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_NAMESPACE = uuid.UUID("6f0f5c0e-6d0a-5f0b-9a3e-0c5d4b7e2a11")


def check_id(name: str, value: str | None) -> str:
    """Return ``value`` if it is a valid id; ``name`` is the field for the error text.

    Raises ``Rejected`` (code ``bad_id``) when it is missing, empty or outside ``^[A-Za-z0-9_.:@-]{1,128}$``.
    """
    if not value:
        raise Rejected(f"{name} is missing or empty", code="bad_id")
    if not ID_PATTERN.match(value):
        raise Rejected(f"{name} must be 1 to 128 characters of A-Z a-z 0-9 _ . : @ -", code="bad_id")
    return value


def user_id_of_name(name: str) -> UserId:
    """Map a person's name to a ``user_id``: kept if it is a valid id, else ``u_`` + 32 hex digits of its SHA-256."""
    if ID_PATTERN.match(name):
        return UserId(name)
    return UserId("u_" + hashlib.sha256(name.encode()).hexdigest()[:32])


def is_memory_id(text: str) -> bool:
    """Return whether ``text`` is an id in the one form that memories have: a UUID in lower case with hyphens."""
    return _MEMORY_ID.match(text) is not None


def derived_id(*parts: str) -> str:
    """Return the UUID (version 5, text form) that these parts always give."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(parts)))


def routing_key(tenant_id: str, user_id: str) -> bytes:
    """Return the Kafka key ``tenant/user``; ``/`` is in no id, so two users never share a key."""
    return f"{tenant_id}/{user_id}".encode()
