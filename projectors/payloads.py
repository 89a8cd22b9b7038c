"""What events of sessions were about: unsealed with the key store, one query a batch, for the mapping to InfluxDB.

Called by the wiring of the worker. A destroyed key is an answer (``None``), not an error.
"""

from collections.abc import Sequence

from projectors.mapping import OpenPayloads, Payload
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.sealing import DataKey
from schemas.working import WorkingEvent, WorkingPayload
from streams.inputs import Keys
from streams.sealed_records import open_record


def payload_opener(codec: Codec, keys: Keys) -> OpenPayloads:
    """Return the function that gives the payload of each event, ``None`` where its key was destroyed or it has no body.

    A body that cannot be read comes back as ``Rejected``, in its place. The function raises ``Retryable`` when the key store
    is away.
    """

    async def open_payloads(events: Sequence[WorkingEvent]) -> list[Payload]:
        names = [
            (event.tenant_id, event.user_id, event.body.key_id) if event.body is not None else None for event in events
        ]
        found = await keys.keys_of({name: None for name in names if name is not None})
        return [
            None if name is None else _payload(codec, event, found[name])
            for event, name in zip(events, names, strict=True)
        ]

    return open_payloads


def _payload(codec: Codec, event: WorkingEvent, key: DataKey | Rejected) -> Payload:
    if event.body is None:
        return None
    if isinstance(key, Rejected):
        return None if key.code == "erased" else key
    try:
        return open_record(codec, event.body, key, WorkingPayload)
    except Rejected as error:
        return error
