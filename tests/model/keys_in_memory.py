"""The key store in memory: what ``KeyStore`` answers, without a database and without chance."""

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence

from schemas.errors import Rejected
from schemas.ids import check_id
from schemas.sealing import DataKey, KeyName, opened_key


class KeysInMemory:
    """A destroyed key stays known as destroyed; one user's key is unknown to any other."""

    def __init__(self) -> None:
        self._held: dict[KeyName, DataKey | None] = {}

    async def mint(self, tenant_id: str, user_id: str, count: int) -> tuple[DataKey, ...]:
        return tuple(self.minted(tenant_id, user_id) for _ in range(count))

    async def mint_for(self, counts: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], tuple[DataKey, ...]]:
        return {user: await self.mint(*user, count) for user, count in counts.items() if count > 0}

    def minted(self, tenant_id: str, user_id: str) -> DataKey:
        """Make one key, always the same as the n-th."""
        name = f"key {len(self._held)}"
        key = DataKey(str(uuid.uuid5(uuid.NAMESPACE_OID, name)), hashlib.sha256(name.encode()).digest())
        self._held[tenant_id, user_id, key.key_id] = key
        return key

    async def keys_of(self, names: Iterable[KeyName]) -> dict[KeyName, DataKey | Rejected]:
        return {name: self._found(name) for name in names}

    async def key(self, tenant_id: str, user_id: str, key_id: str) -> DataKey:
        return opened_key(self._found((tenant_id, user_id, key_id)))

    async def destroy_keys(self, tenant_id: str, user_id: str, key_ids: Sequence[str]) -> None:
        for key_id in key_ids:
            if (tenant_id, user_id, key_id) in self._held:
                self._held[tenant_id, user_id, key_id] = None

    async def destroy_user(self, tenant_id: str, user_id: str) -> None:
        await self.destroy_keys(tenant_id, user_id, self.known(tenant_id, user_id))

    async def close(self) -> None:
        self._held.clear()

    def known(self, tenant_id: str, user_id: str) -> list[str]:
        """Return the ids of a user's keys, destroyed ones included, oldest first."""
        return [name[2] for name in self._held if name[:2] == (tenant_id, user_id)]

    def is_destroyed(self, tenant_id: str, user_id: str, key_id: str) -> bool:
        return self._held[tenant_id, user_id, key_id] is None

    def _found(self, name: KeyName) -> DataKey | Rejected:
        tenant_id, user_id, key_id = name
        try:
            check_id("tenant_id", tenant_id)
            check_id("user_id", user_id)
            stored = (tenant_id, user_id, str(uuid.UUID(key_id)))
        except Rejected as error:
            return error
        except ValueError:
            return Rejected("the key id is not a UUID", code="unknown_key")
        if stored not in self._held:
            return Rejected("the key is unknown to the key store", code="unknown_key")
        found = self._held[stored]
        return Rejected("the key of this record was destroyed", code="erased") if found is None else found
