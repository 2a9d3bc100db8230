"""Many small writes become few large ones: what is written within one turn of the loop goes out together.

A pipe takes each write at the price of a system call, and a stream of words is nothing but small writes. The order is
kept; nothing waits longer than until the loop comes round.
"""

from __future__ import annotations

import asyncio

from dragoman.wire.transport import Transport

# Written at once when reached: a pipe holds 64 KiB, more would only wait here instead of there.
BATCH = 64 * 1024


class Outbox:
    """A transport in front of another; what it promises, it promises for both."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._waiting: list[bytes] = []
        self._size = 0

    async def read(self) -> bytes:
        return await self._transport.read()

    def write(self, data: bytes) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(data)
        self._size += len(data)
        if self._size >= BATCH:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            self._size = 0
            self._transport.write(data)

    async def drain(self) -> None:
        self.flush()
        await self._transport.drain()

    def close(self) -> None:
        self.flush()
        self._transport.close()
