"""What waits to be sent over a network, message by message.

Bytes go in as to any transport; whole lines come out, one at a time and in order. Who writes faster than
the network takes waits in `drain`.
"""

from __future__ import annotations

import asyncio
from collections import deque

# As on the other shells: what may wait unsent before `drain` holds the writer up.
HIGH_WATER = 256 * 1024


class Outgoing:
    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._rest = b""  # of a line whose end has not been written yet
        self._size = 0
        self._closed = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def put(self, data: bytes) -> None:
        if self._closed:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                self._lines.append(line)
                self._size += len(line)
        self._changed.set()
        if self._size > HIGH_WATER:
            self._room.clear()

    async def take(self) -> bytes | None:
        """The next line, without its newline, which counts as waiting until `sent`; None when all were taken."""
        while not self._lines:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._lines[0]

    def sent(self) -> None:
        """The line that was taken is on its way."""
        if self._lines:  # else all was abandoned meanwhile
            self._size -= len(self._lines.popleft())
        if self._size <= HIGH_WATER:
            self._room.set()

    async def drain(self) -> None:
        await self._room.wait()

    def close(self) -> None:
        """No more is taken in; what waits is still to be sent."""
        self._closed = True
        self._changed.set()

    def abandon(self) -> None:
        """The other side is gone, and what waits for it goes nowhere."""
        self._lines.clear()
        self._size = 0
        self._room.set()
        self.close()
