"""Text of agents, made fit to be shown: nothing in it may act on a terminal.

An agent's words and titles are whatever a model or a web page made them. On a terminal, control characters could
rewrite what was said before, hide a part of a command, or answer a question in the user's place.
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
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns_of(character) for character in text)


def _columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
