"""Bytes to lines: the framing of ACP over a pipe, one JSON message a line.

Pure: bytes in, lines out. However the bytes are split, the lines are the same. A line over the limit
is not kept in memory: its length, digest, beginning and end are handed out in its place when it ends.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from dragoman.wire.messages import Oversized

# Agents send whole files and screenshots as one line; tens of megabytes have been seen.
DEFAULT_LINE_LIMIT = 64 * 1024 * 1024

# What is kept of a line over the limit: enough to see which message it was.
OVERSIZED_HEAD = 64 * 1024
# And of its end: enough for an id, where that was written last.
OVERSIZED_TAIL = 256


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


class LineFramer:
    """Feed it bytes as they come; it returns the lines that are now complete, without their newline."""

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []  # of the unfinished line; joined once, so long lines cost O(n)
        self._length = 0
        self._digest: _Digest | None = None  # set while the unfinished line is over the limit
        self._tail = b""  # of that line

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        pieces: list[bytes | Oversized] = data.split(b"\n")  # type: ignore[assignment]  # list is invariant
        rest = pieces.pop()
        assert isinstance(rest, bytes)
        if pieces and (self._parts or self._digest is not None):
            first = pieces[0]
            assert isinstance(first, bytes)
            self._hold(first)
            pieces[0] = self._take()
        if len(data) > self._limit:
            pieces = [self._measured(piece) if isinstance(piece, bytes) else piece for piece in pieces]
        if rest:
            self._hold(rest)
        return pieces

    def finish(self) -> list[bytes | Oversized]:
        """The stream has ended: what was said without a newline is a line too."""
        return [self._take()] if self._parts or self._digest is not None else []

    def _hold(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._digest is None:
            self._parts.append(piece)
            if self._length > self._limit:
                whole = b"".join(self._parts)
                self._digest = hashlib.sha256(whole)
                self._parts = [whole[:OVERSIZED_HEAD]]
                self._tail = whole[-OVERSIZED_TAIL:]
        else:
            self._digest.update(piece)
            self._parts[0] += piece[: OVERSIZED_HEAD - len(self._parts[0])]
            self._tail = (self._tail + piece[-OVERSIZED_TAIL:])[-OVERSIZED_TAIL:]

    def _take(self) -> bytes | Oversized:
        parts, length, digest = self._parts, self._length, self._digest
        self._parts, self._length, self._digest = [], 0, None
        if digest is not None:
            return Oversized(length=length, sha256=digest.hexdigest(), head=parts[0], tail=self._tail)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _measured(self, line: bytes) -> bytes | Oversized:
        if len(line) <= self._limit:
            return line
        digest = hashlib.sha256(line).hexdigest()
        return Oversized(len(line), digest, line[:OVERSIZED_HEAD], line[-OVERSIZED_TAIL:])
