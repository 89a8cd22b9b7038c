"""Records in and out of ``Sealed``: encode and encrypt, decrypt and decode.

Called by the producer, the stages and ``remember``. It draws the nonce; where keys live is the key store's business.
"""

import secrets
from typing import TypeVar

import msgspec

from schemas.codec import Codec
from schemas.inputs import Sealed
from schemas.sealing import NONCE_BYTES, DataKey, seal, unseal

R = TypeVar("R", bound=msgspec.Struct)


def seal_record(codec: Codec, record: msgspec.Struct, key: DataKey) -> Sealed:
    """Return ``record`` as framed Avro, encrypted with ``key`` and a fresh nonce; raises ``Rejected`` (``bad_record``)."""
    return seal(codec.encode(record), key, secrets.token_bytes(NONCE_BYTES))


def open_record(codec: Codec, sealed: Sealed, key: DataKey, record_type: type[R]) -> R:
    """Return the record in ``sealed``; raises ``Rejected`` (``bad_seal``, ``bad_avro``, ``unknown_schema``)."""
    return codec.decode(unseal(sealed, key), record_type)
