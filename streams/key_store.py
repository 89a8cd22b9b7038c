"""The key store: data keys wrapped by a key per user, that one wrapped by the master key.

An authority of its own, in its own database: never rebuilt from the log. Called by gateways (through the producer), every
stage and the relay's readers. Destroying a key is how content leaves the log; caches live ``key_cache_seconds`` at most.
"""

import secrets
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from schemas.errors import Misconfigured, Rejected, Retryable
from schemas.sealing import KEY_BYTES, NONCE_BYTES, DataKey, derive_key
from schemas.settings import Settings
from streams.expiring import Expiring
from streams.postgres import Connection, Pool, borrowed, pool, scoped, sql

ROLE = "engram_keys"
_CACHED_KEYS = 10_000
_TRIES = 3


class UserKey(NamedTuple):
    """A user's key in use: its generation and material."""

    generation: int
    material: bytes

    def __repr__(self) -> str:
        return f"UserKey({self.generation})"


class KeyStore:
    """Mints, opens and destroys keys; make one with ``open`` and end it with ``close``."""

    def __init__(self, connections: Pool, master: bytes, cache_seconds: float) -> None:
        self._connections = connections
        self._master = derive_key(master, "user-keys")
        self._data_keys: Expiring[tuple[str, str, str], DataKey] = Expiring(cache_seconds, _CACHED_KEYS)
        self._user_keys: Expiring[tuple[str, str], UserKey] = Expiring(cache_seconds, _CACHED_KEYS)

    @classmethod
    async def open(cls, settings: Settings, *, max_connections: int = 4) -> "KeyStore":
        """Connect to the key store; raises ``Retryable`` (no server) or ``Misconfigured`` (no master key)."""
        master = settings.master_key_bytes()
        connections = await pool(settings, ROLE, max_connections, database=settings.postgres_keys_database)
        return cls(connections, master, settings.key_cache_seconds)

    async def close(self) -> None:
        """Close the connections and forget every key."""
        self._data_keys.clear()
        self._user_keys.clear()
        await self._connections.close()

    async def mint(self, tenant_id: str, user_id: str, count: int) -> tuple[DataKey, ...]:
        """Return ``count`` new data keys of a user, stored before they are returned; one write for all of them."""
        if count < 1:
            return ()
        made = tuple(DataKey(str(uuid.uuid4()), secrets.token_bytes(KEY_BYTES)) for _ in range(count))
        async with borrowed(self._connections) as connection:
            for _ in range(_TRIES):
                owner = await self._user_key(connection, tenant_id, user_id)
                if await _store(connection, tenant_id, user_id, owner, made):
                    for key in made:
                        self._data_keys.put((tenant_id, user_id, key.key_id), key)
                    return made
                # The user was erased since the key was cached: begin with the next generation.
                self._user_keys.drop((tenant_id, user_id))
        raise Retryable("the user's key is being replaced while data keys are made")

    async def key(self, tenant_id: str, user_id: str, key_id: str) -> DataKey:
        """Return a data key; raises ``Rejected``: ``erased`` when it was destroyed, ``unknown_key`` when this user has none."""
        cached = self._data_keys.get((tenant_id, user_id, key_id))
        if cached is not None:
            return cached
        try:
            identity = str(uuid.UUID(key_id))
        except ValueError:
            raise Rejected("the key id is not a UUID", code="unknown_key") from None
        names = {"tenant_id": tenant_id, "user_id": user_id, "key_id": identity}
        async with borrowed(self._connections) as connection, scoped(connection, tenant_id, user_id):
            row = await (await connection.execute(sql("data_key"), names, binary=True)).fetchone()
        if row is None:
            raise Rejected("the key is unknown to the key store", code="unknown_key")
        nonce, wrapped, _, owner_nonce, owner_wrapped = row
        if wrapped is None or owner_wrapped is None:
            raise Rejected("the key of this record was destroyed", code="erased")
        owner = self._unwrap(self._master, owner_nonce, owner_wrapped, f"{tenant_id}/{user_id}")
        key = DataKey(key_id, self._unwrap(owner, nonce, wrapped, f"{tenant_id}/{user_id}/{identity}"))
        self._data_keys.put((tenant_id, user_id, key_id), key)
        return key

    async def destroy_keys(self, tenant_id: str, user_id: str, key_ids: Sequence[str]) -> None:
        """Destroy data keys of a user; other processes forget them within ``key_cache_seconds``. Repeating is harmless."""
        names = {"tenant_id": tenant_id, "user_id": user_id, "key_ids": list(key_ids)}
        async with borrowed(self._connections) as connection, scoped(connection, tenant_id, user_id):
            await connection.execute(sql("data_keys_destroy"), names)
        for key_id in key_ids:
            self._data_keys.drop((tenant_id, user_id, key_id))

    async def destroy_user(self, tenant_id: str, user_id: str) -> None:
        """Destroy every key of a user; a returning user gets a new one. Repeating is harmless."""
        names = {"tenant_id": tenant_id, "user_id": user_id}
        async with borrowed(self._connections) as connection, scoped(connection, tenant_id, user_id):
            await connection.execute(sql("user_keys_destroy"), names)
        self._user_keys.drop((tenant_id, user_id))
        self._data_keys.drop_where(lambda name: name[:2] == (tenant_id, user_id))

    async def _user_key(self, connection: Connection, tenant_id: str, user_id: str) -> UserKey:
        cached = self._user_keys.get((tenant_id, user_id))
        if cached is not None:
            return cached
        names = {"tenant_id": tenant_id, "user_id": user_id}
        for _ in range(_TRIES):
            async with scoped(connection, tenant_id, user_id):
                row = await (await connection.execute(sql("user_key"), names, binary=True)).fetchone()
                if row is None:
                    nonce, wrapped = _wrap(self._master, secrets.token_bytes(KEY_BYTES), f"{tenant_id}/{user_id}")
                    await connection.execute(sql("user_key_create"), {**names, "nonce": nonce, "wrapped": wrapped})
            if row is not None:
                material = self._unwrap(self._master, row[1], row[2], f"{tenant_id}/{user_id}")
                owner = UserKey(row[0], material)
                self._user_keys.put((tenant_id, user_id), owner)
                return owner
        raise Retryable("the user's key could not be made")

    @staticmethod
    def _unwrap(key: bytes, nonce: bytes, wrapped: bytes, name: str) -> bytes:
        try:
            return AESGCM(key).decrypt(nonce, wrapped, name.encode())
        except InvalidTag:
            raise Misconfigured("ENGRAM_MASTER_KEY is not the key that this key store was made with") from None


def _wrap(key: bytes, material: bytes, name: str) -> tuple[bytes, bytes]:
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce, AESGCM(key).encrypt(nonce, material, name.encode())


async def _store(
    connection: Connection, tenant_id: str, user_id: str, owner: UserKey, made: tuple[DataKey, ...]
) -> bool:
    """Insert the wrapped keys; return False when the user's key is not alive any more."""
    pairs = [_wrap(owner.material, key.material, f"{tenant_id}/{user_id}/{key.key_id}") for key in made]
    async with scoped(connection, tenant_id, user_id):
        cursor = await connection.execute(
            sql("data_keys_create"),
            {
                "tenant_id": tenant_id,
                "user_id": user_id,
                "generation": owner.generation,
                "key_ids": [key.key_id for key in made],
                "nonces": [nonce for nonce, _ in pairs],
                "wrapped": [wrapped for _, wrapped in pairs],
            },
        )
        return cursor.rowcount == len(made)
