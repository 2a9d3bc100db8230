"""`OutputTail`: the last bytes of a stream, as text that begins at a character."""

from __future__ import annotations

import codecs
from typing import Final

_CONTINUATION: Final = range(0x80, 0xC0)


class OutputTail:
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
