"""Framing of ACP over a pipe: bytes to lines, one JSON message a line.

Pure: bytes in, lines out. However the bytes are split, the lines are the same. A line over the limit is not held in
memory: an `Oversized` with its length, digest, beginning and end takes its place. `identify_oversized` finds out from
these whether it was a request or an answer, so that no caller waits for ever for a line that was too long to read.
"""

from __future__ import annotations

import hashlib
import re
from io import BytesIO
from typing import Protocol

import msgspec

from dragoman.wire.messages import Oversized, RequestId

# Agents send whole files and screenshots as one line; tens of megabytes have been seen.
DEFAULT_LINE_LIMIT_BYTES = 64 * 1024 * 1024

# The stored beginning of a line over the limit: enough to see which message it was.
OVERSIZED_HEAD_BYTES = 64 * 1024
# The stored end: enough for an id that was written last.
OVERSIZED_TAIL_BYTES = 256


# An unfinished line of more bytes is written into one buffer, and its digest is computed on the way: there is no moment
# at which megabytes are copied or read at once.
_LONG_LINE_BYTES = 256 * 1024


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


class LineFramer:
    """Splits bytes into lines. `feed` returns the lines that are now complete, without their newline."""

    def __init__(self, limit_bytes: int = DEFAULT_LINE_LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._parts: list[bytes] = []  # of the unfinished line, while it is short
        self._length = 0
        self._buffer: BytesIO | None = None  # the unfinished line, from when it is long until it is over the limit
        self._digest: _Digest | None = None  # of the unfinished line, once it is long
        self._head = b""  # of a line that is over the limit
        self._tail = b""  # the end of that line so far

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        lines: list[bytes | Oversized] = data.split(b"\n")  # type: ignore[assignment]  # list is invariant
        unfinished = lines.pop()
        assert isinstance(unfinished, bytes)
        if lines and self._is_within_line:
            first = lines[0]
            assert isinstance(first, bytes)
            self._append(first)
            lines[0] = self._take_line()
        if len(data) > self._limit:
            lines = [self._check_length(line) if isinstance(line, bytes) else line for line in lines]
        if unfinished:
            self._append(unfinished)
        return lines

    def finish(self) -> list[bytes | Oversized]:
        """Return the last line, if the stream ended without a newline."""
        return [self._take_line()] if self._is_within_line else []

    @property
    def _is_within_line(self) -> bool:
        return bool(self._parts) or self._digest is not None

    def _append(self, part: bytes) -> None:
        self._length += len(part)
        if self._digest is None:
            self._parts.append(part)
            if self._length > min(self._limit, _LONG_LINE_BYTES):
                beginning = b"".join(self._parts)
                self._parts = []
                self._digest = hashlib.sha256(beginning)
                self._buffer = BytesIO()
                self._buffer.write(beginning)
        else:
            self._digest.update(part)
            if self._buffer is not None:
                self._buffer.write(part)
            else:
                self._head += part[: OVERSIZED_HEAD_BYTES - len(self._head)]
                self._tail = (self._tail + part[-OVERSIZED_TAIL_BYTES:])[-OVERSIZED_TAIL_BYTES:]
        if self._buffer is not None and self._length > self._limit:
            with self._buffer.getbuffer() as line:
                self._head = bytes(line[:OVERSIZED_HEAD_BYTES])
                self._tail = bytes(line[-OVERSIZED_TAIL_BYTES:])
            self._buffer = None

    def _take_line(self) -> bytes | Oversized:
        parts, length, digest, buffer = self._parts, self._length, self._digest, self._buffer
        self._parts, self._length, self._digest, self._buffer = [], 0, None, None
        if digest is None:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        if buffer is not None:
            return buffer.getvalue()  # the buffer itself, not a copy
        return Oversized(length=length, sha256=digest.hexdigest(), head=self._head, tail=self._tail)

    def _check_length(self, line: bytes) -> bytes | Oversized:
        if len(line) <= self._limit:
            return line
        digest = hashlib.sha256(line).hexdigest()
        return Oversized(len(line), digest, line[:OVERSIZED_HEAD_BYTES], line[-OVERSIZED_TAIL_BYTES:])


# -- lines over the limit

# A member of the outermost object whose value is short: these stand before the long one, in any order.
_SHORT_MEMBER = re.compile(rb'\s*"(jsonrpc|id|method)"\s*:\s*("[^"\\]{0,200}"|-?\d{1,18})\s*,')
_OBJECT_START = re.compile(rb"\s*\{")
_LONG_MEMBER = re.compile(rb'\s*"(params|result|error)"\s*:')
# An id that was written last. One closing brace, so it is the outermost object's.
_LAST_ID = re.compile(rb',\s*"id"\s*:\s*("[^"\\]{0,200}"|-?\d{1,18})\s*\}\s*$')


class OversizedIdentity(msgspec.Struct, frozen=True):
    """The id of a request or an answer. `method` is None for an answer."""

    id: RequestId
    method: str | None


def identify_oversized(line: Oversized) -> OversizedIdentity | None:
    """Return the identity of a request or an answer; None for anything else, and where it cannot be found out."""
    match = _OBJECT_START.match(line.head)
    if match is None:
        return None
    members: dict[bytes, bytes] = {}
    position = match.end()
    while match := _SHORT_MEMBER.match(line.head, position):
        members[match[1]] = match[2]
        position = match.end()
    long_member = _LONG_MEMBER.match(line.head, position)
    if b"id" not in members and (last_id := _LAST_ID.search(line.tail)):
        members[b"id"] = last_id[1]
    if long_member is None or b"id" not in members:
        return None
    request_id = _scalar(members[b"id"])
    if long_member[1] != b"params":
        return OversizedIdentity(request_id, None) if b"method" not in members else None
    method = _scalar(members.get(b"method", b'""'))
    return OversizedIdentity(request_id, method) if isinstance(method, str) and method else None


def _scalar(text: bytes) -> int | str:
    """Decode a number, or a string without escapes, as the patterns above match them."""
    return text[1:-1].decode("utf-8", "replace") if text.startswith(b'"') else int(text)
