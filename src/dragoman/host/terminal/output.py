"""`Output`: the output of a command, as its last bytes for followers and as text for the agent.

Memory is bounded, however much the command writes and however many follow: all followers read from the same buffer,
each from its own offset. Offsets count from the command's first byte; a follower that comes too late for some bytes
sees that by the offset of the next chunk.

The text is limited to the agent's `outputByteLimit`; its beginning is dropped, at a character boundary. The output of a
terminal becomes plain text (`text.py`), that of pipes stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from dragoman.host.terminal.text import TerminalText, TextTail

# Bytes buffered for the followers of one terminal: one that was away for a moment, or is slower than a flood, misses
# nothing that a person could have read.
LIVE_TAIL_BYTES: Final = 1024 * 1024

# Bytes of a follower's chunk: as many as are read at once.
MAX_CHUNK_BYTES: Final = 64 * 1024

# Bytes buffered for each byte of text: escape sequences and carriage returns do not become text.
BYTES_PER_TEXT: Final = 2

# Bytes rendered without a pause: 0.1 ms for plain text, about 4 ms at worst, where everything moves the cursor.
RENDER_SLICE_BYTES: Final = 8 * 1024


class Chunk(msgspec.Struct, frozen=True):
    """Bytes of the output from `offset` on. If that is beyond the requested offset, the bytes between are gone."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset of the next chunk."""
        return self.offset + len(self.data)


class Output:
    """The output of one command. `limit` is in bytes of text; `rows` are those of the terminal, None for pipes."""

    def __init__(self, limit: int, *, rows: int | None = None) -> None:
        self._limit = limit
        self._rows = rows
        self._buffer_bytes = max(LIVE_TAIL_BYTES, limit * BYTES_PER_TEXT if rows else limit)
        self._buffer = bytearray()
        self._start = 0
        self._ended = False
        self._changed: asyncio.Future[None] | None = None
        self._terminal_text: TerminalText | None = None
        self._rendered = 0
        self._rendering = asyncio.Lock()

    @property
    def total(self) -> int:
        """The number of bytes written so far."""
        return self._start + len(self._buffer)

    @property
    def ended(self) -> bool:
        return self._ended

    def feed(self, data: bytes) -> None:
        self._buffer += data
        self._trim()
        self._notify()

    def end(self) -> None:
        """Mark the output as complete."""
        self._ended = True
        self._notify()

    def shrink(self, keep: int) -> None:
        """Keep at most this many bytes from now on."""
        self._buffer_bytes = min(self._buffer_bytes, keep)
        self._limit = min(self._limit, keep)
        self._terminal_text = None
        self._trim()

    async def changed(self) -> None:
        """Return when there is more output, or its end."""
        if self._ended:
            return
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changed)

    async def follow(self, after: int = 0) -> AsyncIterator[Chunk]:
        """Yield the output from the offset `after` on, as far as it is buffered, until its end.

        A follower costs nothing while it does not ask for more; one that is too slow skips to the oldest buffered byte.
        """
        at = max(0, min(after, self.total))
        while True:
            at = max(at, self._start)
            if at < self.total:
                begin = at - self._start
                chunk = Chunk(at, bytes(self._buffer[begin : begin + MAX_CHUNK_BYTES]))
                yield chunk
                at = chunk.end
            elif self._ended:
                return
            else:
                await self.changed()

    async def text(self) -> tuple[str, bool]:
        """Return the text so far, and whether its beginning was dropped. Yields to the loop while rendering."""
        if self._rows is None:
            return self._written(self._limit)
        async with self._rendering:  # two callers at once must not both render the new bytes
            if self._terminal_text is None or self._rendered < self._start:
                self._terminal_text = TerminalText(self._limit, self._rows, truncated=self._start > 0)
                self._rendered = self._start
            terminal_text = self._terminal_text
            # Copied now: during the pauses more bytes may come than are buffered.
            new, self._rendered = bytes(self._buffer[self._rendered - self._start :]), self.total
            try:
                for begin in range(0, len(new), RENDER_SLICE_BYTES):
                    if begin:
                        await asyncio.sleep(0)
                    terminal_text.feed(new[begin : begin + RENDER_SLICE_BYTES])
            except asyncio.CancelledError:
                self._terminal_text = None  # the rest is missing in it
                raise
            return terminal_text.text(ended=self._ended)

    def last(self, max_bytes: int) -> tuple[str, bool]:
        """Return the last `max_bytes` of the text without yielding, and whether there was more."""
        if self._rows is None:
            return self._written(max_bytes)
        tail = bytes(self._buffer[-max_bytes * BYTES_PER_TEXT :]) if max_bytes else b""
        terminal_text = TerminalText(max_bytes, self._rows, truncated=len(tail) < self.total)
        terminal_text.feed(tail)
        return terminal_text.text(ended=self._ended)

    def _written(self, max_bytes: int) -> tuple[str, bool]:
        max_bytes = min(max_bytes, self._buffer_bytes)
        tail = TextTail(max_bytes)
        tail.feed(bytes(self._buffer[-max_bytes:]) if max_bytes else b"", truncated=self.total > max_bytes)
        return tail.text(ended=self._ended)

    def _trim(self) -> None:
        if (excess := len(self._buffer) - self._buffer_bytes) > 0:
            del self._buffer[:excess]
            self._start += excess

    def _notify(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None and not changed.done():
            changed.set_result(None)
