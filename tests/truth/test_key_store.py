"""Keys: wrapped twice, one user at a time, destroyed for good, cached for a bounded time."""

import asyncio

import pytest

from schemas.errors import Misconfigured, Rejected
from schemas.settings import Settings
from streams.expiring import Expiring
from streams.key_store import KeyStore
from streams.postgres import connect

KEY = "acme", "alice"


def test_an_entry_is_forgotten_on_time_and_the_oldest_first() -> None:
    now = [0.0]
    cache: Expiring[str, int] = Expiring(10, 2, now=lambda: now[0])
    cache.put("a", 1)
    now[0] = 9.9
    assert cache.get("a") == 1
    now[0] = 10.0
    assert cache.get("a") is None
    for name in "abc":
        cache.put(name, 0)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, 0, 0)


@pytest.mark.stack
async def test_keys_come_back_from_another_process_and_are_never_stored_plain(settings: Settings) -> None:
    one, two = await KeyStore.open(settings), await KeyStore.open(settings)
    made = await one.mint(*KEY, 5)
    assert len({key.material for key in made}) == 5
    assert [await two.key(*KEY, key.key_id) for key in made] == list(made)
    assert made[0].material.hex() not in repr(made)
    admin = await connect(settings, settings.postgres_admin_user, database=settings.postgres_keys_database)
    stored = await (
        await admin.execute("SELECT wrapped FROM data_keys UNION ALL SELECT wrapped FROM user_keys")
    ).fetchall()
    assert not any(key.material in wrapped for key in made for (wrapped,) in stored)
    assert await one.mint(*KEY, 0) == ()
    await admin.close()
    await one.close()
    await two.close()


@pytest.mark.stack
async def test_a_destroyed_key_is_erased_and_an_unknown_one_is_unknown(settings: Settings) -> None:
    store, fresh = await KeyStore.open(settings), await KeyStore.open(settings)
    first, second = await store.mint(*KEY, 2)
    await store.destroy_keys(*KEY, [first.key_id, first.key_id])
    await store.destroy_keys(*KEY, [first.key_id])
    for reader in (store, fresh):
        with pytest.raises(Rejected) as erased:
            await reader.key(*KEY, first.key_id)
        assert erased.value.code == "erased"
        assert await reader.key(*KEY, second.key_id) == second
        for name in ("11111111-1111-1111-1111-111111111111", "nonsense", "'; DROP TABLE data_keys; --"):
            with pytest.raises(Rejected) as unknown:
                await reader.key(*KEY, name)
            assert unknown.value.code == "unknown_key"
    for tenant, user in (("acme", "bob"), ("globex", "alice")):
        with pytest.raises(Rejected) as foreign:
            await fresh.key(tenant, user, second.key_id)
        assert foreign.value.code == "unknown_key"
    await store.close()
    await fresh.close()


@pytest.mark.stack
async def test_destroying_a_user_ends_all_keys_of_that_user_alone(settings: Settings) -> None:
    store, gateway = await KeyStore.open(settings), await KeyStore.open(settings)
    (mine,) = await gateway.mint(*KEY, 1)
    (other,) = await store.mint("acme", "bob", 1)
    await store.destroy_user(*KEY)
    fresh = await KeyStore.open(settings)
    with pytest.raises(Rejected, match="destroyed"):
        await fresh.key(*KEY, mine.key_id)
    assert await fresh.key("acme", "bob", other.key_id) == other
    # The gateway still has the destroyed user key in its cache: what it mints now must open all the same.
    (again,) = await gateway.mint(*KEY, 1)
    assert await fresh.key(*KEY, again.key_id) == again
    for each in (store, gateway, fresh):
        await each.close()


@pytest.mark.stack
async def test_the_first_keys_of_a_user_may_be_made_by_many_at_once(settings: Settings) -> None:
    stores = [await KeyStore.open(settings) for _ in range(4)]
    made = await asyncio.gather(*(store.mint(*KEY, 3) for store in stores))
    fresh = await KeyStore.open(settings)
    for key in (key for keys in made for key in keys):
        assert await fresh.key(*KEY, key.key_id) == key
    for each in (*stores, fresh):
        await each.close()


@pytest.mark.stack
async def test_a_cached_key_is_forgotten_after_the_time_that_is_set(settings: Settings) -> None:
    reader = await KeyStore.open(settings.model_copy(update={"key_cache_seconds": 0.000001}))
    store = await KeyStore.open(settings)
    (key,) = await store.mint(*KEY, 1)
    assert await reader.key(*KEY, key.key_id) == key
    await store.destroy_keys(*KEY, [key.key_id])
    with pytest.raises(Rejected, match="destroyed"):
        await reader.key(*KEY, key.key_id)
    await store.close()
    await reader.close()


@pytest.mark.stack
async def test_another_master_key_is_named_as_the_mistake(settings: Settings) -> None:
    store = await KeyStore.open(settings)
    (key,) = await store.mint(*KEY, 1)
    await store.close()
    other = type(settings)(**{**settings.model_dump(), "master_key": "A" * 43 + "="})
    wrong = await KeyStore.open(other)
    with pytest.raises(Misconfigured, match="ENGRAM_MASTER_KEY"):
        await wrong.key(*KEY, key.key_id)
    await wrong.close()
