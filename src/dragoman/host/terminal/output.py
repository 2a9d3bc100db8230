"""What a command has written: `Output`, its last bytes for those who follow, and its text for the agent.

Memory is bounded however much comes and however many follow: all read from the same kept bytes, each from its own
offset. Bytes are counted from the command's first, and are as the command wrote them; who comes too late for some is
told by the offset of the next chunk.

The text is cut to the limit that the agent gave, from its beginning, at a character. Of a terminal it is what a model
can read (`plain.py`), of pipes what was written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from dragoman.host.terminal.text import TerminalText, TextTail

# Kept for followers, of each terminal: one that was away for a moment, or draws slower than a flood, misses nothing
# that a person could have read.
LIVE_TAIL: Final = 1024 * 1024

# Of a chunk for a follower: as much as is read at once.
CHUNK: Final = 64 * 1024

# Sequences and carriage returns are not in the text, so that more bytes are kept than the text may have.
BYTES_PER_TEXT: Final = 2

# Rendered without a pause: 0.1 ms of plain text; some 4 ms at worst, where all that it does is move the cursor.
SLICE: Final = 8 * 1024


class Chunk(msgspec.Struct, frozen=True):
    """Bytes of the output, from `offset` on. Where that is more than was asked for, what lies between is gone."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """From where to follow on."""
        return self.offset + len(self.data)


class Output:
    """`rows` are the terminal's; None for pipes."""

    def __init__(self, limit: int, *, rows: int | None = None) -> None:
        self._limit = limit
        self._rows = rows
        self._keep = max(LIVE_TAIL, limit * BYTES_PER_TEXT if rows else limit)
        self._kept = bytearray()
        self._start = 0
        self._ended = False
        self._news: asyncio.Future[None] | None = None
        self._plain: TerminalText | None = None
        self._rendered = 0
        self._rendering = asyncio.Lock()

    @property
    def total(self) -> int:
        """Bytes written so far."""
        return self._start + len(self._kept)

    @property
    def ended(self) -> bool:
        return self._ended

    def feed(self, data: bytes) -> None:
        self._kept += data
        self._cut()
        self._tell()

    def end(self) -> None:
        """No more will come."""
        self._ended = True
        self._tell()

    def shrink(self, keep: int) -> None:
        """From now on keep no more than this."""
        self._keep = min(self._keep, keep)
        self._limit = min(self._limit, keep)
        self._plain = None
        self._cut()

    async def changed(self) -> None:
        """Return when more has come, or the end."""
        if self._ended:
            return
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._news)

    async def follow(self, after: int = 0) -> AsyncIterator[Chunk]:
        """What was written from the offset `after` on, as far as it is kept, then what comes, until the end.

        A follower costs nothing while it does not ask for more; one that is too slow is sent on to what is kept.
        """
        at = max(0, min(after, self.total))
        while True:
            at = max(at, self._start)
            if at < self.total:
                begin = at - self._start
                chunk = Chunk(at, bytes(self._kept[begin : begin + CHUNK]))
                yield chunk
                at = chunk.end
            elif self._ended:
                return
            else:
                await self.changed()

    async def text(self) -> tuple[str, bool]:
        """The text so far, and whether its beginning was dropped. Pauses for others while there is much to render."""
        if self._rows is None:
            return self._written(self._limit)
        async with self._rendering:  # two that ask at once must not both feed what is new
            if self._plain is None or self._rendered < self._start:
                self._plain = TerminalText(self._limit, self._rows, cut=self._start > 0)
                self._rendered = self._start
            plain = self._plain
            # Taken now: while we pause, more may come than is kept.
            new, self._rendered = bytes(self._kept[self._rendered - self._start :]), self.total
            try:
                for begin in range(0, len(new), SLICE):
                    if begin:
                        await asyncio.sleep(0)
                    plain.feed(new[begin : begin + SLICE])
            except asyncio.CancelledError:
                self._plain = None  # it lacks the rest
                raise
            return plain.text(ended=self._ended)

    def last(self, most: int) -> tuple[str, bool]:
        """The end of the text, of at most so many bytes, at once; and whether there was more."""
        if self._rows is None:
            return self._written(most)
        tail = bytes(self._kept[-most * BYTES_PER_TEXT :]) if most else b""
        plain = TerminalText(most, self._rows, cut=len(tail) < self.total)
        plain.feed(tail)
        return plain.text(ended=self._ended)

    def _written(self, most: int) -> tuple[str, bool]:
        most = min(most, self._keep)
        tail = TextTail(most)
        tail.feed(bytes(self._kept[-most:]) if most else b"", cut=self.total > most)
        return tail.text(ended=self._ended)

    def _cut(self) -> None:
        if (excess := len(self._kept) - self._keep) > 0:
            del self._kept[:excess]
            self._start += excess

    def _tell(self) -> None:
        news, self._news = self._news, None
        if news is not None and not news.done():
            news.set_result(None)
