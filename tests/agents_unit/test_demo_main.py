from __future__ import annotations

import asyncio

from dragoman.agents.demo.__main__ import BATCH_BYTES, BatchingTransport


class Pipe:
    """A transport that notes each write."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False

    async def read(self) -> bytes:
        return b""

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


async def test_what_is_written_in_one_turn_of_the_loop_goes_out_together_and_in_order() -> None:
    pipe = Pipe()
    outbox = BatchingTransport(pipe)
    for part in (b"a", b"b", b"c"):
        outbox.write(part)
    assert pipe.writes == []
    await asyncio.sleep(0)
    outbox.write(b"d")
    await asyncio.sleep(0)
    assert pipe.writes == [b"abc", b"d"]


async def test_a_full_batch_does_not_wait_for_the_loop() -> None:
    pipe = Pipe()
    outbox = BatchingTransport(pipe)
    outbox.write(b"a" * BATCH_BYTES)
    outbox.write(b"b")
    assert pipe.writes == [b"a" * BATCH_BYTES]
    await outbox.drain()
    assert pipe.writes == [b"a" * BATCH_BYTES, b"b"]


async def test_closing_writes_what_is_left_first() -> None:
    pipe = Pipe()
    outbox = BatchingTransport(pipe)
    outbox.write(b"last words")
    outbox.close()
    assert (pipe.writes, pipe.closed) == ([b"last words"], True)
    await asyncio.sleep(0)
    assert pipe.writes == [b"last words"]
