"""`ReadThrottle`: floods leave time for all else."""

from __future__ import annotations

import asyncio

from dragoman.host.terminal.terminal import BUDGET_BYTES, BURST_BYTES, ReadThrottle, read_throttle


async def test_between_two_iterations_no_more_is_read_than_the_budget() -> None:
    ours, read = ReadThrottle(), 0

    async def flood(size: int) -> None:
        nonlocal read
        while True:
            read += size
            await ours.after_read(size)

    sizes = [BUDGET_BYTES // 16] * 50 + [BUDGET_BYTES] * 3
    floods = [asyncio.create_task(flood(size)) for size in sizes]
    await asyncio.sleep(0)
    most = 0
    for _ in range(200):
        before = read
        await asyncio.sleep(0)
        most = max(most, read - before)
    for task in floods:
        task.cancel()
    await asyncio.wait(floods)
    assert BUDGET_BYTES <= most < 2 * BUDGET_BYTES


async def test_reads_are_granted_in_order() -> None:
    ours, order = ReadThrottle(), list[str]()

    async def read(name: str) -> None:
        for _ in range(3):
            await ours.after_read(BUDGET_BYTES)
            order.append(name)

    await asyncio.gather(read("a"), read("b"), read("c"))
    assert order == ["a", "b", "c"] * 3


async def test_a_flood_pauses_and_what_has_breaks_does_not() -> None:
    hour = 3600.0
    flooded, broken = ReadThrottle(pause_s=hour, quiet_s=hour), ReadThrottle(pause_s=hour, quiet_s=-1.0)
    for _ in range(BURST_BYTES // BUDGET_BYTES):
        await flooded.after_read(BUDGET_BYTES)
    for _ in range(4 * BURST_BYTES // BUDGET_BYTES):
        await broken.after_read(BUDGET_BYTES)
    waiting = asyncio.create_task(flooded.after_read(BUDGET_BYTES))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait({waiting})


async def test_after_its_pause_a_flood_goes_on() -> None:
    ours = ReadThrottle(pause_s=0.0)
    async with asyncio.timeout(20):
        for _ in range(3 * BURST_BYTES // BUDGET_BYTES):
            await ours.after_read(BUDGET_BYTES)


async def test_a_cancelled_read_takes_none_of_the_budget() -> None:
    ours = ReadThrottle()
    first, second, third = (asyncio.create_task(ours.after_read(BUDGET_BYTES)) for _ in range(3))
    await asyncio.sleep(0)
    second.cancel()
    async with asyncio.timeout(20):
        await asyncio.gather(first, third)
    assert second.cancelled()


async def test_a_loop_has_one() -> None:
    assert read_throttle() is read_throttle()
    other = await asyncio.to_thread(asyncio.run, _its_turns())
    assert other is not read_throttle()


async def _its_turns() -> ReadThrottle:
    return read_throttle()
