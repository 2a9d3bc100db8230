r"""The output of a command: `Output` keeps its last bytes for followers, `TerminalText` makes text for the agent.

Memory is bounded, however much the command writes and however many follow: all followers read from the same buffer,
each from its own offset. Offsets count from the command's first byte; a follower that comes too late for some bytes
sees that by the offset of the next chunk. The text is limited to the agent's `outputByteLimit`; its beginning is
dropped, at a character boundary. The output of pipes stays as it is; that of a terminal becomes plain text.

Models read text. Colours and titles are noise to them, and a progress bar that was drawn a thousand times over itself
is a thousand lines of noise. So escape sequences are removed, and what they do to the last lines is carried out: `\r`,
`\b`, cursor movements, erasing, and the alternate screen of pagers and editors (which leaves nothing behind).

This is not a whole terminal: lines keep their length and are not wrapped; every character counts as one column wide;
text that the screen is cleared of stays, because the command printed it. Text without control characters is unchanged.
Any bytes, in any pieces, give the same result; memory is bounded by the limit and the screen.

A terminal emulator would do more than that, at a price: on a coloured build log, a progress bar and a plain log (1.2 to
1.4 MB each) pyte took 370, 130 and 700 times as long (16 to 27 s against 0.03 to 0.12 s), and it wraps lines.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import AsyncIterator
from typing import Final

import msgspec

# Characters of one line that can still be overwritten. Nothing overwrites more, and an endless line (a file without
# line ends) would be copied for each of its words.
MAX_LINE_CHARS: Final = 4096

# Characters buffered until a sequence ends. Titles and links have a few hundred; anything longer (a picture, or a
# binary file that only looks like one) is shown as it is.
MAX_SEQUENCE_CHARS: Final = 64 * 1024

# Bytes in which truncated output looks for a line end to begin after: not inside a line or a sequence.
_MAX_FIRST_LINE_BYTES: Final = 4096

# Removed in one pass: characters without any effect, even inside a sequence, and colours.
_IGNORED: Final = bytes([*range(0x07), *range(0x0E, 0x18), 0x19, *range(0x1C, 0x20), 0x7F])
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")

_CONTROL: Final = re.compile(r"[\x07\x08\x0b-\x0d\x18\x1a\x1b\x80-\x9f]")

_STRING: Final = re.compile(r"\x1b[\]PX^_]")

# Strings (titles, links, pictures) end with BEL or ESC \, or are broken off by another sequence or a line end.
_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[([0-?]*)[ -/]*([@-~])"
    r"|[\]PX^_][^\x07\x18\x1a\x1b\n]*(?:\x07|\x1b\\|(?=[\x18\x1a\n]|\x1b[^\\]))"
    r"|[ -/]*([0-OQ-WYZ\\`-~]))"
)
_UNFINISHED: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x18\x1a\x1b\n]*\x1b?|[ -/]*)\Z")

_ALTERNATE_SCREEN: Final = frozenset({"?47", "?1047", "?1049"})

_CONTINUATION: Final = range(0x80, 0xC0)


class TextTail:
    """The last bytes of a stream, as text that begins at a character."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._dropped = False

    def feed(self, data: bytes, *, truncated: bool = False) -> None:
        """Add bytes; `truncated` means that bytes before them were dropped elsewhere."""
        self._buffer += data
        self._dropped = self._dropped or truncated
        if (excess := len(self._buffer) - self._limit) > 0:
            del self._buffer[:excess]
            self._dropped = True

    def text(self, *, ended: bool) -> tuple[str, bool]:
        """Return the text, and whether its beginning was dropped. Half a character is left out until the end."""
        data, dropped = bytes(self._buffer), self._dropped
        if dropped:
            data = _skip_partial_character(data)
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, ended)
        # Invalid UTF-8 grows when it is replaced; the limit is on what the agent gets.
        if len(encoded := text.encode()) > self._limit:
            text, dropped = _skip_partial_character(encoded[len(encoded) - self._limit :]).decode(), True
        return text, dropped


def _skip_partial_character(data: bytes) -> bytes:
    start = 0
    while start < min(3, len(data)) and data[start] in _CONTINUATION:
        start += 1
    return data[start:]


class TerminalText:
    """The plain text of a terminal's output; `truncated` means that output before it is gone."""

    def __init__(self, limit: int, rows: int, *, truncated: bool = False) -> None:
        self._limit = limit
        self._rows = max(1, rows)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._scrolled = TextTail(limit)
        self._scrolled.feed(b"", truncated=truncated)
        self._starts_truncated = truncated
        self._unfinished = ""
        self._lines = [""]
        self._row = 0
        self._column = 0
        self._saved = (0, 0)
        self._main_screen: tuple[list[str], int, int] | None = None  # the main screen, while the alternate one is shown

    def text(self, *, ended: bool) -> tuple[str, bool]:
        """Return the text, and whether its beginning was dropped. Half a character is left out until the end."""
        screen = "\n".join([*(self._main_screen[0] if self._main_screen else ()), *self._lines])
        if ended and self._decoder.getstate()[0]:
            screen += "\ufffd"
        scrolled, dropped = self._scrolled.text(ended=True)
        both = TextTail(self._limit)
        both.feed((scrolled + screen).encode(), truncated=dropped)
        return both.text(ended=True)

    def feed(self, data: bytes) -> None:
        if self._starts_truncated and data:
            self._starts_truncated = False
            data = _skip_first_line(data)
        # The line end of a terminal. Handling the `\r` by itself would give the same, more slowly.
        text = self._unfinished + self._decoder.decode(data.translate(None, _IGNORED)).replace("\r\n", "\n")
        self._unfinished = ""
        if not _STRING.search(text):  # a colour inside such a string ends it
            text = _COLOUR.sub("", text)
        at = 0
        while control := _CONTROL.search(text, at):
            self._write(text[at : control.start()])
            at = control.end()
            match control.group():
                case "\x1b":
                    if sequence := _SEQUENCE.match(text, control.start()):
                        self._apply(*sequence.groups(default=""))
                        at = sequence.end()
                    elif len(text) - at < MAX_SEQUENCE_CHARS and _UNFINISHED.match(text, control.start()):
                        self._unfinished = text[control.start() :]
                        return
                case "\r":
                    self._column = 0
                case "\b":
                    self._column = max(0, self._column - 1)
                case "\v" | "\f":
                    self._write("\n")
                case _:
                    pass
        self._write(text[at:])

    def _write(self, text: str) -> None:
        """Write text whose only control characters are line ends and tabs."""
        while text:
            line, end, text = text.partition("\n")
            self._put(line)
            if not end:
                return
            self._column = 0
            if self._row < len(self._lines) - 1:
                self._row += 1
                continue
            # Lines that do not fit on the screen scroll out at once.
            self._lines += text.rsplit("\n", self._rows)
            self._row = len(self._lines) - 1
            self._column = len(self._lines[-1])
            self._scroll(len(self._lines) - self._rows)
            self._shorten()
            return

    def _put(self, text: str) -> None:
        if not text:
            return
        line = self._lines[self._row].ljust(self._column)
        end = self._column + len(text)
        self._lines[self._row] = line[: self._column] + text + line[end:]
        self._column = end
        self._shorten()

    def _shorten(self) -> None:
        """Scroll out all but the end of the last line where it is too long; truncate such a line above it."""
        excess = self._column - MAX_LINE_CHARS
        if excess > 0 and self._row < len(self._lines) - 1:
            self._lines[self._row] = self._lines[self._row][:MAX_LINE_CHARS]
            self._column = MAX_LINE_CHARS
        elif excess > 0:
            self._scroll(self._row)
            self._scroll_out(self._lines[0][:excess])
            self._lines[0] = self._lines[0][excess:]
            self._column -= excess

    def _scroll(self, count: int) -> None:
        if count > 0:
            self._scroll_out("\n".join(self._lines[:count]) + "\n")
            del self._lines[:count]
            self._row = max(0, self._row - count)

    def _scroll_out(self, text: str) -> None:
        if self._main_screen is None:
            self._scrolled.feed(text.encode())

    def _apply(self, parameters: str, action: str, short: str) -> None:
        if short:
            action = {"7": "s", "8": "u"}.get(short, "")
        if parameters[:1] in ("<", "=", ">", "?"):
            if action in ("h", "l") and not _ALTERNATE_SCREEN.isdisjoint(
                f"?{number}" for number in parameters[1:].split(";")
            ):
                self._switch_screen(alternate=action == "h")
            return
        first, _, second = parameters.partition(";")
        match action:
            case "A" | "F":
                self._move_to(self._row - _number(first), 0 if action == "F" else self._column)
            case "B" | "E":
                self._move_to(
                    min(self._row + _number(first), len(self._lines) - 1), 0 if action == "E" else self._column
                )
            case "C":
                self._move_to(self._row, self._column + _number(first))
            case "D":
                self._move_to(self._row, self._column - _number(first))
            case "G" | "`":
                self._move_to(self._row, _number(first) - 1)
            case "d":
                self._move_to(_number(first) - 1, self._column)
            case "H" | "f":
                self._move_to(_number(first) - 1, _number(second) - 1)
            case "K":
                self._erase_line(first)
            case "J":
                self._erase_screen(first)
            case "s":
                self._saved = (self._row, self._column)
            case "u":
                self._move_to(*self._saved)
            case _:
                pass  # colours, modes, reports: no text

    def _move_to(self, row: int, column: int) -> None:
        self._row = max(0, min(row, self._rows - 1))
        self._column = max(0, min(column, MAX_LINE_CHARS))
        self._lines += [""] * (self._row + 1 - len(self._lines))

    def _erase_line(self, mode: str) -> None:
        line = self._lines[self._row]
        match mode:
            case "" | "0":
                self._lines[self._row] = line[: self._column]
            case "1":
                self._lines[self._row] = " " * min(self._column + 1, len(line)) + line[self._column + 1 :]
            case "2":
                self._lines[self._row] = ""
            case _:
                pass

    def _erase_screen(self, mode: str) -> None:
        match mode:
            case "" | "0":
                self._erase_line("0")
                del self._lines[self._row + 1 :]
            case "2" | "3":
                if any(self._lines):
                    self._scroll_out("\n".join(self._lines) + "\n")
                self._lines, self._row, self._column = [""], 0, 0
            case _:
                pass

    def _switch_screen(self, *, alternate: bool) -> None:
        if alternate and self._main_screen is None:
            self._main_screen = (self._lines, self._row, self._column)
            self._lines, self._row, self._column = [""], 0, 0
        elif not alternate and self._main_screen is not None:
            self._lines, self._row, self._column = self._main_screen
            self._main_screen = None


def _number(text: str) -> int:
    """Read a parameter: 1 where it is missing, and never more than a screen can have."""
    return min(int(text), MAX_LINE_CHARS) or 1 if text.isdecimal() and len(text) < 10 else 1


def _skip_first_line(data: bytes) -> bytes:
    if (end := data.find(b"\n", 0, _MAX_FIRST_LINE_BYTES)) >= 0:
        return data[end + 1 :]
    return data[next((at for at in range(min(4, len(data))) if not 0x80 <= data[at] < 0xC0), 0) :]


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
