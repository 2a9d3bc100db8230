"""`Transport`: the seam between messages and bytes, and its in-memory form.

The other transports are a process (`proc.link`), this process's own stdio, WebSocket and HTTP.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

# Bytes that may wait in one direction of an in-memory pair before `drain` holds the writer up, as in a pipe.
HIGH_WATER_BYTES = 64 * 1024


class Transport(Protocol):
    """A two-way stream of bytes.

    Promised: bytes arrive in order, each once. Unread bytes are not buffered without limit: the other side
    waits in its own write. Not promised: that one write is one read, that a read ends at a line, or that written bytes
    were seen by the other side.
    """

    async def read(self) -> bytes:
        """Return the next bytes, as many as there are; wait for the first. Return b"" at the end, from then on always.

        One caller at a time. A cancelled call loses nothing: the next call returns those bytes.
        """
        ...

    def write(self, data: bytes) -> None:
        """Queue bytes. Do nothing after `close`, or once the other side has ended: its end shows in `read`."""
        ...

    async def drain(self) -> None:
        """Wait while too many bytes are queued; return when there is room, or when the other side has ended."""
        ...

    def close(self) -> None:
        """End the writing side, after what was written. Reading goes on."""
        ...


class _Pipe:
    """One direction of an in-memory pair."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._ended = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    def put(self, data: bytes) -> None:
        if self._ended or not data:
            return
        self._chunks.append(data)
        self._size += len(data)
        self._readable.set()
        if self._size > HIGH_WATER_BYTES:
            self._writable.clear()

    def end(self) -> None:
        self._ended = True
        self._readable.set()
        self._writable.set()

    async def take(self) -> bytes:
        await self._readable.wait()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if not self._ended:
            self._readable.clear()
        self._writable.set()
        return data

    async def wait_writable(self) -> None:
        await self._writable.wait()


class MemoryTransport:
    """One end of a pair made by `memory_pair`."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def read(self) -> bytes:
        return await self._incoming.take()

    def write(self, data: bytes) -> None:
        self._outgoing.put(data)

    async def drain(self) -> None:
        await self._outgoing.wait_writable()

    def close(self) -> None:
        self._outgoing.end()


def memory_pair() -> tuple[MemoryTransport, MemoryTransport]:
    """Return two transports, each the other side of the other. For tests, and for agents in this process."""
    there, back = _Pipe(), _Pipe()
    return MemoryTransport(back, there), MemoryTransport(there, back)
