"""An agent in memory keeps the promises of a link."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.proc.link import AgentLink
from dragoman.testing.memory import MemoryLink
from dragoman.testing.scripted import AgentExit, AgentMain, AgentSide

TIMEOUT_S = 20.0


async def echo(side: AgentSide) -> None:
    while data := await side.read():
        side.write(data.upper())


async def ended(main: AgentMain) -> tuple[int, str]:
    """Run an agent to its end; return its exit code and stderr."""
    link = MemoryLink(main)
    async with asyncio.timeout(TIMEOUT_S):
        code = await link.wait()
        assert await link.end() == code == link.exit_code
    return code, link.stderr.text()


async def test_bytes_go_both_ways_until_we_close() -> None:
    link: AgentLink = MemoryLink(echo, name="echo")
    async with asyncio.timeout(TIMEOUT_S):
        link.write(b"one")
        assert await link.read() == b"ONE"
        assert link.exit_code is None
        link.close()
        assert await link.wait() == 0
        assert await link.read() == b""
        assert await link.read() == b""
        link.write(b"lost")
        await link.drain()
        assert await link.end() == 0


async def test_what_was_written_before_the_end_is_read() -> None:
    async def main(side: AgentSide) -> None:
        side.write(b"last words")

    link = MemoryLink(main)
    async with asyncio.timeout(TIMEOUT_S):
        assert await link.wait() == 0
        assert await link.read() == b"last words"
        assert await link.read() == b""
        await link.end()


async def test_an_agent_ends_as_a_process_would() -> None:
    async def returns(side: AgentSide) -> int:
        return 7

    async def leaves(side: AgentSide) -> None:
        side.complain("goodbye")
        raise AgentExit(3)

    async def fails(side: AgentSide) -> None:
        raise ZeroDivisionError("of course")

    assert await ended(returns) == (7, "")
    assert await ended(leaves) == (3, "goodbye")
    code, words = await ended(fails)
    assert code == 1
    assert "ZeroDivisionError: of course" in words


async def test_signals_are_cancellations_and_tell_in_the_exit_code() -> None:
    async def deaf(side: AgentSide) -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(TIMEOUT_S):
        for act, code in ((MemoryLink.interrupt, -2), (MemoryLink.kill, -9)):
            link = MemoryLink(deaf)
            await asyncio.sleep(0)
            act(link)
            assert await link.wait() == code
            assert await link.end() == code
        link = MemoryLink(deaf)
        assert await link.end(grace=0.01) == -15


async def test_an_agent_that_swallows_signals_is_killed() -> None:
    swallowed = [asyncio.Event(), asyncio.Event()]

    async def stubborn(side: AgentSide) -> None:
        for one in swallowed:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                one.set()
        await asyncio.Event().wait()

    link = MemoryLink(stubborn)
    async with asyncio.timeout(TIMEOUT_S):
        await asyncio.sleep(0)
        link.interrupt()
        await swallowed[0].wait()
        assert await link.end(grace=0.01) == -9
    assert swallowed[1].is_set()


async def test_a_writer_that_is_far_ahead_waits_for_its_reader() -> None:
    poured = 0

    async def pour(side: AgentSide) -> None:
        nonlocal poured
        for _ in range(1000):
            side.write(b"x" * 1000)
            await side.drain()
            poured += 1

    link = MemoryLink(pour)
    async with asyncio.timeout(TIMEOUT_S):
        for _ in range(2000):
            await asyncio.sleep(0)
        assert poured < 100
        size = 0
        while data := await link.read():
            size += len(data)
        assert size == 1_000_000
        await link.end()


async def test_who_waits_may_give_up_without_harm() -> None:
    link = MemoryLink(echo)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await link.wait()
    async with asyncio.timeout(TIMEOUT_S):
        assert await link.end() == 0
