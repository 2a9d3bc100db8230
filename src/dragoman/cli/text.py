"""Text of agents made safe for a terminal, measured in columns, and wrapped; and figures as people read them.

An agent's words and titles come from a model or a web page. On a terminal, control characters in them could rewrite
earlier output, hide a part of a command, or answer a question in the user's place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from dragoman.config import format_duration
from dragoman.record import rows
from dragoman.record.text import strip_controls, strip_directions

_UNESCAPED = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c]")
ELLIPSIS = "…"


def plain(text: str) -> str:
    """Remove what acts on a terminal and what turns the direction of writing, for text that a person has to judge."""
    return strip_directions(strip_controls(text))


def exact(text: str) -> str:
    """Spell out what cannot be seen, for text that will be used as it is: a command, or a file's content.

    To leave it out would hide it: a shell also runs what is inside a terminal's escape sequence.
    """
    if text.isprintable():
        return text
    return "".join(character if _is_seen(character) else _spelled(character) for character in text)


def file_name(path: str) -> str:
    """Return the path of a file on one line; in quotes, as git writes it, where something in it cannot be seen."""
    if path.isprintable():
        return path
    spelled = "".join(character if character.isprintable() else _spelled(character) for character in path)
    return f'"{spelled}"'


def _is_seen(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs"


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()


def inert_json(line: bytes) -> bytes:
    """Write what JSON leaves unescaped and a terminal may obey as \\uXXXX."""
    return _UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", line.decode()).encode()


def one_line(text: str, width: int) -> str:
    """Return the text on a single line of at most `width` columns."""
    line = " ".join(plain(text).split())
    return truncate(line, width)


def truncate(line: str, width: int) -> str:
    """Return the line, or its beginning and an ellipsis where it is wider than `width` columns."""
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
    """Wraps text as it streams in, `width` columns wide. `feed` returns the output, which may move the cursor back."""

    def __init__(self, width: int) -> None:
        self.resize(width)
        self._fenced = False
        self.restart()

    def resize(self, width: int) -> None:
        # The last column stays free: from there, terminals disagree on what "back" means.
        self._room = width - 1

    def restart(self) -> None:
        """Go on at the beginning of a line."""
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
    """Wrap a whole text into lines of at most `width` columns, where its words allow it."""
    return Wrapper(width + 1).feed(text).split("\n")


def size(count: int) -> str:
    """Format a number of bytes."""
    from rich.filesize import decimal

    return decimal(count)


def duration(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 60 else format_duration(round(seconds))


def usage_parts(usage: rows.Usage) -> Sequence[str]:
    """Format the figures that were reported, and no others."""
    parts = []
    tokens = [(usage.input_tokens, "in"), (usage.output_tokens, "out")]
    if reported := [f"{_short(count)} {word}" for count, word in tokens if count is not None]:
        parts.append(f"tokens: {', '.join(reported)}")
    elif usage.total_tokens is not None:
        parts.append(f"tokens: {_short(usage.total_tokens)}")
    if context := context_part(usage):
        parts.append(f"context: {context}")
    if cost := cost_part(usage):
        parts.append(cost)
    return parts


def context_part(usage: rows.Usage) -> str:
    """Format the fill of the context; empty where it was not reported."""
    if usage.context_used is None:
        return ""
    if usage.context_size is None:
        return _short(usage.context_used)
    about = "about " if usage.is_context_size_guessed else ""
    return f"{_short(usage.context_used)} of {about}{_short(usage.context_size)}"


def cost_part(usage: rows.Usage) -> str:
    """Format the cost; empty where it was not reported."""
    return money(usage.cost.amount, usage.cost.currency) if usage.cost is not None else ""


def money(amount: float, currency: str) -> str:
    """Format an amount; a small one with more digits."""
    digits = 2 if amount >= 1 or not amount else 4
    return f"{amount:.{digits}f} {one_line(currency, 8)}".rstrip()


def _short(count: int) -> str:
    for unit, scale in (("M", 1_000_000), ("k", 1_000)):
        if count >= 10 * scale:
            return f"{count / scale:.0f}{unit}"
        if count >= scale:
            return f"{count / scale:.1f}".removesuffix(".0") + unit
    return str(count)
