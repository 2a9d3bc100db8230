"""Text that grows by small pieces."""

from __future__ import annotations

# Pieces are joined into one block at this count: the memory then held is the text itself plus this many
# small strings, and every character is copied a fixed number of times however long the text becomes.
_PIECES_A_BLOCK = 4096


class GrowingText:
    """`add` costs the same for the first piece and the millionth; `str()` joins what there is."""

    __slots__ = ("_blocks", "_pieces")

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        pieces = self._pieces
        pieces.append(piece)
        if len(pieces) >= _PIECES_A_BLOCK:
            self._blocks.append("".join(pieces))
            pieces.clear()

    def __str__(self) -> str:
        if self._pieces or len(self._blocks) > 1:
            self._blocks = ["".join((*self._blocks, *self._pieces))]
            self._pieces.clear()
        return self._blocks[0] if self._blocks else ""

    def __bool__(self) -> bool:
        return bool(self._blocks or self._pieces)
