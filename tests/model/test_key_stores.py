"""What a key store promises: one suite, run on the keys in memory and on the real ones."""

from collections.abc import AsyncIterator

import pytest
from keys_in_memory import KeysInMemory

from schemas.errors import Rejected
from schemas.settings import Settings
from streams.key_store import KeyStore

KINDS = [pytest.param("memory", id="memory"), pytest.param("postgres", id="postgres", marks=pytest.mark.stack)]
ALICE, BOB, OTHER = ("acme", "alice"), ("acme", "bob"), ("globex", "alice")


@pytest.fixture(params=KINDS)
async def keys(request: pytest.FixtureRequest) -> AsyncIterator[KeyStore | KeysInMemory]:
    if request.param == "memory":
        yield KeysInMemory()
        return
    real: Settings = request.getfixturevalue("settings")
    opened = await KeyStore.open(real)
    yield opened
    await opened.close()


async def test_minted_keys_open_for_their_user_alone(keys: KeyStore | KeysInMemory) -> None:
    made = await keys.mint(*ALICE, 3)
    assert len({key.material for key in made}) == len({key.key_id for key in made}) == 3
    assert await keys.mint(*ALICE, 0) == ()
    counted = await keys.mint_for({ALICE: 2, BOB: 1, OTHER: 0})
    assert {user: len(found) for user, found in counted.items()} == {ALICE: 2, BOB: 1}
    found = await keys.keys_of([*((*ALICE, key.key_id) for key in made), (*BOB, made[0].key_id)])
    assert [found[*ALICE, key.key_id] for key in made] == list(made)
    foreign = found[*BOB, made[0].key_id]
    assert isinstance(foreign, Rejected)
    assert foreign.code == "unknown_key"


@pytest.mark.parametrize("name", ["nonsense", "11111111-1111-1111-1111-111111111111", "'; DROP TABLE data_keys; --"])
async def test_an_unknown_key_is_unknown(keys: KeyStore | KeysInMemory, name: str) -> None:
    with pytest.raises(Rejected) as unknown:
        await keys.key(*ALICE, name)
    assert unknown.value.code == "unknown_key"


async def test_a_destroyed_key_is_erased_for_good(keys: KeyStore | KeysInMemory) -> None:
    first, second = await keys.mint(*ALICE, 2)
    await keys.destroy_keys(*ALICE, [first.key_id, first.key_id])
    await keys.destroy_keys(*ALICE, [first.key_id])
    with pytest.raises(Rejected) as erased:
        await keys.key(*ALICE, first.key_id)
    assert erased.value.code == "erased"
    assert await keys.key(*ALICE, second.key_id) == second


async def test_nobody_destroys_the_key_of_another(keys: KeyStore | KeysInMemory) -> None:
    (key,) = await keys.mint(*ALICE, 1)
    await keys.destroy_keys(*BOB, [key.key_id])
    await keys.destroy_user(*OTHER)
    assert await keys.key(*ALICE, key.key_id) == key


async def test_a_user_whose_keys_are_destroyed_gets_new_ones(keys: KeyStore | KeysInMemory) -> None:
    (old,), (bobs,) = await keys.mint(*ALICE, 1), await keys.mint(*BOB, 1)
    await keys.destroy_user(*ALICE)
    await keys.destroy_user(*ALICE)
    (new,) = await keys.mint(*ALICE, 1)
    found = await keys.keys_of([(*ALICE, old.key_id), (*ALICE, new.key_id), (*BOB, bobs.key_id)])
    gone = found[*ALICE, old.key_id]
    assert isinstance(gone, Rejected)
    assert gone.code == "erased"
    assert (found[*ALICE, new.key_id], found[*BOB, bobs.key_id]) == (new, bobs)
