"""A way to a server that can be cut at any moment: bytes are passed on, and the connection is dropped when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal


class Proxy:
    """Listens on a port of its own. `cuts` counts the connections that were dropped; `after` says of each new one after
    how many bytes from the server it is. `next_said`: what happens to what the client says next; it is cut then."""

    def __init__(self, port: int) -> None:
        self._there = port
        self.port = 0
        self.cuts = 0
        self.after: Callable[[], int | None] = lambda: None
        self.open = True
        self.next_said: Literal["lost", "heard"] | None = None
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Drop all connections without a closing handshake, as a network does."""
        for pair in list(self._pairs):
            self._pairs.discard(pair)
            self.cuts += 1
            for writer in pair:
                writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.open:
            writer.transport.abort()
            return
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._there)
        pair = (writer, to_server)
        self._pairs.add(pair)
        try:
            await asyncio.gather(
                self._pass_on(reader, to_server, upwards=True),
                self._pass_on(from_server, writer, self.after(), upwards=False),
            )
        except OSError:
            pass
        finally:
            self._pairs.discard(pair)
            for one in pair:
                one.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None = None, *, upwards: bool
    ) -> None:
        while data := await reader.read(4096):
            message, self.next_said = (self.next_said, None) if upwards else (None, self.next_said)
            if message == "lost":
                self.cut()
                return
            if left is not None:
                data, left = data[:left], left - len(data)
            writer.write(data)
            await writer.drain()
            if message == "heard" or (left is not None and left <= 0):
                self.cut()
                return
        writer.close()


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    wire = Proxy(port)
    server = await asyncio.start_server(wire._connected, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        wire.open = False
        wire.cut()
        server.close()
