"""Our ends of an agent's three pipes, on the event loop: one class each for stdin, stdout and stderr.

Each owns its descriptor: sets it non-blocking, closes it at its end, and forgets it. None of them raises for what the
other side does.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable

READ_SIZE = 64 * 1024
"""What a pipe holds, on Linux and (at most) on macOS, so one read empties it. (Measured: pipes of 256 KiB and 1 MiB
bring nothing once the bytes are also decoded, and count against the user's limit for all pipes.)"""

LAST_READ = 1024 * 1024
"""The most that is read after the agent's end: the largest pipe that a program may make for itself on Linux. So all
that the agent itself wrote is had, and a child that floods on is not."""

HIGH_WATER = 256 * 1024
"""`drain()` waits above this: a few pipes' fill, so that the pipe never runs dry while we wait."""

LOW_WATER = 64 * 1024
"""And goes on below this: one pipe's fill."""


class PulledEnd:
    """Stdout: read only when asked. What is not asked for stays in the pipe, and then the agent waits.

    The reader stays registered from one `read` to the next, so that a stream costs no extra system calls; it is taken
    off when bytes come that nobody asked for.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._watched = False
        self._waiter: asyncio.Future[None] | None = None
        self._held = b""

    async def read(self) -> bytes:
        while True:
            if self._held:
                data, self._held = self._held, b""
                return data
            if self._fd < 0:
                return b""
            if self._waiter is not None:
                raise RuntimeError("read() was called while another read() waits: a link has one reader")
            if not self._watched:
                self._watched = True
                self._loop.add_reader(self._fd, self._on_readable)
            waiter = self._waiter = self._loop.create_future()
            try:
                # The bytes are put into `_held` and not into the future: a cancelled waiter would lose them.
                await waiter
            finally:
                if self._waiter is waiter:
                    self._waiter = None

    @property
    def dry(self) -> bool:
        """Whether there is nothing to read at this moment, neither kept here nor in the pipe, nor its end."""
        if self._held or self._fd < 0:
            return not self._held
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return not poll.poll(0)

    def finish(self) -> None:
        """Take what is in the pipe now, and close it. `read` returns this, then `b""`."""
        if self._fd < 0:
            return
        pieces = [self._held]
        left = LAST_READ
        while left > 0:
            try:
                data = os.read(self._fd, READ_SIZE)
            except OSError:
                break
            if not data:
                break
            pieces.append(data)
            left -= len(data)
        self._held = b"".join(pieces)
        self._close()
        self._wake()

    def _on_readable(self) -> None:
        if self._waiter is None:
            self._unwatch()
            return
        try:
            data = os.read(self._fd, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._held += data
        else:
            self._close()
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _unwatch(self) -> None:
        if self._watched and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._watched = False

    def _close(self) -> None:
        self._unwatch()
        os.close(self._fd)
        self._fd = -1


class DrainedEnd:
    """Stderr: always read, so that the agent never waits for us; every piece goes to `sink`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, sink: Callable[[bytes], None]) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._sink = sink
        loop.add_reader(fd, self._on_readable)

    def catch_up(self) -> None:
        """Take what is in the pipe now, without waiting for the loop."""
        left = LAST_READ
        while left > 0 and self._fd >= 0:
            taken = self._on_readable()
            if not taken:
                return
            left -= taken

    def finish(self) -> None:
        self.catch_up()
        self._close()

    def _on_readable(self) -> int:
        try:
            data = os.read(self._fd, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""
        if data:
            self._sink(data)
        else:
            self._close()
        return len(data)

    def _close(self) -> None:
        if self._fd < 0:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1


class PushedEnd:
    """Stdin: sent at once if the pipe has room, else kept and sent when it has."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._buffer = bytearray()
        self._watched = False
        self._closing = False
        self._drainers: list[asyncio.Future[None]] = []

    def write(self, data: bytes) -> None:
        if self._fd < 0 or self._closing:
            return
        if self._buffer:
            self._buffer += data
            return
        sent = self._send(data)
        if self._fd >= 0 and sent < len(data):
            self._buffer += memoryview(data)[sent:]
            self._watched = True
            self._loop.add_writer(self._fd, self._on_writable)

    async def drain(self) -> None:
        while len(self._buffer) > HIGH_WATER:
            waiter = self._loop.create_future()
            self._drainers.append(waiter)
            await waiter

    def close(self) -> None:
        """End the pipe after what is still to be sent."""
        self._closing = True
        if not self._buffer:
            self.abandon()

    def abandon(self) -> None:
        """Close at once: what was not sent has nobody left to read it."""
        self._buffer.clear()
        if self._fd >= 0:
            if self._watched and not self._loop.is_closed():
                self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1
        self._wake()

    def _send(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._fd, data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.abandon()
            return 0

    def _on_writable(self) -> None:
        sent = self._send(self._buffer)
        del self._buffer[:sent]
        if len(self._buffer) <= LOW_WATER:
            self._wake()
        if not self._buffer and self._fd >= 0:
            self._loop.remove_writer(self._fd)
            self._watched = False
            if self._closing:
                self.abandon()

    def _wake(self) -> None:
        drainers, self._drainers = self._drainers, []
        for waiter in drainers:
            if not waiter.done():
                waiter.set_result(None)
