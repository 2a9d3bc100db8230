"""The scripted model on a socket: the thin shell around `routes`.

It listens on loopback alone and has no memory: what a request gets depends on nothing but the request. A client that
closes its connection ends its answer at once, however slow the script wanted it.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final

from msgspec import Struct

from dragoman.errors import InputError
from dragoman.testing.model import http, openai_chat
from dragoman.testing.model.reply import ERRAND
from dragoman.testing.model.routes import Answer, answer
from dragoman.testing.model.script import Drop

_EVENTS: Final = "text/event-stream; charset=utf-8"


class Seen(Struct, frozen=True):
    """One request, when its answer begins; `note` says what was decided, `body` is what the client sent."""

    method: str
    path: str
    status: int
    note: str
    body: bytes = b""


OnRequest = Callable[[Seen], None]


class Server:
    """A server that listens. `url` is the base: APIs of OpenAI's shape want `url + "/v1"`, the others `url` itself."""

    def __init__(self, host: str, listener: asyncio.Server, connections: set[_Connection]) -> None:
        self.host = host
        self.port: int = listener.sockets[0].getsockname()[1]
        self._listener = listener
        self._connections = connections

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def close(self) -> None:
        """Stops listening, and ends the answers that are under way."""
        self._listener.close()
        connections = list(self._connections)
        for connection in connections:
            connection.end()
        await asyncio.gather(*(connection.ended for connection in connections), return_exceptions=True)
        await self._listener.wait_closed()

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def serve(
    host: str = "127.0.0.1", port: int = 0, *, errand: str | None = ERRAND, on_request: OnRequest | None = None
) -> Server:
    """Starts to listen; port 0 is any free one.

    `errand` is what requests without tools get (agents ask for titles so); None has the script answer these too.
    """
    if host != "localhost" and not _is_loopback(host):
        raise InputError(
            f"the model server listens on loopback only, not on {host}",
            guidance="Anyone who reaches it could make an agent run commands. Use 127.0.0.1, ::1 or localhost.",
        )
    host = "127.0.0.1" if host == "localhost" else host
    connections: set[_Connection] = set()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: _Connection(connections, errand, on_request), host, port)
    return Server(host, listener, connections)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Connection(asyncio.StreamReaderProtocol):
    """One client. Its end of the stream closes the connection: who has sent all and hung up wants no answer."""

    def __init__(self, connections: set[_Connection], errand: str | None, on_request: OnRequest | None) -> None:
        reader = asyncio.StreamReader(limit=http.MOST_HEAD)
        super().__init__(reader, self._connected)
        self._connections = connections
        self._errand = errand
        self._on_request = on_request
        self._gone = asyncio.Event()
        self._transport: asyncio.BaseTransport | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.add(self)
        super().connection_made(transport)

    def eof_received(self) -> bool:
        super().eof_received()
        self._gone.set()
        return False

    def connection_lost(self, problem: Exception | None) -> None:
        super().connection_lost(problem)
        self._gone.set()

    def end(self) -> None:
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()
        self._gone.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not self._gone.is_set() and await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client left in the middle: its business
        finally:
            writer.close()
            self._connections.discard(self)
            if not self.ended.done():
                self.ended.set_result(None)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; False where the connection ends with it."""
        try:
            head = await http.read_head(reader)
            if head is None:
                return False
            if head.headers.get("expect", "").lower() == "100-continue":
                writer.write(http.CONTINUE)
            body = await http.read_body(head, reader)
        except http.BadRequest as problem:
            error = openai_chat.error(problem.status, str(problem))
            self._saw("?", "?", problem.status, str(problem))
            await self._send(writer, http.whole(problem.status, error, keep_alive=False))
            return False
        found = answer(head.method, head.path, head.query, body, errand=self._errand)
        self._saw(head.method, head.path, found.status, found.note, body)
        if not await self._waited(found.wait) or found.drop:
            self.end()
            return False
        if found.events is not None:
            return await self._stream(writer, head, found)
        head_only = head.method == "HEAD"
        await self._send(writer, http.whole(found.status, found.body, keep_alive=head.keep_alive, head_only=head_only))
        return head.keep_alive

    async def _stream(self, writer: asyncio.StreamWriter, head: http.Head, found: Answer) -> bool:
        assert found.events is not None
        await self._send(writer, http.begin(_EVENTS, keep_alive=head.keep_alive))
        for part in found.events:
            if isinstance(part, bytes):
                await self._send(writer, http.chunk(part))
            elif isinstance(part, Drop) or not await self._waited(part.seconds):
                self._hang_up(writer)
                return False
        await self._send(writer, http.END)
        return head.keep_alive

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        if self._gone.is_set():
            raise ConnectionResetError
        writer.write(data)
        await writer.drain()

    def _hang_up(self, writer: asyncio.StreamWriter) -> None:
        # Not aborted: what was said before is to arrive. Without the last chunk the client knows that it was cut.
        writer.close()
        self._gone.set()

    async def _waited(self, seconds: float) -> bool:
        """False where the client left meanwhile."""
        if seconds <= 0:
            return not self._gone.is_set()
        try:
            async with asyncio.timeout(seconds):
                await self._gone.wait()
        except TimeoutError:
            return True
        return False

    def _saw(self, method: str, path: str, status: int, note: str, body: bytes = b"") -> None:
        if self._on_request is not None:
            self._on_request(Seen(method, path, status, note, body))


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until it is interrupted. Prints its base URL on stdout, and a line for each request on stderr."""
    parser = argparse.ArgumentParser(
        prog="dragoman model-server", description="A model server that does as the prompt says, for tests of agents."
    )
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    parser.add_argument("--script-all", action="store_true", help="script requests that offer no tools, too")
    parser.add_argument("--quiet", action="store_true", help="print no line for each request")
    given = parser.parse_args(arguments)
    errand = None if given.script_all else ERRAND
    try:
        asyncio.run(_serve_until_interrupted(given.host, given.port, errand, None if given.quiet else _print))
    except KeyboardInterrupt:
        return 0
    except (InputError, OSError, OverflowError) as problem:
        print(f"dragoman model-server: {problem}", file=sys.stderr)
        return 2
    return 0


async def _serve_until_interrupted(host: str, port: int, errand: str | None, on_request: OnRequest | None) -> None:
    async with await serve(host, port, errand=errand, on_request=on_request) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


def _print(seen: Seen) -> None:
    print(f"{seen.status} {seen.method} {seen.path}  {seen.note}", file=sys.stderr, flush=True)
