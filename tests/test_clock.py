"""The clock that is passed in: the real one, and the one that tests move."""

from __future__ import annotations

import asyncio
import time

import pytest

from dragoman.clock import SYSTEM_CLOCK, Clock, timeout
from dragoman.testing.clock import ManualClock

TIMEOUT_S = 10.0


async def test_the_system_clock_reads_the_clock_of_the_machine() -> None:
    before = (time.time(), time.monotonic())
    now = (SYSTEM_CLOCK.time(), SYSTEM_CLOCK.monotonic())
    assert before <= now <= (time.time(), time.monotonic())
    await SYSTEM_CLOCK.sleep(0)


async def test_a_timer_of_the_system_clock_is_called_or_cancelled() -> None:
    called = asyncio.Event()
    SYSTEM_CLOCK.call_later(60.0, called.clear).cancel()
    SYSTEM_CLOCK.call_later(0, called.set)
    async with asyncio.timeout(TIMEOUT_S):
        await called.wait()


async def test_a_manual_clock_moves_only_when_it_is_advanced() -> None:
    clock = ManualClock(start=5.0)
    assert (clock.time(), clock.monotonic()) == (5.0, 5.0)
    clock.advance(1.5)
    assert (clock.time(), clock.monotonic()) == (6.5, 6.5)


async def test_timers_are_called_in_the_order_in_which_they_are_due() -> None:
    clock, calls = ManualClock(start=0.0), []
    clock.call_later(2.0, lambda: calls.append(("two", clock.time())))
    clock.call_later(1.0, lambda: calls.append(("one", clock.time())))
    clock.call_later(3.0, lambda: calls.append(("three", clock.time())))
    clock.call_later(1.0, lambda: calls.append(("cancelled", clock.time()))).cancel()
    assert clock.delays == [1.0, 2.0, 3.0]
    clock.advance(2.0)
    assert calls == [("one", 1.0), ("two", 2.0)]
    assert clock.delays == [1.0]


async def test_a_sleeper_wakes_when_its_time_has_come() -> None:
    clock = ManualClock()
    sleeping = asyncio.create_task(clock.sleep(10.0))
    async with asyncio.timeout(TIMEOUT_S):
        await clock.wait_for_timers()
        clock.advance(9.0)
        assert not sleeping.done()
        clock.advance(1.0)
        await sleeping


async def test_a_sleeper_that_is_cancelled_leaves_no_timer() -> None:
    clock = ManualClock()
    sleeping = asyncio.create_task(clock.sleep(10.0))
    async with asyncio.timeout(TIMEOUT_S):
        await clock.wait_for_timers()
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
    assert clock.delays == []


@pytest.mark.parametrize("clock", [SYSTEM_CLOCK, ManualClock()], ids=["system", "manual"])
async def test_a_timeout_that_is_not_reached_does_nothing(clock: Clock) -> None:
    async with timeout(clock, 60.0):
        await asyncio.sleep(0)
    async with timeout(clock, None):
        await asyncio.sleep(0)


async def test_a_timeout_is_reached_by_its_clock() -> None:
    clock = ManualClock()

    async def wait() -> None:
        async with timeout(clock, 30.0):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    async with asyncio.timeout(TIMEOUT_S):
        await clock.wait_for_timers()
        clock.advance(30.0)
        with pytest.raises(TimeoutError):
            await waiting
