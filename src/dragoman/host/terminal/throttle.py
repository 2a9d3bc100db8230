"""`ReadThrottle`: limits how much the terminals of a loop read, so that floods leave time for everything else.

Between two iterations of the event loop all terminals together read at most `BUDGET` bytes, in the order in which they
ask. A flood, most of which is dropped anyway, also pauses between the iterations, so that it does not occupy a core. A
terminal that waits does not read, and then its command blocks in its own write.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary

# Bytes: processing them takes 0.1 to 0.2 ms, which no session notices.
BUDGET: Final = 64 * 1024

# Bytes without a break after which output counts as a flood: more than people or models read.
BURST: Final = 1024 * 1024

# Seconds without output that end a flood.
QUIET_S: Final = 0.02

# Seconds between two iterations in a flood. The loop's timers have a resolution of milliseconds: `yes` is read at
# 3 MB/s from a pseudo-terminal (4 KiB at a time) and at 48 MB/s from a pipe, each for a tenth of a core. (Measured
# without it: 8 MB/s for a sixth of a core, and 950 MB/s for two thirds and more. The delay of other sessions' updates
# is in the ADR.)
PAUSE_S: Final = 0.001


class ReadThrottle:
    """Grants reads within the budget. `quiet_s` and `pause_s` are in seconds."""

    def __init__(self, *, quiet_s: float = QUIET_S, pause_s: float = PAUSE_S) -> None:
        self._quiet_s = quiet_s
        self._pause_s = pause_s
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._burst_bytes = 0
        self._last_read_at = 0.0

    async def after_read(self, size: int) -> None:
        """Wait, after reading `size` bytes, until the next read is allowed."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        is_quiet = now - self._last_read_at > self._quiet_s
        self._burst_bytes = size if is_quiet else self._burst_bytes + size
        self._last_read_at = now
        waiter: asyncio.Future[None] = loop.create_future()
        if not self._waiters:
            self._schedule(loop)
        self._waiters.append((size, waiter))
        await waiter

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._burst_bytes > BURST:
            loop.call_later(self._pause_s, self._grant)
        else:
            loop.call_soon(self._grant)

    def _grant(self) -> None:
        budget = BUDGET
        while self._waiters and budget > 0:
            size, waiter = self._waiters.popleft()
            if not waiter.done():  # cancelled meanwhile
                waiter.set_result(None)
                budget -= size
        if self._waiters:
            self._schedule(asyncio.get_running_loop())


_throttles: WeakKeyDictionary[asyncio.AbstractEventLoop, ReadThrottle] = WeakKeyDictionary()


def read_throttle() -> ReadThrottle:
    """Return the throttle of the running loop."""
    return _throttles.setdefault(asyncio.get_running_loop(), ReadThrottle())
