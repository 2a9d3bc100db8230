"""Requests that wait for an answer: one outcome each, and nobody is asked, or waits, in vain."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.host.pending import PendingRequests
from dragoman.testing.clock import ManualClock

TIMEOUT_S = 10.0
"""Seconds until a test gives up waiting: far more than anything here takes."""

Table = PendingRequests[str, int]


async def never() -> None:
    await asyncio.Event().wait()


async def test_the_first_outcome_counts_and_a_later_one_is_reported() -> None:
    table: Table = PendingRequests()
    pending = table.open("key", "request")
    assert pending.decide(1)
    assert not pending.decide(2)
    assert not table.answer("key", 3)
    assert pending.is_decided
    assert await table.wait(pending, never) == 1


async def test_nobody_is_consulted_about_what_is_decided() -> None:
    table: Table = PendingRequests()
    pending = table.open("key", "request")
    consulted = False

    async def consult() -> None:
        nonlocal consulted
        consulted = True

    pending.decide(1)
    assert await table.wait(pending, consult) == 1
    await asyncio.sleep(0)
    assert not consulted


async def test_the_consulted_coroutine_may_decide() -> None:
    table: Table = PendingRequests()
    pending = table.open("key", "request")

    async def consult() -> None:
        pending.decide(len(pending.request))

    async with asyncio.timeout(TIMEOUT_S):
        assert await table.wait(pending, consult) == 7
    assert len(table) == 0


async def test_without_an_outcome_in_time_there_is_none_and_the_consulting_ends() -> None:
    clock = ManualClock()
    table: Table = PendingRequests(time_limit_s=60.0, clock=clock)
    pending = table.open("key", "request")
    ended = asyncio.Event()

    async def consult() -> None:
        try:
            await never()
        finally:
            ended.set()

    async with asyncio.timeout(TIMEOUT_S):
        waiting = asyncio.create_task(table.wait(pending, consult))
        await clock.wait_for_timers()
        clock.advance(59.9)
        assert not pending.is_decided
        clock.advance(0.1)
        assert await waiting is None
        await ended.wait()
    assert not pending.decide(1)
    assert table.get("key") is None


async def test_an_answer_in_time_leaves_no_timer_behind() -> None:
    clock = ManualClock()
    table: Table = PendingRequests(time_limit_s=60.0, clock=clock)
    pending = table.open("key", "request")
    waiting = asyncio.create_task(table.wait(pending))
    async with asyncio.timeout(TIMEOUT_S):
        await clock.wait_for_timers()
        assert table.answer("key", 1)
        assert await waiting == 1
    assert clock.delays == []


async def test_a_caller_that_gave_up_cannot_be_answered() -> None:
    table: Table = PendingRequests()
    pending = table.open("key", "request")
    begun = asyncio.Event()

    async def consult() -> None:
        begun.set()
        await never()

    waiting = asyncio.create_task(table.wait(pending, consult))
    async with asyncio.timeout(TIMEOUT_S):
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert not pending.decide(1)
    assert not table.answer("key", 1)


async def test_a_withdrawn_request_is_gone() -> None:
    table: Table = PendingRequests()
    pending = table.open("key", "request")
    assert table.withdraw(pending, 0)
    assert table.get("key") is None
    assert not table.answer("key", 1)
    assert not table.withdraw(pending, 2)


async def test_of_two_requests_under_one_key_the_open_one_is_answered() -> None:
    table: Table = PendingRequests()
    first, second = table.open("key", "first"), table.open("key", "second")
    first.decide(1)
    assert table.get("key") is second
    assert table.answer("key", 2)
    assert (await table.wait(first), await table.wait(second)) == (1, 2)


async def test_cancelling_all_decides_what_is_open_and_nothing_else() -> None:
    table: Table = PendingRequests()
    answered, waiting = table.open(1, "a"), table.open(2, "bbb")
    answered.decide(0)
    table.cancel_all(len)
    assert len(table) == 0
    assert (await table.wait(answered), await table.wait(waiting)) == (0, 3)


async def test_requests_do_not_wait_for_each_other() -> None:
    table: Table = PendingRequests()
    first, second = table.open(1, "a"), table.open(2, "b")
    waiting = asyncio.create_task(table.wait(first))
    async with asyncio.timeout(TIMEOUT_S):
        table.answer(2, 2)
        assert await table.wait(second) == 2
        assert [pending.request for pending in table] == ["a"]
        table.answer(1, 1)
        assert await waiting == 1
