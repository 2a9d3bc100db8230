r"""`TerminalText`: what a command drew on a terminal, as the text that a person would have read there.

Models read text. Colours and titles are noise to them, and a progress bar that was drawn a thousand times over itself
is a thousand lines of noise. So sequences are taken out, and what they move or erase on the last lines is carried out:
`\r`, `\b`, the cursor's ways, erasing, the other screen that pagers and editors draw on (which leaves nothing behind).

Not a whole terminal: lines are as long as they were written, not wrapped; every character counts as one column wide;
what a screen is cleared of stays in the text, because it was said. Text without control characters comes through as it
is. Any bytes are taken, in any pieces, to the same result; memory is bounded by the limit and the screen.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

# Characters of one line that can still be drawn over. Nothing draws over more, and a line without end (a file without
# line ends) would be copied for each of its words.
LONGEST_LINE: Final = 4096

# Characters that wait for the end of a sequence. Titles and links have some hundred; what goes on for longer (a
# picture, or a binary file that only looks like one) is shown as it is.
LONGEST_SEQUENCE: Final = 64 * 1024

# Where output that was cut begins, if there is a line end so soon: not within a line, nor within a sequence.
_FIRST_LINE: Final = 4096

# Taken out at once, where they are many: characters that move nothing, not even within a sequence, and colours.
_JUNK: Final = bytes([*range(0x07), *range(0x0E, 0x18), 0x19, *range(0x1C, 0x20), 0x7F])
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

_OTHER_SCREEN: Final = frozenset({"?47", "?1047", "?1049"})

_CONTINUATION: Final = range(0x80, 0xC0)


class TextTail:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._dropped = False

    def feed(self, data: bytes, *, cut: bool = False) -> None:
        """`cut` tells that what came before it was dropped elsewhere."""
        self._kept += data
        self._dropped = self._dropped or cut
        if (excess := len(self._kept) - self._limit) > 0:
            del self._kept[:excess]
            self._dropped = True

    def text(self, *, ended: bool) -> tuple[str, bool]:
        """The text, and whether its beginning was dropped. Until the end, half a character waits for its rest."""
        data, dropped = bytes(self._kept), self._dropped
        if dropped:
            data = _from_character(data)
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, ended)
        # What is no UTF-8 grows when it is replaced; the limit is on what the agent gets.
        if len(encoded := text.encode()) > self._limit:
            text, dropped = _from_character(encoded[len(encoded) - self._limit :]).decode(), True
        return text, dropped


def _from_character(data: bytes) -> bytes:
    start = 0
    while start < min(3, len(data)) and data[start] in _CONTINUATION:
        start += 1
    return data[start:]


class TerminalText:
    """`cut` tells that output came before, which is gone."""

    def __init__(self, limit: int, rows: int, *, cut: bool = False) -> None:
        self._limit = limit
        self._rows = max(1, rows)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._scrolled = TextTail(limit)
        self._scrolled.feed(b"", cut=cut)
        self._cut = cut
        self._held = ""
        self._lines = [""]
        self._row = 0
        self._column = 0
        self._saved = (0, 0)
        self._beneath: tuple[list[str], int, int] | None = None  # the first screen, while the other is shown

    def text(self, *, ended: bool) -> tuple[str, bool]:
        """The text, and whether its beginning was dropped. Until the end, half a character waits for its rest."""
        screen = "\n".join([*(self._beneath[0] if self._beneath else ()), *self._lines])
        if ended and self._decoder.getstate()[0]:
            screen += "\ufffd"
        scrolled, dropped = self._scrolled.text(ended=True)
        both = TextTail(self._limit)
        both.feed((scrolled + screen).encode(), cut=dropped)
        return both.text(ended=True)

    def feed(self, data: bytes) -> None:
        if self._cut and data:
            self._cut = False
            data = _from_line(data)
        # A line end of a terminal; alone, the `\r` would do the same, and take longer.
        text = self._held + self._decoder.decode(data.translate(None, _JUNK)).replace("\r\n", "\n")
        self._held = ""
        if not _STRING.search(text):  # which one of them may break off
            text = _COLOUR.sub("", text)
        at = 0
        while found := _CONTROL.search(text, at):
            self._write(text[at : found.start()])
            at = found.end()
            match found.group():
                case "\x1b":
                    if sequence := _SEQUENCE.match(text, found.start()):
                        self._obey(*sequence.groups(default=""))
                        at = sequence.end()
                    elif len(text) - at < LONGEST_SEQUENCE and _UNFINISHED.match(text, found.start()):
                        self._held = text[found.start() :]
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
        """Text with no control characters but line ends and tabs."""
        while text:
            line, end, text = text.partition("\n")
            self._put(line)
            if not end:
                return
            self._column = 0
            if self._row < len(self._lines) - 1:
                self._row += 1
                continue
            # Lines that no screen can hold go by in one piece.
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
        """The last line, where it is too long to be drawn over, is let go but for its end; one above it is cut."""
        excess = self._column - LONGEST_LINE
        if excess > 0 and self._row < len(self._lines) - 1:
            self._lines[self._row] = self._lines[self._row][:LONGEST_LINE]
            self._column = LONGEST_LINE
        elif excess > 0:
            self._scroll(self._row)
            self._let_go(self._lines[0][:excess])
            self._lines[0] = self._lines[0][excess:]
            self._column -= excess

    def _scroll(self, count: int) -> None:
        if count > 0:
            self._let_go("\n".join(self._lines[:count]) + "\n")
            del self._lines[:count]
            self._row = max(0, self._row - count)

    def _let_go(self, text: str) -> None:
        if self._beneath is None:
            self._scrolled.feed(text.encode())

    def _obey(self, given: str, act: str, short: str) -> None:
        if short:
            act = {"7": "s", "8": "u"}.get(short, "")
        if given[:1] in ("<", "=", ">", "?"):
            if act in ("h", "l") and not _OTHER_SCREEN.isdisjoint(f"?{number}" for number in given[1:].split(";")):
                self._change_screen(other=act == "h")
            return
        first, _, second = given.partition(";")
        match act:
            case "A" | "F":
                self._go(self._row - _number(first), 0 if act == "F" else self._column)
            case "B" | "E":
                self._go(min(self._row + _number(first), len(self._lines) - 1), 0 if act == "E" else self._column)
            case "C":
                self._go(self._row, self._column + _number(first))
            case "D":
                self._go(self._row, self._column - _number(first))
            case "G" | "`":
                self._go(self._row, _number(first) - 1)
            case "d":
                self._go(_number(first) - 1, self._column)
            case "H" | "f":
                self._go(_number(first) - 1, _number(second) - 1)
            case "K":
                self._erase_in_line(first)
            case "J":
                self._erase(first)
            case "s":
                self._saved = (self._row, self._column)
            case "u":
                self._go(*self._saved)
            case _:
                pass  # colours, modes, reports: nothing of it is text

    def _go(self, row: int, column: int) -> None:
        self._row = max(0, min(row, self._rows - 1))
        self._column = max(0, min(column, LONGEST_LINE))
        self._lines += [""] * (self._row + 1 - len(self._lines))

    def _erase_in_line(self, what: str) -> None:
        line = self._lines[self._row]
        match what:
            case "" | "0":
                self._lines[self._row] = line[: self._column]
            case "1":
                self._lines[self._row] = " " * min(self._column + 1, len(line)) + line[self._column + 1 :]
            case "2":
                self._lines[self._row] = ""
            case _:
                pass

    def _erase(self, what: str) -> None:
        match what:
            case "" | "0":
                self._erase_in_line("0")
                del self._lines[self._row + 1 :]
            case "2" | "3":
                if any(self._lines):
                    self._let_go("\n".join(self._lines) + "\n")
                self._lines, self._row, self._column = [""], 0, 0
            case _:
                pass

    def _change_screen(self, *, other: bool) -> None:
        if other and self._beneath is None:
            self._beneath = (self._lines, self._row, self._column)
            self._lines, self._row, self._column = [""], 0, 0
        elif not other and self._beneath is not None:
            self._lines, self._row, self._column = self._beneath
            self._beneath = None


def _number(text: str) -> int:
    """A parameter: 1 where it is left out, and never more than any screen has."""
    return min(int(text), LONGEST_LINE) or 1 if text.isdecimal() and len(text) < 10 else 1


def _from_line(data: bytes) -> bytes:
    if (end := data.find(b"\n", 0, _FIRST_LINE)) >= 0:
        return data[end + 1 :]
    return data[next((at for at in range(min(4, len(data))) if not 0x80 <= data[at] < 0xC0), 0) :]
