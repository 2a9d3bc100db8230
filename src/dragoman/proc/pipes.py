"""Dragoman's ends of an agent's three pipes, on the event loop: one class each for stdin, stdout and stderr.

Each owns its descriptor: it sets it non-blocking and closes it at the end. None of them raises for anything that the
other side does.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable

READ_SIZE_BYTES = 64 * 1024
"""The capacity of a pipe, on Linux and (at most) on macOS, so that one read empties it. (Measured: pipes of 256 KiB and
1 MiB gain nothing once the bytes are also decoded, and count against the user's limit for all pipes.)"""

MAX_FINAL_READ_BYTES = 1024 * 1024
"""The most that is read after the agent's end: the largest pipe that a program may set up on Linux. This reads all that
the agent itself wrote, and stops a child that floods the pipe."""

HIGH_WATER_BYTES = 256 * 1024
"""`drain()` waits above this: the capacity of a few pipes, so that the pipe never runs empty during the wait."""

LOW_WATER_BYTES = 64 * 1024
"""`drain()` returns below this: the capacity of one pipe."""


class PipeReader:
    """Stdout: read only on request. Other bytes stay in the pipe, and then the agent waits.

    The reader stays registered from one `read` to the next, so that a stream costs no extra system calls; it is removed
    when bytes come while nobody reads.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._is_watched = False
        self._waiter: asyncio.Future[None] | None = None
        self._unread = b""

    @property
    def is_closed(self) -> bool:
        """True if the descriptor is closed: at the end of the stream, or because nobody wants to read any more."""
        return self._fd < 0

    async def read(self) -> bytes:
        while True:
            if self._unread:
                data, self._unread = self._unread, b""
                return data
            if self._fd < 0:
                return b""
            if self._waiter is not None:
                raise RuntimeError("read() was called while another read() waits: a link has one reader")
            if not self._is_watched:
                self._is_watched = True
                self._loop.add_reader(self._fd, self._on_readable)
            waiter = self._waiter = self._loop.create_future()
            try:
                # The bytes go into `_unread`, not into the future: a cancelled waiter would lose them.
                await waiter
            finally:
                if self._waiter is waiter:
                    self._waiter = None

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to read at this moment: no bytes here or in the pipe, and not its end."""
        if self._unread or self._fd < 0:
            return not self._unread
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return not poll.poll(0)

    def finish(self) -> None:
        """Read what is in the pipe now, and close it. `read` returns these bytes, then `b""`."""
        if self._fd < 0:
            return
        parts = [self._unread]
        remaining = MAX_FINAL_READ_BYTES
        while remaining > 0:
            try:
                data = os.read(self._fd, READ_SIZE_BYTES)
            except OSError:
                break
            if not data:
                break
            parts.append(data)
            remaining -= len(data)
        self._unread = b"".join(parts)
        self._close()
        self._wake()

    def _on_readable(self) -> None:
        if self._waiter is None:
            self._unwatch()
            return
        try:
            data = os.read(self._fd, READ_SIZE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._unread += data
        else:
            self._close()
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _unwatch(self) -> None:
        if self._is_watched and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._is_watched = False

    def _close(self) -> None:
        self._unwatch()
        os.close(self._fd)
        self._fd = -1


class PipeDrainer:
    """Stderr: always read, so that the agent never waits; all bytes go to `on_data`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, on_data: Callable[[bytes], None]) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._on_data = on_data
        loop.add_reader(fd, self._on_readable)

    def catch_up(self) -> None:
        """Read what is in the pipe now, without waiting for the loop."""
        remaining = MAX_FINAL_READ_BYTES
        while remaining > 0 and self._fd >= 0:
            read_bytes = self._on_readable()
            if not read_bytes:
                return
            remaining -= read_bytes

    def finish(self) -> None:
        self.catch_up()
        self._close()

    def _on_readable(self) -> int:
        try:
            data = os.read(self._fd, READ_SIZE_BYTES)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""
        if data:
            self._on_data(data)
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


class PipeWriter:
    """Stdin: written at once if the pipe has room, else queued and written when it has."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._buffer = bytearray()
        self._is_watched = False
        self._closing = False
        self._drain_waiters: list[asyncio.Future[None]] = []

    def write(self, data: bytes) -> None:
        if self._fd < 0 or self._closing:
            return
        if self._buffer:
            self._buffer += data
            return
        sent = self._send(data)
        if self._fd >= 0 and sent < len(data):
            self._buffer += memoryview(data)[sent:]
            self._is_watched = True
            self._loop.add_writer(self._fd, self._on_writable)

    async def drain(self) -> None:
        while len(self._buffer) > HIGH_WATER_BYTES:
            waiter = self._loop.create_future()
            self._drain_waiters.append(waiter)
            await waiter

    def close(self) -> None:
        """Close the pipe after the queued bytes are written."""
        self._closing = True
        if not self._buffer:
            self.abandon()

    def abandon(self) -> None:
        """Close the pipe at once and discard the queued bytes: the reader has ended."""
        self._buffer.clear()
        if self._fd >= 0:
            if self._is_watched and not self._loop.is_closed():
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
        if len(self._buffer) <= LOW_WATER_BYTES:
            self._wake()
        if not self._buffer and self._fd >= 0:
            self._loop.remove_writer(self._fd)
            self._is_watched = False
            if self._closing:
                self.abandon()

    def _wake(self) -> None:
        waiters, self._drain_waiters = self._drain_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
