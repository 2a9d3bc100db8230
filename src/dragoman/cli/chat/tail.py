"""`Tail`: what has been written, as lines that are done and the one that is still open.

Above an input line only whole lines can be printed: the open one is drawn together with the input, and may change until
it is done. It is written as to a terminal, by `Screen`: looks, a part taken back, the whole line wiped away. These few
sequences are all that come here; those of agents were taken out before. Pure.
"""

from __future__ import annotations

import re

from dragoman.cli.text import columns

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
        """The lines that are done since the last time, each with its end."""
        done, self._done = self._done, []
        return "".join(done)

    def take_all(self) -> str:
        """The same, and the open line, which is forgotten here."""
        everything = self.take() + self.open
        self._open, self._columns = [], 0
        return everything

    @property
    def open(self) -> str:
        return "".join(f"{look}{text}{_NO_LOOK}" if look else text for look, text in self._open)

    def _text(self, text: str) -> None:
        """Past the edge it goes on in the next row, as a terminal does it: the open line never takes more than one."""
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
            kept = len(text)
            while kept and count > 0:
                kept -= 1
                count -= columns(text[kept])
            if kept:
                self._open.append((look, text[:kept]))


def _width(text: str, column: int) -> int:
    """How many columns the text takes that begins at this one."""
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
