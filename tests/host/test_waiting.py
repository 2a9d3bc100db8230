"""What somebody was asked: one outcome, and nobody is kept waiting or asked in vain."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.host.waiting import Waiting

LIMIT = 10.0


async def never() -> None:
    await asyncio.Event().wait()


async def test_the_first_outcome_counts_and_who_is_late_is_told_so() -> None:
    waiting: Waiting[str, int] = Waiting("asked")
    assert waiting.decide(1)
    assert not waiting.decide(2)
    assert waiting.decided
    assert await waiting.outcome(never(), None) == 1


async def test_nobody_is_consulted_about_what_is_decided() -> None:
    waiting: Waiting[str, int] = Waiting("asked")
    consulted = False

    async def consult() -> None:
        nonlocal consulted
        consulted = True

    waiting.decide(1)
    assert await waiting.outcome(consult(), None) == 1
    await asyncio.sleep(0)
    assert not consulted


async def test_without_an_outcome_in_time_there_is_none_and_the_consulting_ends() -> None:
    waiting: Waiting[str, int] = Waiting("asked")
    ended = asyncio.Event()

    async def consult() -> None:
        try:
            await never()
        finally:
            ended.set()

    async with asyncio.timeout(LIMIT):
        assert await waiting.outcome(consult(), 0.01) is None
        await ended.wait()
    assert not waiting.decide(1)


async def test_who_no_longer_waits_cannot_be_answered() -> None:
    waiting: Waiting[str, int] = Waiting("asked")
    begun = asyncio.Event()

    async def consult() -> None:
        begun.set()
        await never()

    asking = asyncio.create_task(waiting.outcome(consult(), None))
    async with asyncio.timeout(LIMIT):
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert not waiting.decide(1)
