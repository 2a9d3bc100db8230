"""`LiveOutbox`: output while an input line may stand beneath it; `Tail`: its finished lines and the open one.

Promised: order is kept; while the input line is shown, whole lines go above it, at most 30 times a second, so that
nothing flickers. Writers that are faster wait, and with them the agent.
"""

from __future__ import annotations

import asyncio
import re
from typing import Protocol

from dragoman.cli.output import STDOUT, Outbox
from dragoman.cli.text import columns

# Seconds between two pictures: words still seem to flow, and the terminal has time for everything else.
FRAME_S = 1 / 30


class Surface(Protocol):
    """The input line, as something that is drawn below the output."""

    def print_above(self, lines: str) -> None:
        """Print whole lines above the input line, which is drawn again below them."""
        ...

    def refresh(self) -> None:
        """Draw again: something else has changed, such as the open line."""
        ...


class LiveOutbox(Outbox):
    """Writes to the terminal itself while it has no surface: at first, and while a question has the terminal."""

    def __init__(self, width: int) -> None:
        super().__init__(shared=True)
        self.tail = Tail(width)
        self._surface: Surface | None = None
        self._next_frame = 0.0

    def put(self, fd: int, data: bytes | str) -> None:
        if self._surface is None:
            super().put(STDOUT, data)
        else:
            self.tail.feed(data if isinstance(data, str) else data.decode("utf-8", "replace"))

    async def flush(self) -> None:
        loop = asyncio.get_running_loop()
        if self._surface is not None and (wait := self._next_frame - loop.time()) > 0:
            await asyncio.sleep(wait)
        if self._surface is None:
            await super().flush()
            return
        self._next_frame = loop.time() + FRAME_S
        if lines := self.tail.take():
            self._surface.print_above(lines)
        else:
            self._surface.refresh()

    async def flush_notes(self) -> None:
        await self.flush()

    def attach(self, surface: Surface) -> None:
        """Draw on this surface from now on. Everything before must be flushed, and its last line ended."""
        self._surface = surface

    def detach(self) -> None:
        """Write to the terminal itself from now on, beginning with the open line."""
        self._surface = None
        super().put(STDOUT, self.tail.take_all())


_TOKENS = re.compile(
    r"(?P<look>\x1b\[[0-9;]*m)|\x1b\[(?P<back>\d+)D\x1b\[K|(?P<wipe>\r\x1b\[2K)|(?P<end>\n)|(?P<text>[^\x1b\r\n]+)|[\s\S]"
)
_NO_LOOK = "\x1b[0m"
_TAB = 8


class Tail:
    def __init__(self, width: int) -> None:
        self.width = width
        self._done: list[str] = []
        self._open: list[tuple[str, str]] = []  # look and text
        self._columns = 0
        self._look = ""

    def feed(self, written: str) -> None:
        for token in _TOKENS.finditer(written):
            match token.lastgroup:
                case "text":
                    self._text(token["text"])
                case "end":
                    self._end()
                case "look":
                    self._look = "" if token["look"] in (_NO_LOOK, "\x1b[m") else token["look"]
                case "back":
                    self._take_back(int(token["back"]))
                case "wipe":
                    self._open, self._columns = [], 0
                case _:
                    pass  # an escape character alone: nothing that is ours

    def take(self) -> str:
        """Take the lines that were finished since the last call, each with its end."""
        done, self._done = self._done, []
        return "".join(done)

    def take_all(self) -> str:
        """Take these and the open line."""
        everything = self.take() + self.open
        self._open, self._columns = [], 0
        return everything

    @property
    def open(self) -> str:
        return "".join(f"{look}{text}{_NO_LOOK}" if look else text for look, text in self._open)

    def _text(self, text: str) -> None:
        """Break at the edge, as a terminal does: the open line never takes more than one row."""
        while self._columns + (width := _width(text, self._columns)) > self.width:
            first = _fitting(text, self._columns, self.width)
            if not first and not self._open:
                break  # not even one character fits
            self._add(first, 0)
            self._end()
            text = text[len(first) :]
        else:
            self._add(text, width)
            return
        self._add(text, width)

    def _add(self, text: str, width: int) -> None:
        if text:
            self._open.append((self._look, text))
            self._columns += width

    def _end(self) -> None:
        self._done.append(f"{self.open}\n")
        self._open, self._columns = [], 0

    def _take_back(self, count: int) -> None:
        self._columns = max(0, self._columns - count)
        while count > 0 and self._open:
            look, text = self._open.pop()
            length = len(text)
            while length and count > 0:
                length -= 1
                count -= columns(text[length])
            if length:
                self._open.append((look, text[:length]))


def _width(text: str, column: int) -> int:
    """Count the columns of a text that begins at this column."""
    head, *rest = text.split("\t")
    end = column + columns(head)
    for part in rest:
        end += _TAB - end % _TAB + columns(part)
    return end - column


def _fitting(text: str, column: int, width: int) -> str:
    """The beginning of the text that fits into the row."""
    for position, character in enumerate(text):
        column += _width(character, column)
        if column > width:
            return text[:position]
    return text
