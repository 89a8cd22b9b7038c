"""What an event of a session was about: unsealed with the key store, for the mapping to InfluxDB.

Called by the wiring of the worker. A destroyed key is an answer (``None``), not an error.
"""

from typing import Protocol

from projectors.mapping import OpenPayload
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.sealing import DataKey
from schemas.working import WorkingEvent, WorkingPayload
from streams.sealed_records import open_record


class Keys(Protocol):
    """What is needed of the key store."""

    async def key(self, tenant_id: str, user_id: str, key_id: str) -> DataKey:
        """Return a data key; raises ``Rejected`` (``erased``, ``unknown_key``) or ``Retryable``."""
        ...


def payload_opener(codec: Codec, keys: Keys) -> OpenPayload:
    """Return the function that gives an event's payload, or ``None`` when its key was destroyed or it has no body.

    The function raises ``Rejected`` when the body cannot be read, and ``Retryable`` when the key store is away.
    """

    async def open_payload(event: WorkingEvent) -> WorkingPayload | None:
        if event.body is None:
            return None
        try:
            key = await keys.key(event.tenant_id, event.user_id, event.body.key_id)
        except Rejected as error:
            if error.code == "erased":
                return None
            raise
        return open_record(codec, event.body, key, WorkingPayload)

    return open_payload
