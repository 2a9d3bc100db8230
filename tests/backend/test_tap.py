"""The frames of a link, in passing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.backend.tap import Tap
from dragoman.testing.memory import MemoryLink
from dragoman.testing.side import AgentSide
from dragoman.wire.messages import Message, Noise, Notification, Oversized, Reply, Request, Update

UPDATE = b'{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[]}}}\n'


class Open:
    """A gate that is never closed."""

    has_room = True

    async def room(self) -> None:
        pass


def tapped(link: MemoryLink, frames: list[tuple[str, Message, float]], **options: int) -> Tap:
    clock: Callable[[], float] = iter(range(100)).__next__
    return Tap(link, lambda *frame: frames.append(frame), Open(), clock=clock, **options)


async def read_all(tap: Tap) -> bytes:
    data = b""
    while piece := await tap.read():
        data += piece
    return data


async def test_each_frame_is_shown_once_in_order_and_the_bytes_pass_as_they_are() -> None:
    said = b'{"id":"a","method":"m","params":{}}\nnoise\n' + UPDATE + b'{"id":0,"result":{}}\n{"method":"last"}'

    async def agent(side: AgentSide) -> int:
        await side.read()
        for start in range(0, len(said), 7):
            side.write(said[start : start + 7])
            await side.drain()
        return 0

    frames: list[tuple[str, Message, float]] = []
    link = MemoryLink(agent)
    tap = tapped(link, frames)
    tap.write(b'{"id":0,"method":"initialize","params":{}}\n')
    async with asyncio.timeout(20):
        assert await read_all(tap) == said
        assert await tap.read() == b""
        tap.write(b'{"id":"a","result":null}\n')
        assert await tap.end() == 0
    kinds = [(direction, type(message)) for direction, message, _ in frames]
    assert kinds == [
        ("out", Request),
        ("in", Request),
        ("in", Noise),
        ("in", Update),
        ("in", Reply),
        ("in", Notification),
        ("out", Reply),
    ]
    assert [at for _, _, at in frames] == list(range(7))
    # Answers are known by what they answer, in both directions.
    answers = [message.method for _, message, _ in frames if isinstance(message, Reply)]
    assert answers == ["initialize", "m"]


async def test_a_line_over_the_limit_is_shown_as_one() -> None:
    async def agent(side: AgentSide) -> int:
        side.write(b"x" * 1000 + b"\n" + UPDATE)
        return 0

    frames: list[tuple[str, Message, float]] = []
    tap = tapped(MemoryLink(agent), frames, line_limit=len(UPDATE))
    async with asyncio.timeout(20):
        await read_all(tap)
        await tap.end()
    [long, update] = [message for _, message, _ in frames]
    assert isinstance(long, Oversized)
    assert long.length == 1000
    assert isinstance(update, Update)


async def test_a_tap_is_the_link_that_it_taps() -> None:
    async def agent(side: AgentSide) -> int:
        side.complain("ouch")
        while await side.read():
            pass
        return 5

    link = MemoryLink(agent, name="an agent")
    tap = tapped(link, [])
    assert (tap.name, tap.exit_code, tap.stderr) == ("an agent", None, link.stderr)
    tap.close()
    async with asyncio.timeout(20):
        assert await tap.wait() == 5
        assert await tap.end(0.1) == 5
    assert (tap.exit_code, tap.stderr.text()) == (5, "ouch")
