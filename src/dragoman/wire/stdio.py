"""The stdio transport, agent side: this process's own stdin and stdout.

(The client's side of a pipe is `proc.process.ProcessLink`, which also owns the process.)
"""

from __future__ import annotations

import asyncio
import os
import sys

# Bytes that may be queued unsent before `drain` waits: a client that stops reading must stop the agent.
HIGH_WATER_BYTES = 256 * 1024


class _Incoming(asyncio.Protocol):
    """Collects the bytes that arrive; pauses the pipe while nothing reads."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._ended = False
        self._readable = asyncio.Event()
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._chunks.append(data)
        self._readable.set()
        if self._transport is not None:
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        self._readable.set()

    async def take(self) -> bytes:
        await self._readable.wait()
        data = b"".join(self._chunks)
        self._chunks.clear()
        if not self._ended:
            self._readable.clear()
            if self._transport is not None:
                self._transport.resume_reading()
        return data


class _Outgoing(asyncio.BaseProtocol):
    def __init__(self) -> None:
        self.writable = asyncio.Event()
        self.writable.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.writable.set()


class StdioTransport:
    def __init__(self, incoming: _Incoming, outgoing: _Outgoing, pipe: asyncio.WriteTransport) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._pipe = pipe

    async def read(self) -> bytes:
        return await self._incoming.take()

    def write(self, data: bytes) -> None:
        if not self._pipe.is_closing():
            self._pipe.write(data)

    async def drain(self) -> None:
        await self._outgoing.writable.wait()

    def close(self) -> None:
        self._pipe.close()


async def stdio_transport() -> StdioTransport:
    """Return this process's stdin and stdout as a transport. From now on `print` writes to stderr."""
    loop = asyncio.get_running_loop()
    stdin = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    stdout = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    sys.stdout = sys.stderr
    incoming, outgoing = _Incoming(), _Outgoing()
    await loop.connect_read_pipe(lambda: incoming, stdin)
    pipe, _ = await loop.connect_write_pipe(lambda: outgoing, stdout)
    pipe.set_write_buffer_limits(high=HIGH_WATER_BYTES)
    return StdioTransport(incoming, outgoing, pipe)
