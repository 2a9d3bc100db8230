"""`FairScheduler`: shares one event loop between connections, and with the thread that commits.

All frames of one read or one commit are folded and passed on in one go. With one connection that takes a millisecond;
with twenty in a burst, all woken by the same commit, the event loop would do nothing else for thirty. So a limited
number of bytes is handled in each iteration of the loop; later callers wait for the next iteration, first come, first
served.

A journal commits in a thread of its own, which has to share the interpreter with the loop: a small commit takes its
lock some twenty times, and a busy loop gives it away only every 5 ms. What goes on for long without a commit of its
own (lines that are not recorded, pieces of one long line, a long response) therefore waits for the commits of others:
otherwise every one of them would take a hundred times as long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

# Bytes of frames in one iteration of the loop: two full pipes, a few milliseconds. One connection alone never waits.
ROUND_BYTES: Final = 128 * 1024


class FairScheduler:
    """The scheduler of one loop; `scheduler_of_loop` returns it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._bytes_left = ROUND_BYTES
        self._waiters: deque[tuple[asyncio.Future[None], int]] = deque()
        self._is_round_scheduled = False
        self._commits: set[asyncio.Future[None]] = set()  # those under way

    async def acquire(self, size: int) -> None:
        """Wait until `size` bytes may be handled. The last caller of a round may exceed what is left of it."""
        if self._bytes_left <= 0 or self._waiters:
            future = self._loop.create_future()
            self._waiters.append((future, size))
            await future
        else:
            self._count(size)

    def _count(self, size: int) -> None:
        self._bytes_left -= size
        if not self._is_round_scheduled:
            self._is_round_scheduled = True
            self._loop.call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._is_round_scheduled = False
        self._bytes_left = ROUND_BYTES
        while self._waiters and self._bytes_left > 0:
            future, size = self._waiters.popleft()
            if not future.done():  # otherwise the caller was cancelled
                future.set_result(None)
                self._count(size)

    @contextmanager
    def committing(self, size: int) -> Iterator[None]:
        """Mark a commit of `size` bytes as under way. Nobody waits for a large one: it takes long by itself."""
        if size > ROUND_BYTES:
            yield
            return
        done = self._loop.create_future()
        self._commits.add(done)
        try:
            yield
        finally:
            self._commits.discard(done)
            done.set_result(None)

    async def wait_for_commits(self) -> None:
        """Return when all commits that are under way now have ended."""
        if self._commits:
            await asyncio.wait(tuple(self._commits))


_schedulers: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, FairScheduler]] = WeakKeyDictionary()


def scheduler_of_loop() -> FairScheduler:
    """Return the scheduler of the running event loop."""
    loop = asyncio.get_running_loop()
    scheduler = _schedulers.get(loop)
    if scheduler is None:
        scheduler = _schedulers[loop] = FairScheduler(loop)
    return scheduler
