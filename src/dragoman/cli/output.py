"""`Outbox`: bytes on their way to stdout and stderr, in the order they were put.

Promised: the event loop is never held up by a reader who is slow or has stopped (a pager, a paused terminal): whoever
waits for `flush` waits, everything else goes on, above all Ctrl-C and the run's limits.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
from collections import deque
from collections.abc import Callable

STDIN, STDOUT, STDERR = 0, 1, 2

# A pipe that is writable takes this many bytes at once without blocking, by POSIX's word (PIPE_BUF).
PIECE = 4096


class OutputLost(Exception):
    """stdout cannot be written to any more. `closed`: its reader has gone, as `head` does."""

    def __init__(self, problem: OSError) -> None:
        super().__init__(problem.strerror or str(problem))
        self.closed = isinstance(problem, BrokenPipeError | ConnectionResetError)


class Outbox:
    def __init__(self) -> None:
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._turn = asyncio.Lock()
        self._background: asyncio.Task[None] | None = None

    def put(self, fd: int, data: bytes | str) -> None:
        if data:
            self._waiting.append((fd, data.encode("utf-8", "replace") if isinstance(data, str) else data))

    def put_soon(self, fd: int, data: bytes | str) -> None:
        """For callers that cannot wait; errors are seen by the next who does."""
        self.put(fd, data)
        if self._background is None or self._background.done():
            self._background = asyncio.get_running_loop().create_task(self._flush_quietly(), name="dragoman output")

    async def flush(self) -> None:
        """Returns when all is written. Raises `OutputLost` for stdout; a lost stderr is nobody's trouble."""
        async with self._turn:
            while self._waiting:
                fd = self._waiting[0][0]
                await self._write(fd, self._next(fd))

    def _next(self, fd: int) -> bytes:
        """All that may be written to this one before the other gets its turn."""
        parts = []
        while self._waiting and self._waiting[0][0] == fd:
            parts.append(self._waiting.popleft()[1])
        return b"".join(parts)

    async def _write(self, fd: int, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                await _writable(fd)
                rest = rest[os.write(fd, rest[:PIECE]) :]
        except OSError as problem:
            if fd == STDOUT:
                raise OutputLost(problem) from None
        except asyncio.CancelledError:
            self._waiting.appendleft((fd, bytes(rest)))
            raise

    async def _flush_quietly(self) -> None:
        try:
            await self.flush()
        except OutputLost:
            pass


async def _writable(fd: int) -> None:
    look = select.poll()
    look.register(fd, select.POLLOUT)
    if look.poll(0):
        return
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(fd)


def watch_reader(fd: int, gone: Callable[[], None]) -> None:
    """Calls `gone` once when the reader of a pipe has closed it, also while nothing is written.

    Linux alone tells this of a pipe's writing end; elsewhere the next write finds out.
    """
    try:
        if sys.platform != "linux" or not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return
    except OSError:  # it was closed from the start
        return
    loop = asyncio.get_running_loop()

    def closed() -> None:
        loop.remove_reader(fd)
        gone()

    loop.add_reader(fd, closed)
