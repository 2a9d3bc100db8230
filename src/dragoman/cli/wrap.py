"""Words kept whole at the right edge of a terminal, while they stream in.

Nothing is held back: a word that turns out too long for its line, because its end came later, is taken back and begun
anew on the next. What stands in a fence (code) or in a table is left as it is.
"""

from __future__ import annotations

import re

from dragoman.cli.text import columns

_TOKENS = re.compile(r"\n|[^\S\n]+|\S+")
_FENCES = ("```", "~~~")


class Wrapper:
    """For one terminal, `width` columns wide. `feed` returns what to write, which may move the cursor back."""

    def __init__(self, width: int) -> None:
        self.resize(width)
        self._fenced = False
        self.restart()

    def resize(self, width: int) -> None:
        # The last column stays free: from there, terminals disagree on what "back" means.
        self._room = width - 1

    def restart(self) -> None:
        """The cursor is at the beginning of a line."""
        self._column = 0
        self._word = ""
        self._word_columns = 0  # counted once: scripts without spaces make words of thousands of characters
        self._head = ""

    def begin_message(self) -> None:
        """What comes belongs to nothing that came before: a fence that was left open is closed."""
        self._fenced = False
        self.restart()

    def feed(self, text: str) -> str:
        return "".join(self._placed(part) for part in _TOKENS.findall(text))

    def _placed(self, part: str) -> str:
        if part == "\n":
            if self._head.startswith(_FENCES):
                self._fenced = not self._fenced
            self.restart()
            return part
        if len(self._head) < 3:
            self._head = (self._head + part).lstrip()[:3]
        width = columns(part)
        if part.isspace():
            self._word, self._word_columns = "", 0
            if self._column + width > self._room and not self._kept:
                self._column = self._room  # at the edge, where it would be the beginning of the next line
                return ""
            self._column += width
            return part
        before = self._word_columns
        self._word += part
        self._word_columns += width
        if self._kept or self._column + width <= self._room or self._column == before:
            self._column += width
            return part
        self._column = before + width
        back = f"\x1b[{before}D\x1b[K" if before else ""
        return f"{back}\n{self._word}"

    @property
    def _kept(self) -> bool:
        return self._fenced or self._head.startswith((*_FENCES, "|"))


def wrapped(text: str, width: int) -> list[str]:
    """A whole text as lines of at most so many columns, where its words allow it."""
    return Wrapper(width + 1).feed(text).split("\n")
