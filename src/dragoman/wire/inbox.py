"""What has arrived over a network and was not read yet.

Whole lines from several sources become one stream of bytes, in the order in which they came. Whoever fills it faster
than it is read waits, and so, over the network, does the other side.
"""

from __future__ import annotations

import asyncio

# As much as may wait on the way out.
from dragoman.wire.outgoing import HIGH_WATER


class Inbox:
    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._size = 0
        self._over = False
        self._readable = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, line: bytes) -> None:
        await self._room.wait()
        self._lines.append(line)
        self._lines.append(b"\n")
        self._size += len(line)
        self._readable.set()
        if self._size > HIGH_WATER:
            self._room.clear()

    @property
    def full(self) -> bool:
        return not self._room.is_set()

    def end(self) -> None:
        self._over = True
        self._readable.set()

    async def take(self) -> bytes:
        await self._readable.wait()
        data = b"".join(self._lines)
        self._lines.clear()
        self._size = 0
        if not self._over:
            self._readable.clear()
        self._room.set()
        return data
