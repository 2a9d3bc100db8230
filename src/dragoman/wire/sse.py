"""Server-sent events, without I/O: bytes in, the data of each event out.

Only `data` matters to the protocol; comments (which keep idle connections open) and other fields are
skipped. An event's data is one JSON message, given out on one line.
"""

from __future__ import annotations


class EventTooLong(Exception):
    """An event over the limit: what came before it was given out, nothing after it can be."""


class EventReader:
    """Feed it bytes as they come. However they are split, the events are the same."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []  # of the unfinished line
        self._data: list[bytes] = []  # of the unfinished event
        self._length = 0  # of both
        self._after_return = False

    def feed(self, data: bytes) -> list[bytes]:
        events: list[bytes] = []
        *lines, rest = self._unified(data).split(b"\n")
        for line in lines:
            self._hold(line)
            self._line_ended(events)
        self._hold(rest)
        return events

    def _unified(self, data: bytes) -> bytes:
        """All line ends as newlines; a CRLF that was cut in two is one end, not two."""
        if self._after_return and data.startswith(b"\n"):
            data = data[1:]
            self._after_return = False
        if data:
            self._after_return = data.endswith(b"\r")
        if b"\r" not in data:
            return data
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        self._length += len(piece)
        if self._length > self._limit:
            raise EventTooLong(f"a message over the limit of {self._limit} bytes")
        self._parts.append(piece)

    def _line_ended(self, events: list[bytes]) -> None:
        line = b"".join(self._parts)
        self._parts.clear()
        if not line:
            if self._data:
                # A newline between parts of JSON is mere space; as space, the message stays on one line.
                events.append(b" ".join(self._data))
            self._data.clear()
            self._length = 0
            return
        field, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        else:
            self._length -= len(line)
