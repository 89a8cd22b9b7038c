"""What events of sessions were about: unsealed with the key store, one query a user, for the mapping to InfluxDB.

Called by the wiring of the worker. A destroyed key is an answer (``None``), not an error.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from projectors.mapping import OpenPayloads, Payload
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.sealing import DataKey
from schemas.working import WorkingEvent, WorkingPayload
from streams.sealed_records import open_record

_USERS_AT_ONCE = 8


class Keys(Protocol):
    """What is needed of the key store."""

    async def keys(self, tenant_id: str, user_id: str, key_ids: Sequence[str]) -> Mapping[str, DataKey | Rejected]:
        """Return each data key, or why it does not open (``erased``, ``unknown_key``); raises ``Retryable``."""
        ...


def payload_opener(codec: Codec, keys: Keys) -> OpenPayloads:
    """Return the function that gives the payload of each event, ``None`` where its key was destroyed or it has no body.

    A body that cannot be read comes back as ``Rejected``, in its place. The function raises ``Retryable`` when the key store
    is away.
    """

    async def open_payloads(events: Sequence[WorkingEvent]) -> list[Payload]:
        wanted: dict[tuple[str, str], dict[str, None]] = {}
        for event in events:
            if event.body is not None:
                wanted.setdefault((event.tenant_id, event.user_id), {})[event.body.key_id] = None
        turnstile = asyncio.Semaphore(_USERS_AT_ONCE)

        async def of_user(user: tuple[str, str]) -> Mapping[str, DataKey | Rejected]:
            async with turnstile:
                try:
                    return await keys.keys(*user, list(wanted[user]))
                except Rejected as error:
                    return dict.fromkeys(wanted[user], error)

        found = dict(zip(wanted, await asyncio.gather(*map(of_user, wanted)), strict=True))
        return [_payload(codec, event, found.get((event.tenant_id, event.user_id), {})) for event in events]

    return open_payloads


def _payload(codec: Codec, event: WorkingEvent, keys: Mapping[str, DataKey | Rejected]) -> Payload:
    if event.body is None:
        return None
    key = keys[event.body.key_id]
    if isinstance(key, Rejected):
        return None if key.code == "erased" else key
    try:
        return open_record(codec, event.body, key, WorkingPayload)
    except Rejected as error:
        return error
