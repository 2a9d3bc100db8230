"""`Output`: one command's bytes for those who follow, in bounded memory."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.host.terminal.output import LIVE_TAIL_BYTES, MAX_CHUNK_BYTES, RENDER_SLICE_BYTES, Chunk, Output

TIMEOUT_S = 20.0


async def followed(output: Output, after: int = 0) -> list[Chunk]:
    async with asyncio.timeout(TIMEOUT_S):
        return [chunk async for chunk in output.follow(after)]


async def test_a_follower_gets_every_byte_from_its_offset_and_then_the_end() -> None:
    output = Output(100)
    output.feed(b"abc")
    all_of_it, from_two, late = (asyncio.create_task(followed(output, after)) for after in (0, 2, 3))
    await asyncio.sleep(0)
    output.feed(b"de")
    await asyncio.sleep(0)
    output.end()
    assert await all_of_it == [Chunk(0, b"abc"), Chunk(3, b"de")]
    assert await from_two == [Chunk(2, b"c"), Chunk(3, b"de")]
    assert await late == [Chunk(3, b"de")]
    assert await followed(output) == [Chunk(0, b"abcde")]


async def test_the_offset_shows_dropped_bytes() -> None:
    output = Output(10)
    output.feed(b"x" * LIVE_TAIL_BYTES)
    output.feed(b"end")
    output.end()
    first, *rest = await followed(output, after=1)
    assert first.offset == 3
    assert first.data == b"x" * MAX_CHUNK_BYTES
    assert rest[-1].end == output.total == LIVE_TAIL_BYTES + 3


async def test_a_slow_follower_skips_to_the_oldest_buffered_byte() -> None:
    output = Output(10)
    output.feed(b"first")
    following = output.follow()
    assert await anext(following) == Chunk(0, b"first")
    for _ in range(3):
        output.feed(b"y" * LIVE_TAIL_BYTES)
    output.end()
    chunks = [chunk async for chunk in following]
    assert chunks[0].offset == output.total - LIVE_TAIL_BYTES
    assert sum(len(chunk.data) for chunk in chunks) == LIVE_TAIL_BYTES


@pytest.mark.parametrize(("after", "offset"), [(-5, 0), (99, 3)])
async def test_an_offset_that_cannot_be_is_taken_as_the_nearest(after: int, offset: int) -> None:
    output = Output(100)
    output.feed(b"abc")
    following = asyncio.ensure_future(anext(output.follow(after)))
    await asyncio.sleep(0)
    output.feed(b"d")
    async with asyncio.timeout(TIMEOUT_S):
        assert (await following).offset == offset


async def test_a_follower_that_leaves_takes_nobody_with_it() -> None:
    output = Output(100)
    leaving, staying = (asyncio.create_task(followed(output)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait({leaving})
    output.feed(b"here")
    output.end()
    assert await staying == [Chunk(0, b"here")]


async def test_bytes_are_for_followers_and_text_for_the_agent() -> None:
    output = Output(100, rows=24)
    output.feed(b"\x1b[31mred\x1b[0m\r\n")
    output.end()
    assert await output.text() == ("red\n", False)
    assert await followed(output) == [Chunk(0, b"\x1b[31mred\x1b[0m\r\n")]
    written = Output(100)
    written.feed(b"\x1b[31mred\x1b[0m\r\n")
    assert await written.text() == ("\x1b[31mred\x1b[0m\r\n", False)


async def test_text_is_rendered_from_the_last_request_on() -> None:
    output = Output(100, rows=24)
    output.feed(b"10 %\x1b[")
    assert await output.text() == ("10 %", False)
    output.feed(b"1m\r20 %")
    assert await output.text() == ("20 %", False)


async def test_concurrent_requests_for_text_each_get_all_of_it() -> None:
    output = Output(10 * RENDER_SLICE_BYTES, rows=24)
    output.feed(b"line\n" * RENDER_SLICE_BYTES)
    both = await asyncio.gather(output.text(), output.text())
    assert list(both) == [("line\n" * RENDER_SLICE_BYTES, False)] * 2


async def test_a_cancelled_request_for_text_does_not_spoil_a_later_one() -> None:
    output = Output(10 * RENDER_SLICE_BYTES, rows=24)
    output.feed(b"line\n" * RENDER_SLICE_BYTES)
    asking = asyncio.create_task(output.text())
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait({asking})
    assert await output.text() == ("line\n" * RENDER_SLICE_BYTES, False)


async def test_rendering_lets_others_run() -> None:
    output = Output(LIVE_TAIL_BYTES, rows=24)
    output.feed(b"line\n" * (LIVE_TAIL_BYTES // 5))
    asking = asyncio.create_task(output.text())
    turns = 0
    while not asking.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= output.total // RENDER_SLICE_BYTES


async def test_text_is_complete_even_if_output_overflows_while_rendering() -> None:
    output = Output(1000, rows=24)
    output.feed(b"old\n" * (LIVE_TAIL_BYTES // 4))
    asking = asyncio.create_task(output.text())
    await asyncio.sleep(0)
    output.feed(b"new\n" * (LIVE_TAIL_BYTES // 2))
    assert await asking == ("old\n" * 250, True)
    assert (await output.text())[0] == "new\n" * 250


@pytest.mark.parametrize("rows", [None, 24])
async def test_the_last_of_the_text_is_had_at_once(rows: int | None) -> None:
    output = Output(10_000, rows=rows)
    output.feed(b"line\n" * 1000)
    output.end()
    assert output.last(9) == ("ine\nline\n", True)
    assert output.last(0) == ("", True)
    assert output.last(6000) == ("line\n" * 1000, False)


async def test_what_is_shrunk_keeps_its_end_and_its_offsets() -> None:
    output = Output(1000, rows=24)
    output.feed(b"0123456789")
    output.shrink(4)
    output.feed(b"ab")
    output.end()
    assert await followed(output) == [Chunk(8, b"89ab")]
    assert await output.text() == ("89ab", True)
