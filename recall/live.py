"""A memory as the read path needs it: the live row of Postgres, without what only the write path uses.

Pure. Times are milliseconds since the epoch, ``value`` is a JSON text.
"""

from msgspec import Struct


class LiveMemory(Struct, frozen=True):
    """One row of ``memories``; the order of the fields is that of the columns in ``sql/live_rows.sql``."""

    memory_id: str
    tenant_id: str
    user_id: str
    subject: str
    category: str
    type: str
    attribute: str
    value: str
    content: str
    importance: float
    confidence: float
    source: str
    status: str
    version: int
    stated_at_ms: int
    valid_from_ms: int | None
    valid_to_ms: int | None
    expires_at_ms: int | None
    tags: tuple[str, ...]
