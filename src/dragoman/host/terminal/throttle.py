"""`ReadThrottle`: the terminals of a loop take turns in reading, so that floods, however many, leave time for all else.

Between two turns of the event loop no more is read than `BUDGET`, by all terminals together, whose order is that in
which they came. Where much comes without a break, there is a pause between the turns as well, so that a flood, most of
which is dropped anyway, does not cost a core. Who waits for his turn does not read, and then the command waits in its
own write.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary

# Bytes: taking in as much costs a tenth of a millisecond or two, which no session notices.
BUDGET: Final = 64 * 1024

# Bytes without a break after which it is a flood: more than commands print that are meant to be read.
BURST: Final = 1024 * 1024

# Seconds without anything to read that are a break.
CALM: Final = 0.02

# Seconds between two turns in a flood. The loop's timers have milliseconds, so that `yes` is read with 3 MB a second
# from a pseudo-terminal (4 KiB at a time) and with 48 from a pipe, each for a tenth of a core. (Measured without it:
# 8 MB for a sixth of a core, and 950 MB for two thirds and more. The delay of other sessions' updates is in the ADR.)
PAUSE: Final = 0.001


class ReadThrottle:
    def __init__(self, *, calm: float = CALM, pause: float = PAUSE) -> None:
        self._calm = calm
        self._pause = pause
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._taken = 0
        self._last = 0.0

    async def pay(self, size: int) -> None:
        """Wait, after so many bytes were read, until more may be."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._taken = size if now - self._last > self._calm else self._taken + size
        self._last = now
        waiter: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            self._go_on(loop)
        self._waiting.append((size, waiter))
        await waiter

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._taken > BURST:
            loop.call_later(self._pause, self._grant)
        else:
            loop.call_soon(self._grant)

    def _grant(self) -> None:
        left = BUDGET
        while self._waiting and left > 0:
            size, waiter = self._waiting.popleft()
            if not waiter.done():  # cancelled meanwhile
                waiter.set_result(None)
                left -= size
        if self._waiting:
            self._go_on(asyncio.get_running_loop())


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, ReadThrottle] = WeakKeyDictionary()


def read_throttle() -> ReadThrottle:
    """Those of the running loop."""
    loop = asyncio.get_running_loop()
    found = _of_loop.get(loop)
    if found is None:
        found = _of_loop[loop] = ReadThrottle()
    return found
