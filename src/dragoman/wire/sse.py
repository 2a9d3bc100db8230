"""Server-sent events, without I/O: bytes in, the data of each event out.

Only `data` matters to the protocol; comments (which keep idle connections open) and other fields are skipped. An
event's data is one JSON message, returned on one line.

httpx-sse is not used: it reads a line of any length into memory, and an agent's server must not be able to fill it.
"""

from __future__ import annotations


class EventTooLong(Exception):
    """An event over the limit. The events before it were returned; none after it can be."""


class EventReader:
    """Splits a stream into events. However the bytes are split, the events are the same."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._parts: list[bytes] = []  # of the unfinished line
        self._data: list[bytes] = []  # of the unfinished event
        self._length = 0  # of both
        self._after_return = False

    def feed(self, data: bytes) -> list[bytes]:
        events: list[bytes] = []
        *lines, unfinished = self._normalize(data).split(b"\n")
        for line in lines:
            self._append(line)
            self._end_line(events)
        self._append(unfinished)
        return events

    def _normalize(self, data: bytes) -> bytes:
        """Turn all line ends into newlines; a CRLF that was split in two is one line end, not two."""
        if self._after_return and data.startswith(b"\n"):
            data = data[1:]
            self._after_return = False
        if data:
            self._after_return = data.endswith(b"\r")
        if b"\r" not in data:
            return data
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _append(self, part: bytes) -> None:
        if not part:
            return
        self._length += len(part)
        if self._length > self._limit:
            raise EventTooLong(f"a message over the limit of {self._limit} bytes")
        self._parts.append(part)

    def _end_line(self, events: list[bytes]) -> None:
        line = b"".join(self._parts)
        self._parts.clear()
        if not line:
            if self._data:
                # A newline between parts of JSON is white space; as a space, the message stays on one line.
                events.append(b" ".join(self._data))
            self._data.clear()
            self._length = 0
            return
        field, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        else:
            self._length -= len(line)
