from __future__ import annotations

import asyncio
import os

import pytest

from dragoman.proc.pipes import HIGH_WATER_BYTES, PipeDrainer, PipeReader, PipeWriter


async def test_read_returns_all_that_is_there_then_the_end() -> None:
    reading, writing = os.pipe()
    end = PipeReader(asyncio.get_running_loop(), reading)
    os.write(writing, b"one")
    os.write(writing, b"two")
    assert await end.read() == b"onetwo"
    os.close(writing)
    assert await end.read() == b""
    assert await end.read() == b""


async def test_a_cancelled_read_loses_nothing() -> None:
    reading, writing = os.pipe()
    end = PipeReader(asyncio.get_running_loop(), reading)
    for number in range(50):
        first = asyncio.ensure_future(end.read())
        await asyncio.sleep(0)
        os.write(writing, b"%d" % number)
        # Let the read come as far as it gets in a few steps of the loop, each time one further.
        for _ in range(number % 5):
            await asyncio.sleep(0)
        if first.cancel():
            with pytest.raises(asyncio.CancelledError):
                await first
            assert await end.read() == b"%d" % number
        else:
            assert await first == b"%d" % number
    os.close(writing)
    end.finish()


async def test_two_readers_at_once_are_refused() -> None:
    reading, writing = os.pipe()
    end = PipeReader(asyncio.get_running_loop(), reading)
    first = asyncio.ensure_future(end.read())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="one reader"):
        await end.read()
    os.close(writing)
    assert await first == b""


async def test_finishing_keeps_what_was_there_and_wakes_the_reader() -> None:
    reading, writing = os.pipe()
    end = PipeReader(asyncio.get_running_loop(), reading)
    waiting = asyncio.ensure_future(end.read())
    await asyncio.sleep(0)
    os.write(writing, b"last words")
    end.finish()
    end.finish()
    assert await waiting == b"last words"
    assert await end.read() == b""
    os.close(writing)


async def test_unread_bytes_stay_in_the_pipe() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    end = PipeReader(asyncio.get_running_loop(), reading)
    os.write(writing, b"first")
    assert await end.read() == b"first"
    # A reader is registered now; the loop turns while the pipe fills.
    sent = 0
    for _ in range(100):
        try:
            sent += os.write(writing, b"x" * 65536)
        except BlockingIOError:
            pass
        await asyncio.sleep(0)
    got = 0
    os.close(writing)
    while data := await end.read():
        got += len(data)
    assert got == sent <= 1024 * 1024


async def test_drain_waits_for_room_and_close_sends_the_rest_first() -> None:
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    end, peer = PipeWriter(loop, writing), PipeReader(loop, reading)
    data = os.urandom(HIGH_WATER_BYTES * 4)
    end.write(data)
    draining = asyncio.ensure_future(end.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    end.close()
    end.write(b"too late")
    got = b""
    while piece := await peer.read():
        got += piece
    assert got == data
    await draining


async def test_writes_to_a_peer_that_is_gone_do_nothing_and_drain_returns() -> None:
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    end = PipeWriter(loop, writing)
    end.write(b"x" * HIGH_WATER_BYTES * 4)
    draining = asyncio.ensure_future(end.drain())
    await asyncio.sleep(0)
    os.close(reading)
    async with asyncio.timeout(10):
        await draining
    end.write(b"nobody")
    await end.drain()
    end.close()


async def test_a_drained_end_gives_all_to_its_sink() -> None:
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    got = bytearray()
    ended = asyncio.Event()

    def sink(data: bytes) -> None:
        got.extend(data)
        if got.endswith(b"\n"):
            ended.set()

    end = PipeDrainer(loop, reading, sink)
    await asyncio.to_thread(os.write, writing, b"x" * 500_000 + b"\n")
    await ended.wait()
    os.write(writing, b"more")
    end.catch_up()
    assert got.endswith(b"\nmore")
    end.finish()
    end.finish()
    os.close(writing)
