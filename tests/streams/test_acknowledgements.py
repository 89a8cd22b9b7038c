"""Waiting for acknowledgements: shown soon, ended in time, and what the work raises comes through."""

import asyncio

import pytest

from schemas.errors import Broken, Retryable
from streams.acknowledgements import Patience, acknowledged

SHORT = Patience(quick_seconds=0.02, longest_seconds=0.2)


async def test_what_comes_at_once_is_returned_and_nothing_is_shown() -> None:
    shown: list[str] = []

    async def work() -> int:
        return 7

    assert await acknowledged(work(), lambda state, _: shown.append(state), SHORT) == 7
    assert shown == []


async def test_what_comes_late_is_returned_and_was_shown_as_waiting() -> None:
    shown: list[str] = []
    came = asyncio.Event()

    def show(state: str, _: str) -> None:
        shown.append(state)
        came.set()

    async def work() -> int:
        await came.wait()
        return 7

    assert await acknowledged(work(), show, SHORT) == 7
    assert shown == ["waiting"]


async def test_a_long_silence_is_the_end_and_the_work_is_given_up() -> None:
    given_up = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    with pytest.raises(Broken, match=r"within 0\.2 s"):
        await acknowledged(work(), lambda *_: None, SHORT)
    await asyncio.wait_for(given_up.wait(), 1)


async def test_an_error_of_the_work_comes_through() -> None:
    async def work() -> None:
        raise Retryable("the broker is away")

    with pytest.raises(Retryable, match="the broker is away"):
        await acknowledged(work(), lambda *_: None, SHORT)
