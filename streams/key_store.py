"""The key store: data keys wrapped by a key per user, that one wrapped by the master key.

An authority of its own, in its own database: never rebuilt from the log. Called by gateways (through the producer), every
stage and the relay's readers. Destroying a key is how content leaves the log; caches live ``key_cache_seconds`` at most.
"""

import re
import secrets
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from schemas.errors import Misconfigured, Rejected, Retryable
from schemas.ids import check_id
from schemas.sealing import KEY_BYTES, NONCE_BYTES, DataKey, KeyName, derive_key, opened_key
from schemas.settings import Settings
from streams.expiring import Expiring
from streams.postgres import Connection, Pool, borrowed, pool, scoped, sql, translated

ROLE = "engram_keys"
_CACHED_KEYS = 10_000
_TRIES = 3
_PLAIN = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
Answer = TypeVar("Answer")
UserName: TypeAlias = tuple[str, str]


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
        database = settings.postgres_keys_database
        connections = await pool(settings, ROLE, max_connections, database=database, autocommit=True)
        return cls(connections, master, settings.key_cache_seconds)

    async def close(self) -> None:
        """Close the connections and forget every key."""
        self._data_keys.clear()
        self._user_keys.clear()
        await self._connections.close()

    async def mint(self, tenant_id: str, user_id: str, count: int) -> tuple[DataKey, ...]:
        """Return ``count`` new data keys of a user, stored before they are returned; one write for all of them."""
        return (await self.mint_for({(tenant_id, user_id): count})).get((tenant_id, user_id), ())

    async def mint_for(self, counts: Mapping[UserName, int]) -> dict[UserName, tuple[DataKey, ...]]:
        """Return so many new data keys of each user (tenant, user), stored before they are returned; one write for all.

        Raises ``Retryable``, and ``Rejected`` (``bad_id``) for a name that is none.
        """
        wanted = {user: count for user, count in counts.items() if count > 0}
        if not wanted:
            return {}
        return await self._on_connection(lambda connection: self._mint_for(connection, wanted))

    async def _mint_for(
        self, connection: Connection, wanted: Mapping[UserName, int]
    ) -> dict[UserName, tuple[DataKey, ...]]:
        made: dict[UserName, tuple[DataKey, ...]] = {}
        for _ in range(_TRIES):
            left = {
                user: tuple(DataKey(str(uuid.uuid4()), secrets.token_bytes(KEY_BYTES)) for _ in range(count))
                for user, count in wanted.items()
                if user not in made
            }
            owners = {user: await self._user_key(connection, *user) for user in left}
            for user in await _store(connection, left, owners):
                made[user] = left[user]
                for key in left[user]:
                    self._data_keys.put((*user, key.key_id), key)
            if len(made) == len(wanted):
                return made
            for user in wanted.keys() - made.keys():
                # The user was erased since the key was cached: begin with the next generation.
                self._user_keys.drop(user)
        raise Retryable("the user's key is being replaced while data keys are made")

    async def key(self, tenant_id: str, user_id: str, key_id: str) -> DataKey:
        """Return a data key; raises ``Rejected``: ``erased`` when it was destroyed, ``unknown_key`` when this user has none.

        ``bad_seal`` says that what is stored of it is damaged.
        """
        name = (tenant_id, user_id, key_id)
        return opened_key((await self.keys_of([name]))[name])

    async def keys_of(self, names: Iterable[KeyName]) -> dict[KeyName, DataKey | Rejected]:
        """Return the data key under each name (tenant, user, key id), or why it does not open; one round trip for all.

        Raises ``Retryable``, and ``Misconfigured`` when the master key is another one.
        """
        found: dict[KeyName, DataKey | Rejected] = {}
        wanted: dict[KeyName, KeyName] = {}
        for name in names:
            cached = self._data_keys.get(name)
            if cached is not None:
                found[name] = cached
                continue
            tenant_id, user_id, key_id = name
            try:
                check_id("tenant_id", tenant_id)
                check_id("user_id", user_id)
                wanted[name] = name if _PLAIN.fullmatch(key_id) else (tenant_id, user_id, str(uuid.UUID(key_id)))
            except Rejected as error:
                found[name] = error
            except ValueError:
                found[name] = Rejected("the key id is not a UUID", code="unknown_key")
        if wanted:
            rows = await self._read(list(wanted.values()))
            owners: dict[tuple[str, str, int], AESGCM] = {}
            for name, stored in wanted.items():
                key = self._opened(stored, rows.get(stored), owners)
                found[name] = key if isinstance(key, Rejected) else self._kept(name, key)
        return found

    async def _read(self, names: Sequence[KeyName]) -> dict[KeyName, tuple[Any, ...]]:
        columns = {
            "tenant_ids": [tenant_id for tenant_id, _, _ in names],
            "user_ids": [user_id for _, user_id, _ in names],
            "key_ids": [key_id for _, _, key_id in names],
        }

        async def read(connection: Connection) -> list[tuple[Any, ...]]:
            with translated():
                return await (await connection.execute(sql("data_keys"), columns, binary=True)).fetchall()

        return {row[:3]: row[3:] for row in await self._on_connection(read)}

    def _kept(self, name: KeyName, key: DataKey) -> DataKey:
        """Return ``key`` under the id it was asked for, and remember it."""
        if key.key_id != name[2]:
            key = DataKey(name[2], key.material)
        self._data_keys.put(name, key)
        return key

    def _opened(
        self, name: KeyName, row: tuple[Any, ...] | None, owners: dict[tuple[str, str, int], AESGCM]
    ) -> DataKey | Rejected:
        """Return the key in ``row``; ``owners`` has the user keys that were unwrapped for this answer already."""
        if row is None:
            return Rejected("the key is unknown to the key store", code="unknown_key")
        tenant_id, user_id, key_id = name
        nonce, wrapped, generation, owner_nonce, owner_wrapped = row
        if wrapped is None or owner_wrapped is None:
            return Rejected("the key of this record was destroyed", code="erased")
        user = f"{tenant_id}/{user_id}"
        owner = owners.get((tenant_id, user_id, generation))
        if owner is None:
            owner = AESGCM(self._unwrap(owner_nonce, owner_wrapped, user))
            owners[tenant_id, user_id, generation] = owner
        try:
            return DataKey(key_id, owner.decrypt(nonce, wrapped, f"{user}/{key_id}".encode()))
        except (InvalidTag, ValueError):
            # The user's key opened, so the master key is right: this one row is damaged, and the rest can go on.
            return Rejected("the key of this record is damaged in the key store", code="bad_seal")

    async def _on_connection(self, work: Callable[[Connection], Awaitable[Answer]]) -> Answer:
        """Do ``work`` with a connection; once more with another one where the first turned out to be lost.

        A restarted server leaves dead connections behind, which is nobody's error. ``work`` may be begun twice.
        """
        async with borrowed(self._connections) as connection:
            try:
                return await work(connection)
            except Retryable:
                if not connection.broken:
                    raise
        async with borrowed(self._connections) as connection:
            return await work(connection)

    async def destroy_keys(self, tenant_id: str, user_id: str, key_ids: Sequence[str]) -> None:
        """Destroy data keys of a user; other processes forget them within ``key_cache_seconds``. Repeating is harmless."""
        names = {"tenant_id": tenant_id, "user_id": user_id, "key_ids": list(key_ids)}
        await self._on_connection(lambda connection: _execute(connection, "data_keys_destroy", names))
        for key_id in key_ids:
            self._data_keys.drop((tenant_id, user_id, key_id))

    async def destroy_user(self, tenant_id: str, user_id: str) -> None:
        """Destroy every key of a user; a returning user gets a new one. Repeating is harmless."""
        names = {"tenant_id": tenant_id, "user_id": user_id}
        await self._on_connection(lambda connection: _execute(connection, "user_keys_destroy", names))
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
                material = self._unwrap(row[1], row[2], f"{tenant_id}/{user_id}")
                owner = UserKey(row[0], material)
                self._user_keys.put((tenant_id, user_id), owner)
                return owner
        raise Retryable("the user's key could not be made")

    def _unwrap(self, nonce: bytes, wrapped: bytes, name: str) -> bytes:
        """Return the material of a user's key; only this one tells whether the master key is right."""
        try:
            return AESGCM(self._master).decrypt(nonce, wrapped, name.encode())
        except InvalidTag:
            raise Misconfigured("ENGRAM_MASTER_KEY is not the key that this key store was made with") from None


async def _execute(connection: Connection, statement: str, names: dict[str, Any]) -> None:
    async with scoped(connection, names["tenant_id"], names["user_id"]):
        await connection.execute(sql(statement), names)


def _wrap(key: bytes, material: bytes, name: str) -> tuple[bytes, bytes]:
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce, AESGCM(key).encrypt(nonce, material, name.encode())


async def _store(
    connection: Connection, made: Mapping[UserName, Sequence[DataKey]], owners: Mapping[UserName, UserKey]
) -> list[UserName]:
    """Insert the wrapped keys; return the users whose key was still alive."""
    rows = [
        (
            *user,
            owners[user].generation,
            key.key_id,
            *_wrap(owners[user].material, key.material, f"{user[0]}/{user[1]}/{key.key_id}"),
        )
        for user, keys in made.items()
        for key in keys
    ]
    names = ("tenant_ids", "user_ids", "generations", "key_ids", "nonces", "wrapped")
    columns = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    with translated():
        cursor = await connection.execute(sql("data_keys_make"), columns)
        return [(tenant_id, user_id) for tenant_id, user_id in await cursor.fetchall()]
