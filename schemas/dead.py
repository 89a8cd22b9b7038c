"""Dead letters: what could not be processed, as it came, with where and why.

Written by every stage; read by operators.
"""

from msgspec import Struct


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A record that was refused: its origin (topic, partition, offset), its bytes as they came, and the reason."""

    stage: str
    topic: str
    partition: int
    offset: int
    code: str
    reason: str
    at_ms: int
    key: bytes | None = None
    value: bytes | None = None
    tenant_id: str = ""
    user_id: str = ""
    event_id: str = ""
