"""The in-memory shell: two transports that are each other's other side. For tests, and for agents
that live in this process."""

from __future__ import annotations

import asyncio

# As an operating system's pipe: a writer that is this far ahead waits in `drain`.
HIGH_WATER = 64 * 1024


class _Pipe:
    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.size = 0
        self.ended = False
        self.readable = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()

    def put(self, data: bytes) -> None:
        if self.ended or not data:
            return
        self.chunks.append(data)
        self.size += len(data)
        self.readable.set()
        if self.size > HIGH_WATER:
            self.writable.clear()

    def end(self) -> None:
        self.ended = True
        self.readable.set()
        self.writable.set()

    async def take(self) -> bytes:
        await self.readable.wait()
        data = b"".join(self.chunks)
        self.chunks.clear()
        self.size = 0
        if not self.ended:
            self.readable.clear()
        self.writable.set()
        return data


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
        await self._outgoing.writable.wait()

    def close(self) -> None:
        self._outgoing.end()


def memory_pair() -> tuple[MemoryTransport, MemoryTransport]:
    """Two transports; what is written to one is read from the other."""
    there, back = _Pipe(), _Pipe()
    return MemoryTransport(back, there), MemoryTransport(there, back)
