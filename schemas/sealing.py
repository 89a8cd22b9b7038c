"""Sealing: texts in the log are encrypted with data keys, so that erasing is destroying keys.

Called by the producer, every stage and the relay. Pure: keys and nonces come in as arguments; where keys live is the
business of the key store.
"""

from typing import TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Struct

from schemas.errors import Rejected
from schemas.inputs import Sealed

KEY_BYTES = 32
NONCE_BYTES = 12
KeyName: TypeAlias = tuple[str, str, str]
"""A data key's name: tenant, user, key id."""


class DataKey(Struct, frozen=True):
    """A data key: its id and 32 bytes of material. Its text form never shows the material."""

    key_id: str
    material: bytes

    def __repr__(self) -> str:
        return f"DataKey({self.key_id})"


def opened_key(found: DataKey | Rejected) -> DataKey:
    """Return what was found under a key's name, or raise it."""
    if isinstance(found, Rejected):
        raise found
    return found


def seal(plaintext: bytes, key: DataKey, nonce: bytes) -> Sealed:
    """Encrypt ``plaintext`` (AES-256-GCM, the key id as associated data); ``nonce`` has 12 bytes and is used once per key."""
    return Sealed(key.key_id, nonce, AESGCM(key.material).encrypt(nonce, plaintext, key.key_id.encode()))


def unseal(sealed: Sealed, key: DataKey) -> bytes:
    """Decrypt; raises ``Rejected`` (code ``bad_seal``) when key, nonce or ciphertext do not belong together."""
    try:
        return AESGCM(key.material).decrypt(sealed.nonce, sealed.ciphertext, sealed.key_id.encode())
    except (InvalidTag, ValueError) as error:
        raise Rejected("the sealed text does not open with its key", code="bad_seal") from error


def derive_key(master: bytes, purpose: str) -> bytes:
    """Return the 32-byte key for ``purpose`` that ``master`` always gives (HKDF-SHA-256)."""
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=purpose.encode()).derive(master)
