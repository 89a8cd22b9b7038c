"""Keys: wrapped twice, one user at a time, destroyed for good, cached for a bounded time."""

import asyncio
from collections.abc import Sequence

import pytest
from psycopg.errors import InsufficientPrivilege
from truth_bench import opened
from truth_world import asked, candidate, said

from schemas.errors import Misconfigured, Rejected
from schemas.sealing import KeyName
from schemas.settings import Settings
from streams.expiring import Expiring
from streams.key_store import ROLE, KeyStore
from streams.postgres import Connection, connect

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


@pytest.mark.stack
async def test_many_keys_come_with_one_query_and_each_says_why_it_does_not_open(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, fresh = await KeyStore.open(settings), await KeyStore.open(settings)
    made = await store.mint(*KEY, 5)
    (foreign,) = await store.mint("acme", "bob", 1)
    await store.destroy_keys(*KEY, [made[0].key_id])
    assert await fresh.key(*KEY, made[4].key_id) == made[4]
    queries: list[Sequence[KeyName]] = []
    read = fresh._read

    async def counted(names: Sequence[KeyName]) -> dict[KeyName, tuple[object, ...]]:
        queries.append(names)
        return await read(names)

    monkeypatch.setattr(fresh, "_read", counted)
    key_ids = [*(key.key_id for key in made), foreign.key_id, "nonsense", made[1].key_id.upper()]
    bobs, nobodys = ("acme", "bob", foreign.key_id), ("", "alice", made[2].key_id)
    found = await fresh.keys_of([*((*KEY, key_id) for key_id in key_ids), bobs, nobodys])
    assert [found[*KEY, key.key_id] for key in made[1:]] == list(made[1:])
    assert found[bobs] == foreign
    assert {name: one.code for name, one in found.items() if isinstance(one, Rejected)} == {
        (*KEY, made[0].key_id): "erased",
        (*KEY, foreign.key_id): "unknown_key",
        (*KEY, "nonsense"): "unknown_key",
        nobodys: "bad_id",
    }
    again = found[*KEY, made[1].key_id.upper()]
    assert not isinstance(again, Rejected)
    assert again.material == made[1].material
    assert len(queries) == 1
    assert (*KEY, made[4].key_id) not in queries[0]
    assert await fresh.keys_of([]) == {}
    assert await fresh.keys_of([(*KEY, made[2].key_id)]) == {(*KEY, made[2].key_id): made[2]}
    assert len(queries) == 1
    await store.close()
    await fresh.close()


@pytest.mark.stack
async def test_keys_of_many_users_are_made_together_and_an_erased_user_gets_the_next_generation(
    settings: Settings,
) -> None:
    store, other = await KeyStore.open(settings), await KeyStore.open(settings)
    users = [("acme", f"user-{n}") for n in range(5)] + [("umbrella", "user-0")]
    await store.mint_for(dict.fromkeys(users, 1))
    # The store still has this user's key in its cache when another process destroys it.
    await other.destroy_user(*users[2])
    made = await store.mint_for({user: n + 1 for n, user in enumerate(users)})
    assert [len(made[user]) for user in users] == [1, 2, 3, 4, 5, 6]
    names = [(*user, key.key_id) for user in users for key in made[user]]
    fresh = await KeyStore.open(settings)
    assert await fresh.keys_of(names) == {(*user, key.key_id): key for user in users for key in made[user]}
    assert await store.mint_for({users[0]: 0}) == {}
    with pytest.raises(Rejected, match="user_id"):
        await store.mint_for({users[0]: 1, ("acme", "a b"): 1})
    for each in (store, other, fresh):
        await each.close()


@pytest.mark.stack
async def test_a_damaged_key_is_the_fault_of_one_record_and_a_damaged_user_key_that_of_the_master_key(
    settings: Settings,
) -> None:
    store, fresh = await KeyStore.open(settings), await KeyStore.open(settings)
    first, second = await store.mint(*KEY, 2)
    admin = await connect(
        settings, settings.postgres_admin_user, database=settings.postgres_keys_database, autocommit=True
    )
    await admin.execute(
        "UPDATE data_keys SET wrapped = set_byte(wrapped, 0, 255 - get_byte(wrapped, 0)) WHERE key_id = %s",
        [first.key_id],
    )
    with pytest.raises(Rejected) as damaged:
        await fresh.key(*KEY, first.key_id)
    assert damaged.value.code == "bad_seal"
    found = await fresh.keys_of([(*KEY, first.key_id), (*KEY, second.key_id)])
    assert found[*KEY, second.key_id] == second
    await admin.execute("UPDATE user_keys SET wrapped = set_byte(wrapped, 0, 255 - get_byte(wrapped, 0))")
    other = await KeyStore.open(settings)
    with pytest.raises(Misconfigured):
        await other.key(*KEY, second.key_id)
    await admin.close()
    for each in (store, fresh, other):
        await each.close()


@pytest.mark.stack
async def test_the_one_statement_that_reads_keys_stands_under_the_policies_and_leaves_no_scope(
    settings: Settings,
) -> None:
    store = await KeyStore.open(settings)
    (mine,) = await store.mint(*KEY, 1)
    (other,) = await store.mint("acme", "bob", 1)
    await store.close()
    database = settings.postgres_keys_database
    connection = await connect(settings, ROLE, database=database, autocommit=True)
    admin = await connect(settings, settings.postgres_admin_user, database=database, autocommit=True)
    ask = "SELECT found_key::text FROM data_keys_of_users(%s::text[], %s::text[], %s::uuid[])"
    both = [mine.key_id, other.key_id]
    for user, key in (("alice", mine), ("bob", other)):
        names = (["acme", "acme"], [user, user], both)
        assert await (await connection.execute(ask, names)).fetchall() == [(key.key_id,)]
        with pytest.raises(InsufficientPrivilege):
            await connection.execute("SELECT key_id FROM data_keys")
    for tenant, user in (("", "alice"), ("acme", "")):
        with pytest.raises(InsufficientPrivilege, match="is not set"):
            await connection.execute(ask, ([tenant], [user], [mine.key_id]))
    facts = await (
        await admin.execute(
            "SELECT prosecdef, pg_get_userbyid(proowner), has_function_privilege('engram_writer', oid, 'EXECUTE')"
            " FROM pg_proc WHERE proname IN ('data_keys_of_users', 'data_keys_made')"
        )
    ).fetchall()
    assert facts == [(False, "engram_owner", False)] * 2
    # The control: it is the policies that refuse an empty scope, not the statement.
    await admin.execute(
        "ALTER TABLE data_keys DISABLE ROW LEVEL SECURITY; ALTER TABLE user_keys DISABLE ROW LEVEL SECURITY"
    )
    assert await (await connection.execute(ask, ([""], ["alice"], [mine.key_id]))).fetchall() == []
    await connection.close()
    await admin.close()


@pytest.mark.stack
@pytest.mark.parametrize("when", ["while idle", "just after it was borrowed"])
async def test_a_restarted_postgres_is_nobodys_error(
    settings: Settings, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, gateway = await KeyStore.open(settings), await KeyStore.open(settings)
    (key,) = await gateway.mint(*KEY, 1)
    await store.mint("acme", "bob", 1)
    admin = await connect(settings, settings.postgres_admin_user, autocommit=True)
    cut = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE usename = 'engram_keys' AND datname = %s AND pid = ANY(%s)"
    )

    async def lose(*pids: int) -> None:
        done = await (await admin.execute(cut, (settings.postgres_keys_database, list(pids)))).fetchall()
        assert done == [(True,)] * len(pids)

    pool = store._connections
    if when == "while idle":

        async def before() -> None:
            connection = await pool.getconn()
            await pool.putconn(connection)
            await lose(connection.info.backend_pid)
    else:
        borrow = pool.getconn

        async def before() -> None:
            async def lost(*arguments: float | None) -> Connection:
                monkeypatch.setattr(pool, "getconn", borrow)
                connection = await borrow(*arguments)
                await lose(connection.info.backend_pid)
                return connection

            monkeypatch.setattr(pool, "getconn", lost)

    await before()
    assert await store.key(*KEY, key.key_id) == key
    await before()
    (made,) = await store.mint(*KEY, 1)
    assert await gateway.key(*KEY, made.key_id) == made
    await before()
    await store.destroy_keys(*KEY, [made.key_id])
    await before()
    await store.destroy_user(*KEY)
    for each in (store, gateway):
        await each.close()
    await admin.close()


@pytest.mark.stack
async def test_the_keys_of_many_records_are_asked_for_at_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The truth's transaction stands open while the key store answers."""
    async with opened(settings) as bench:
        facts = [candidate("likes", value) for value in ('"tea"', '"咖啡"', '"jazz"', '"围棋"')]
        await bench.apply(said(1, *facts), 0)
    async with opened(settings) as bench:
        asked_for: list[int] = []
        read = bench.remember._keys._read

        async def counted(names: Sequence[KeyName]) -> dict[KeyName, tuple[object, ...]]:
            asked_for.append(len(names))
            return await read(names)

        monkeypatch.setattr(bench.remember._keys, "_read", counted)
        assert (await bench.apply(asked(2, "forget", whole_user=True), 1)).status == "decided"
        # The proposal's own key, then those of the four memories.
        assert asked_for == [1, 4]
