"""Text of agents made safe for a terminal, measured in columns, and wrapped.

An agent's words and titles come from a model or a web page. On a terminal, control characters in them could rewrite
earlier output, hide a part of a command, or answer a question in the user's place.
"""

from __future__ import annotations

import re
import unicodedata

from dragoman.record.text import strip_controls, strip_directions

_UNESCAPED = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c]")
ELLIPSIS = "…"


def plain(text: str) -> str:
    """Remove what acts on a terminal and what turns the direction of writing, for text that a person has to judge."""
    return strip_directions(strip_controls(text))


def exact(text: str) -> str:
    """The same for what will be done as it stands, a command or a file's content: what cannot be seen is spelled out.

    To leave it out would hide it: a shell runs also what stands inside of a terminal's sequence.
    """
    if text.isprintable():
        return text
    return "".join(character if _is_seen(character) else _spelled(character) for character in text)


def _is_seen(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs"


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()


def inert_json(line: bytes) -> bytes:
    """JSON as it is, with what JSON leaves unescaped and a terminal may obey written as \\uXXXX."""
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", line.decode()).encode()


def one_line(text: str, width: int) -> str:
    """The text on a single line of at most so many columns."""
    line = " ".join(plain(text).split())
    return cut(line, width)


def cut(line: str, width: int) -> str:
    """The beginning of a line that fits into so many columns."""
    if columns(line) <= width:
        return line
    taken, used = [], 0
    for character in line:
        used += columns(character)
        if used > width - 1:
            break
        taken.append(character)
    return "".join(taken).rstrip() + ELLIPSIS


def columns(text: str) -> int:
    """Count the columns of a terminal that the text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns_of(character) for character in text)


def _columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


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
        """Begin a new message: a fence that was left open is closed."""
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
            if self._column + width > self._room and not self._is_verbatim:
                self._column = self._room  # at the edge, where it would be the beginning of the next line
                return ""
            self._column += width
            return part
        before = self._word_columns
        self._word += part
        self._word_columns += width
        if self._is_verbatim or self._column + width <= self._room or self._column == before:
            self._column += width
            return part
        self._column = before + width
        back = f"\x1b[{before}D\x1b[K" if before else ""
        return f"{back}\n{self._word}"

    @property
    def _is_verbatim(self) -> bool:
        return self._fenced or self._head.startswith((*_FENCES, "|"))


def wrapped(text: str, width: int) -> list[str]:
    """A whole text as lines of at most so many columns, where its words allow it."""
    return Wrapper(width + 1).feed(text).split("\n")
