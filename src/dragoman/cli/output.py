"""The standard streams: `Outbox` writes to stdout and stderr in order, `read_line` reads what a person types.

Promised: a slow or stopped reader (a pager, a paused terminal) never blocks the event loop: only the caller of `flush`
waits; everything else goes on, above all Ctrl-C and the run's limits.
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

# A writable pipe takes this many bytes at once without blocking: 4096 on Linux, 512 on macOS.
CHUNK_BYTES = select.PIPE_BUF

# Columns. Some terminals do not know their size and report 0; on a narrower one nothing would be readable.
USUAL_WIDTH = 80
MIN_WIDTH = 40
# Columns of output that goes into a file: logs are read on wide terminals.
LOG_WIDTH = 110


class OutputLost(Exception):
    """stdout cannot be written any more. `closed`: its reader has gone, as `head` does."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.closed = isinstance(error, BrokenPipeError | ConnectionResetError)


class Outbox:
    """`shared`: both streams are read as one text and keep their order; otherwise neither waits for the other, so that
    a note on the terminal is seen while stdout is blocked."""

    def __init__(self, *, shared: bool = True) -> None:
        first = _Queue()
        self._queues = {STDOUT: first, STDERR: first if shared else _Queue()}
        self._background: set[asyncio.Task[None]] = set()

    def put(self, fd: int, data: bytes | str) -> None:
        if data:
            encoded = data.encode("utf-8", "replace") if isinstance(data, str) else data
            self._queues[fd].waiting.append((fd, encoded))

    async def flush(self) -> None:
        """Write everything. Raises `OutputLost` for stdout; a lost stderr is ignored."""
        for queue in {id(queue): queue for queue in reversed(self._queues.values())}.values():
            await queue.flush()

    async def flush_notes(self) -> None:
        """Write what is meant for stderr, and what has to come before it."""
        try:
            await self._queues[STDERR].flush()
        except OutputLost:
            pass

    def flush_notes_soon(self) -> None:
        """Do the same for callers that cannot wait."""
        task = asyncio.get_running_loop().create_task(self.flush_notes(), name="dragoman notes")
        self._background.add(task)
        task.add_done_callback(self._background.discard)


class _Queue:
    def __init__(self) -> None:
        self.waiting: deque[tuple[int, bytes]] = deque()
        self._lock = asyncio.Lock()

    async def flush(self) -> None:
        async with self._lock:
            while self.waiting:
                fd = self.waiting[0][0]
                await self._write(fd, self._next(fd))

    def _next(self, fd: int) -> bytes:
        """Join all data that may be written to this descriptor before the other one."""
        parts = []
        while self.waiting and self.waiting[0][0] == fd:
            parts.append(self.waiting.popleft()[1])
        return b"".join(parts)

    async def _write(self, fd: int, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                await _writable(fd)
                rest = rest[os.write(fd, rest[:CHUNK_BYTES]) :]
        except OSError as error:
            if fd == STDOUT:
                raise OutputLost(error) from None
        except asyncio.CancelledError:
            self.waiting.appendleft((fd, bytes(rest)))
            raise


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


def terminal_width(fd: int = STDERR) -> int | None:
    """Return the terminal's columns; None where the descriptor is no terminal."""
    try:
        return max(MIN_WIDTH, os.get_terminal_size(fd).columns or USUAL_WIDTH)
    except OSError:
        return None


def is_dumb() -> bool:
    """Test whether the terminal can only write one line after the other."""
    return os.environ.get("TERM", "dumb") in ("", "dumb", "unknown")


def watch_reader(fd: int, on_closed: Callable[[], None]) -> None:
    """Call `on_closed` once when the reader of a pipe has closed it, also while nothing is written.

    Only Linux reports this for a pipe's writing end; elsewhere the next write finds out.
    """
    try:
        if sys.platform != "linux" or not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return
    except OSError:  # it was closed from the start
        return
    loop = asyncio.get_running_loop()

    def closed() -> None:
        loop.remove_reader(fd)
        on_closed()

    loop.add_reader(fd, closed)


async def read_line(fd: int) -> str | None:
    """Read the next line without blocking the event loop; None at the end of input."""
    loop = asyncio.get_running_loop()
    typed = bytearray()
    line: asyncio.Future[str | None] = loop.create_future()

    def readable() -> None:
        try:
            data = os.read(fd, 4096)
        except OSError:  # the terminal is gone
            data = b""
        typed.extend(data)
        if not line.done() and (not data or b"\n" in data):
            line.set_result(bytes(typed).partition(b"\n")[0].decode("utf-8", "replace") if typed else None)

    loop.add_reader(fd, readable)
    try:
        return await line
    finally:
        loop.remove_reader(fd)


def forget_typed(fd: int) -> None:
    """Discard input that was typed before the question was seen: it must not answer it."""
    import termios

    try:
        termios.tcflush(fd, termios.TCIFLUSH)
    except termios.error:  # no terminal after all
        pass


def chosen_index(line: str, count: int) -> int | None:
    """Return the index that a typed number names; None for any other line."""
    text = line.strip().rstrip(".)")
    return int(text) - 1 if text.isascii() and text.isdecimal() and 1 <= int(text) <= count else None
