"""`Room`: how many bytes of frames may be on their way to the disk, of all the connections of one event loop together.

One thread commits for all of them, and shares the interpreter with the loop: while twenty connections fold what they
read it gets hardly a turn, and has all of it before it when they are done. So nobody reads more while much waits, and
the two work side by side. A slow disk then slows the agents, and what waits for it does not grow with their number.
"""

from __future__ import annotations

import asyncio
from typing import Final
from weakref import WeakKeyDictionary

# What can be lost to a kill is what nobody has been shown yet, and telling of one commit keeps the loop for a
# millisecond or two. (Measured: with more a burst is no faster.)
WAITING: Final = 2 * 1024 * 1024


class Room:
    def __init__(self, limit: int = WAITING) -> None:
        self._limit = limit
        self._held = 0
        self._free = asyncio.Event()
        self._free.set()

    def fill(self, size: int) -> None:
        self._held += size
        if self._held > self._limit:
            self._free.clear()

    def empty(self, size: int) -> None:
        self._held -= size
        if self._held <= self._limit:
            self._free.set()

    async def free(self) -> None:
        """Returns when more may be read. Each who waited may then read once: it is exceeded by that much."""
        await self._free.wait()


_rooms: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Room]] = WeakKeyDictionary()


def of_this_loop() -> Room:
    loop = asyncio.get_running_loop()
    room = _rooms.get(loop)
    if room is None:
        room = _rooms[loop] = Room()
    return room
