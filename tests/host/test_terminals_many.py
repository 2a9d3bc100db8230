"""`Terminals`: many commands at once, much output, and what is kept of those that were released."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.terminal.output import LIVE_TAIL_BYTES, Chunk
from dragoman.host.terminal.terminal import BUDGET_BYTES, ReadThrottle
from dragoman.host.terminal.terminals import MAX_RELEASED_TERMINALS, MAX_TERMINALS, RELEASED_OUTPUT_BYTES
from dragoman.testing.leaks import nothing_left

from .conftest import TIMEOUT_S, Commands, Make
from .running import PIPES, everything, until

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


@needs_proc
@pytest.mark.parametrize("pty", [True, False])
async def test_fifty_at_once_keep_to_themselves_and_leave_nothing(tmp_path: Path, pty: bool) -> None:
    async with nothing_left(), asyncio.timeout(TIMEOUT_S * 2):
        commands = Commands(tmp_path, pty=pty)
        terminals = [await commands.start(f"echo {n}; exit {n}") for n in range(50)]
        for number, status in enumerate(await asyncio.gather(*(terminal.wait() for terminal in terminals))):
            assert status.exit_code == number
            assert await terminals[number].output() == (f"{number}\n", False)
        await commands.terminals.close()


@needs_proc
async def test_some_that_end_while_others_begin_leave_nothing(tmp_path: Path) -> None:
    async with nothing_left(), asyncio.timeout(TIMEOUT_S * 2):
        commands = Commands(tmp_path)

        async def one(number: int) -> None:
            terminal = await commands.start("echo begun; sleep 1000" if number % 2 else "echo begun")
            await until(terminal, b"begun")
            if number % 3:
                await commands.release(terminal)

        await asyncio.gather(*(one(number) for number in range(20)))
        await commands.terminals.close()


async def test_a_released_terminal_can_still_be_looked_at(commands: Commands) -> None:
    terminal = await commands.start("echo said")
    await terminal.wait()
    await commands.release(terminal)
    assert commands.terminals.find(terminal.id) is terminal
    assert await everything(terminal) == [Chunk(0, b"said\r\n")]
    assert terminal.summary().output == "said\n"
    await commands.terminals.close()
    assert commands.terminals.find(terminal.id) is terminal


async def test_a_released_terminal_keeps_less(commands: Commands) -> None:
    terminal = await commands.start(f"head -c {2 * RELEASED_OUTPUT_BYTES} /dev/zero", meta=PIPES)
    async with asyncio.timeout(TIMEOUT_S):
        await terminal.wait()
        await commands.release(terminal)
    assert (await everything(terminal))[0].offset == RELEASED_OUTPUT_BYTES


async def test_the_last_released_terminals_can_still_be_shown(commands: Commands) -> None:
    commands.terminals._released = {str(n): _Gone() for n in range(MAX_RELEASED_TERMINALS)}  # type: ignore[misc]  # stand-ins, cheap
    terminal = await commands.start("true")
    await commands.release(terminal)
    assert len(commands.terminals._released) == MAX_RELEASED_TERMINALS
    assert commands.terminals.find("0") is None
    assert commands.terminals.find(terminal.id) is terminal
    assert MAX_RELEASED_TERMINALS >= MAX_TERMINALS


class _Gone:
    id = "0"
    ended = True

    async def end(self) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize(("meta", "size"), [(None, 10_000_000), (PIPES, 100_000_000)])
async def test_much_output_costs_little_memory(commands: Commands, meta: dict[str, Any] | None, size: int) -> None:
    tracemalloc.start()
    try:
        terminal = await commands.start(f"head -c {size} /dev/zero", meta=meta, output_byte_limit=1000)
        slow = terminal.follow()
        first = await anext(slow)  # and does not ask for more for a long time
        async with asyncio.timeout(TIMEOUT_S * 3):
            await terminal.wait()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * LIVE_TAIL_BYTES
    assert terminal.total_bytes == size
    assert first.offset == 0
    assert (await anext(slow)).offset == size - LIVE_TAIL_BYTES


@pytest.mark.parametrize("meta", [None, PIPES])
async def test_every_read_waits_for_the_throttle(
    commands: Commands, meta: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid: list[int] = []
    pay = ReadThrottle.after_read

    async def counted(turns: ReadThrottle, size: int) -> None:
        paid.append(size)
        await pay(turns, size)

    monkeypatch.setattr(ReadThrottle, "after_read", counted)
    terminal = await commands.start("head -c 1000000 /dev/zero", meta=meta)
    async with asyncio.timeout(TIMEOUT_S):
        await terminal.wait()
    assert sum(paid) == 1_000_000
    assert max(paid) <= BUDGET_BYTES


@pytest.mark.parametrize("meta", [None, PIPES])
async def test_floods_leave_time_for_the_other_sessions(make: Make, meta: dict[str, Any] | None) -> None:
    floods = [await make().start("yes", meta=meta, output_byte_limit=1000) for _ in range(8)]
    for flood in floods:
        await until(flood, b"y")
    most, turns, start = 0, 0, sum(flood.total_bytes for flood in floods)
    last = start
    async with asyncio.timeout(TIMEOUT_S):
        while last < start + 40 * BUDGET_BYTES:
            await asyncio.sleep(0)  # as any other session does between two of its updates
            turns += 1
            read = sum(flood.total_bytes for flood in floods)
            most, last = max(most, read - last), read
    # One that comes from an idle moment has its first read before it waits for its turn.
    assert most <= (len(floods) + 1) * BUDGET_BYTES
    assert turns >= (last - start) // (2 * BUDGET_BYTES)
