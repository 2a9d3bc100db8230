"""The WebSocket shell on its own: frames become lines, backpressure holds, the end comes and has a reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from dragoman.wire.websocket import WebSocketTransport, connect_websocket
from session.servers import settled

TIMEOUT_S = 20.0


@asynccontextmanager
async def transport_to(peer: Callable[[ServerConnection], Awaitable[None]]) -> AsyncIterator[WebSocketTransport]:
    async with asyncio.timeout(TIMEOUT_S), serve(peer, "127.0.0.1", 0, close_timeout=0.1, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        transport = await connect_websocket(f"ws://127.0.0.1:{port}/acp")
        try:
            yield transport
        finally:
            await transport.end(0.1)


async def test_each_frame_is_one_line_whatever_is_in_it() -> None:
    async def peer(socket: ServerConnection) -> None:
        for frame in ('{"a": 1}', '{\r\n  "a": 2\n}', "", b'{"binary": true}', "é"):
            await socket.send(frame)

    async with transport_to(peer) as transport:
        read = b""
        while data := await transport.read():
            read += data
        assert read.splitlines() == [b'{"a": 1}', b'{    "a": 2 }', b"", b'{"binary": true}', "é".encode()]
        assert await transport.read() == b""
        assert transport.end_reason == "the server closed the connection: 1000 (OK)"


async def test_each_line_is_one_text_frame_and_what_was_written_before_the_end_arrives() -> None:
    heard: list[str | bytes] = []

    async def peer(socket: ServerConnection) -> None:
        heard.extend([frame async for frame in socket])

    async with transport_to(peer) as transport:
        transport.write(b'{"a": 1}\n{"a"')
        transport.write(b": 2}\n")
        await transport.drain()
        transport.close()
        transport.write(b"too late\n")
        assert await transport.read() == b""
    assert heard == ['{"a": 1}', '{"a": 2}']


async def test_a_peer_is_not_read_ahead_of_its_reader() -> None:
    message = "x" * 64_000
    sent = 0

    async def peer(socket: ServerConnection) -> None:
        nonlocal sent
        for _ in range(1000):
            await socket.send(message)
            sent += 1

    async with transport_to(peer) as transport:
        # 64 kB each: the buffers of two sockets and a short queue, not all of what was said.
        assert 0 < await settled(lambda: sent) < 400
        read = 0
        while await transport.read():
            read += 1
        assert read == 1000


async def test_a_peer_that_reads_nothing_holds_the_writer_up_until_it_is_gone() -> None:
    ended = asyncio.Event()

    async def peer(socket: ServerConnection) -> None:
        socket.transport.pause_reading()
        await ended.wait()
        socket.transport.abort()

    async with transport_to(peer) as transport:
        transport.write(b"x" * 16_000_000 + b"\n")
        transport.write(b"behind it\n")
        draining = asyncio.ensure_future(transport.drain())
        ended.set()
        assert await transport.read() == b""
        await draining
        assert transport.end_reason == "the connection was lost"


async def test_the_end_does_not_wait_for_a_peer_that_never_takes_leave() -> None:
    ended = asyncio.Event()

    async def peer(socket: ServerConnection) -> None:
        socket.transport.pause_reading()
        await ended.wait()
        socket.transport.resume_reading()

    async with transport_to(peer) as transport:
        await transport.end(0.05)
        ended.set()
        assert await transport.read() == b""


async def test_the_reason_of_a_server_that_closes_is_reported() -> None:
    async def peer(socket: ServerConnection) -> None:
        await socket.close(1011, "out of luck")

    async with transport_to(peer) as transport:
        assert transport.end_reason is None or "out of luck" in transport.end_reason
        assert await transport.read() == b""
        await transport.wait_ended()
        assert transport.end_reason == "the server closed the connection: 1011 (internal error) out of luck"


async def test_a_peer_that_disappears_is_a_lost_connection() -> None:
    async def peer(socket: ServerConnection) -> None:
        await socket.send("{}")
        try:
            await socket.recv()
        except ConnectionClosed:
            return
        socket.transport.abort()

    async with transport_to(peer) as transport:
        assert await transport.read() == b"{}\n"
        transport.write(b"go\n")
        assert await transport.read() == b""
        assert transport.end_reason == "the connection was lost"
