"""The seam between messages and bytes: what a shell (pipe, memory, socket) offers."""

from __future__ import annotations

from typing import Protocol


class Transport(Protocol):
    """A two-way stream of bytes.

    Promised: bytes arrive whole and in order. Not promised: that one write is one read, or that what
    was written has been read by anyone.
    """

    async def read(self) -> bytes:
        """The next bytes, as many as are there; b"" once the stream has ended, and ever after."""

    def write(self, data: bytes) -> None:
        """Queues bytes. When the other side is gone they are dropped: the end shows in `read`."""

    async def drain(self) -> None:
        """Waits while too much is queued; returns at once when the other side is gone."""

    def close(self) -> None:
        """Ends our writing side."""
