"""Queued lines come out one by one, and a writer that is too far ahead waits."""

from __future__ import annotations

import asyncio

from dragoman.wire.network import HIGH_WATER_BYTES, IncomingLines, OutgoingLines


async def drain_lines(outgoing: OutgoingLines) -> list[bytes]:
    lines = []
    async with asyncio.timeout(5):
        while (line := await outgoing.next_line()) is not None:
            lines.append(line)
            outgoing.mark_sent()
    return lines


async def test_lines_come_out_whole_however_they_were_written() -> None:
    outgoing = OutgoingLines()
    for piece in (b"on", b"e\ntw", b"o\n\n", b"three\nunfinished"):
        outgoing.put(piece)
    outgoing.close()
    assert await drain_lines(outgoing) == [b"one", b"two", b"three"]


async def test_a_writer_waits_while_too_much_is_unsent() -> None:
    outgoing = OutgoingLines()
    outgoing.put(b"x" * (HIGH_WATER_BYTES + 1) + b"\n")
    waiting = asyncio.ensure_future(outgoing.drain())
    assert await outgoing.next_line() is not None
    assert not waiting.done()
    outgoing.mark_sent()
    async with asyncio.timeout(5):
        await waiting


async def test_drain_returns_when_the_other_side_has_ended() -> None:
    outgoing = OutgoingLines()
    outgoing.put(b"x" * (HIGH_WATER_BYTES + 1) + b"\n")
    outgoing.abandon()
    outgoing.put(b"more\n")
    async with asyncio.timeout(5):
        await outgoing.drain()
    assert await drain_lines(outgoing) == []


async def test_a_full_incoming_queue_holds_its_writer_up_and_loses_nothing() -> None:
    inbox = IncomingLines()
    line = b"x" * (HIGH_WATER_BYTES // 2)
    filling = asyncio.ensure_future(_fill(inbox, [line] * 10))
    read = b""
    async with asyncio.timeout(5):
        while data := await inbox.take():
            assert len(data) <= 2 * HIGH_WATER_BYTES
            read += data
    await filling
    assert read == (line + b"\n") * 10
    assert await inbox.take() == b""


async def _fill(inbox: IncomingLines, lines: list[bytes]) -> None:
    for line in lines:
        await inbox.put(line)
    inbox.end()
