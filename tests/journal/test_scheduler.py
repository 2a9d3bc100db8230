"""`FairScheduler`: how much is done in one round of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter

from dragoman.journal.scheduler import ROUND_BYTES, FairScheduler, scheduler_of_loop


class Rounds:
    """Counts the rounds of the loop until it is stopped."""

    def __init__(self) -> None:
        self.now = 0
        self._counting: asyncio.Handle = asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self.now += 1
        self._counting = asyncio.get_running_loop().call_soon(self._next)

    def stop(self) -> None:
        self._counting.cancel()


async def in_which_rounds(scheduler: FairScheduler, sizes: list[int]) -> list[int]:
    """Return the round in which each caller, all of them coming at once, was served."""
    rounds = Rounds()
    served: list[tuple[int, int]] = []

    async def one(number: int, size: int) -> None:
        await scheduler.acquire(size)
        served.append((number, rounds.now))

    async with asyncio.timeout(10):
        await asyncio.gather(*(one(number, size) for number, size in enumerate(sizes)))
    rounds.stop()
    assert [number for number, _ in served] == list(range(len(sizes)))  # in the order of coming
    return [when for _, when in served]


async def test_many_callers_are_served_in_several_rounds_in_the_order_of_coming() -> None:
    when = in_which_rounds(FairScheduler(asyncio.get_running_loop()), [ROUND_BYTES // 2] * 20)
    assert max(Counter(await when).values()) == 2


async def test_small_requests_do_not_wait() -> None:
    when = await in_which_rounds(FairScheduler(asyncio.get_running_loop()), [200] * 100)
    assert len(set(when)) == 1


async def test_a_single_caller_never_waits_for_any_size() -> None:
    scheduler = FairScheduler(asyncio.get_running_loop())
    rounds = Rounds()
    for _ in range(5):
        await asyncio.sleep(0)
        before = rounds.now
        await scheduler.acquire(ROUND_BYTES * 10)
        assert rounds.now == before
    rounds.stop()


async def test_a_cancelled_caller_delays_no_other() -> None:
    scheduler = FairScheduler(asyncio.get_running_loop())

    async def too_much() -> None:
        await scheduler.acquire(ROUND_BYTES)
        await scheduler.acquire(ROUND_BYTES)

    gone = asyncio.ensure_future(too_much())
    behind = asyncio.ensure_future(scheduler.acquire(1))
    await asyncio.sleep(0)
    gone.cancel()
    async with asyncio.timeout(10):
        await behind


async def test_all_callers_on_a_loop_share_one_scheduler() -> None:
    assert scheduler_of_loop() is scheduler_of_loop()
