"""`Turns`: how much is done in one round of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter

from dragoman.journal.scheduler import ROUND_BYTES, FairScheduler, scheduler_of_loop


class Rounds:
    """Counts the rounds of the loop, as long as it is asked."""

    def __init__(self) -> None:
        self.now = 0
        self._counting: asyncio.Handle = asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self.now += 1
        self._counting = asyncio.get_running_loop().call_soon(self._next)

    def stop(self) -> None:
        self._counting.cancel()


async def in_which_rounds(turns: FairScheduler, sizes: list[int]) -> list[int]:
    """When each, all of them coming at once, had its turn."""
    rounds = Rounds()
    had: list[tuple[int, int]] = []

    async def one(number: int, size: int) -> None:
        await turns.acquire(size)
        had.append((number, rounds.now))

    async with asyncio.timeout(10):
        await asyncio.gather(*(one(number, size) for number, size in enumerate(sizes)))
    rounds.stop()
    assert [number for number, _ in had] == list(range(len(sizes)))  # in the order of coming
    return [when for _, when in had]


async def test_many_have_their_turns_in_several_rounds_in_the_order_of_coming() -> None:
    when = in_which_rounds(FairScheduler(asyncio.get_running_loop()), [ROUND_BYTES // 2] * 20)
    assert max(Counter(await when).values()) == 2


async def test_what_is_small_waits_for_nobody() -> None:
    when = await in_which_rounds(FairScheduler(asyncio.get_running_loop()), [200] * 100)
    assert len(set(when)) == 1


async def test_one_alone_never_waits_however_much_it_has() -> None:
    turns = FairScheduler(asyncio.get_running_loop())
    rounds = Rounds()
    for _ in range(5):
        await asyncio.sleep(0)
        before = rounds.now
        await turns.acquire(ROUND_BYTES * 10)
        assert rounds.now == before
    rounds.stop()


async def test_who_gave_up_holds_up_nobody() -> None:
    turns = FairScheduler(asyncio.get_running_loop())

    async def too_much() -> None:
        await turns.acquire(ROUND_BYTES)
        await turns.acquire(ROUND_BYTES)

    gone = asyncio.ensure_future(too_much())
    behind = asyncio.ensure_future(turns.acquire(1))
    await asyncio.sleep(0)
    gone.cancel()
    async with asyncio.timeout(10):
        await behind


async def test_all_on_a_loop_share_their_turns() -> None:
    assert scheduler_of_loop() is scheduler_of_loop()
