"""Servers for agents in memory, over WebSocket and over the streamable-HTTP draft: enough to test a client with."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import msgspec
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from dragoman.testing.memory import MemoryLink
from dragoman.testing.scripted import AgentMain
from dragoman.wire.framing import LineFramer
from dragoman.wire.messages import Oversized

# Turns of the loop without progress after which a sender must be stuck: all parties are on this one loop.
TURNS = 500


async def settled(count: Callable[[], int]) -> int:
    """The count, once it no longer grows by itself."""
    quiet, last = 0, -1
    while quiet < TURNS:
        quiet, last = (quiet + 1, last) if count() == last and last > 0 else (0, count())
        await asyncio.sleep(0)
    return last


@asynccontextmanager
async def websocket_server(main: AgentMain, *, token: str | None = None) -> AsyncIterator[str]:
    """The address of a server that runs this agent for each connection; with a token, for those who have it."""

    def admit(socket: ServerConnection, request: Request) -> Response | None:
        if token is None or request.headers.get("Authorization") == token:
            return None
        return socket.respond(HTTPStatus.UNAUTHORIZED, "who are you?")

    async def connected(socket: ServerConnection) -> None:
        link = MemoryLink(main)
        sending = asyncio.create_task(_send_output(socket, link))
        try:
            async for frame in socket:
                link.write((frame.encode() if isinstance(frame, str) else frame) + b"\n")
                await link.drain()
        finally:
            await link.end()
            await sending

    async def _send_output(socket: ServerConnection, link: MemoryLink) -> None:
        try:
            async for line in _lines(link):
                await socket.send(line, text=True)
            await socket.close(1011, f"the agent exited with {await link.wait()}")
        except ConnectionClosed:
            while await link.read():  # an agent that is not heard may still end
                pass

    async with serve(connected, "127.0.0.1", 0, process_request=admit) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}/acp"


async def _lines(link: MemoryLink) -> AsyncIterator[bytes]:
    framer = LineFramer()
    while data := await link.read():
        for line in framer.feed(data):
            assert not isinstance(line, Oversized)
            yield line


class Stream:
    """One event stream: what waits to go out on it. None ends it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()


class Connected:
    """One connection: its agent, its streams, and on which of them each answer goes out."""

    def __init__(self, main: AgentMain) -> None:
        self.link = MemoryLink(main)
        self.streams: dict[str | None, Stream] = {None: Stream()}
        self.routes: dict[Any, str | None] = {}
        self.first: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.pump = asyncio.create_task(self._pump())

    async def _pump(self) -> None:
        async for line in _lines(self.link):
            message = msgspec.json.decode(line)
            if not self.first.done() and "result" in message:
                self.first.set_result(line)
                continue
            if "method" in message:
                session = (message.get("params") or {}).get("sessionId")
            else:
                session = self.routes.pop(message["id"], None)
                if isinstance(result := message.get("result"), dict) and "sessionId" in result:
                    self.stream(result["sessionId"])
            self.stream(session).queue.put_nowait(line)
        for stream in self.streams.values():
            stream.queue.put_nowait(None)

    def stream(self, session: str | None) -> Stream:
        return self.streams.setdefault(session, Stream())

    async def end(self) -> None:
        await self.link.end()
        await self.pump


class HttpServer:
    """`refusals` are statuses by method (`GET` and `GET session` for the streams); `seen` is what was asked."""

    def __init__(self, main: AgentMain) -> None:
        self.url = ""
        self.refusals: dict[str, int] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.answer_to_initialize: dict[str, str] | None = None
        self.events_sent = 0
        self.knows_only_its_own = False  # whether the header may name only sessions that this connection has opened
        self.connections: dict[str, Connected] = {}
        self._main = main
        self._ids = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[HttpServer]:
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp"
        try:
            yield self
        finally:
            server.close()
            for connection in self.connections.values():
                await connection.end()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            await server.wait_closed()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                request, *lines = head.decode().rstrip().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self._answer(request.split()[0], headers, body, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    async def _answer(self, verb: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter) -> None:
        session = headers.get("acp-session-id")
        message = msgspec.json.decode(body) if body else {}
        name = message.get("method", "answer") if verb == "POST" else f"{verb} session" if session else verb
        self.seen.append((name, headers))
        connection = self.connections.get(headers.get("acp-connection-id", ""))
        if name in self.refusals:
            _reply(writer, self.refusals[name], b'{"error": "not today"}')
        elif verb == "POST" and name == "initialize":
            await self._initialize(body, writer)
        elif connection is None:
            _reply(writer, 405 if verb == "OPTIONS" else 404)
        elif self.knows_only_its_own and session is not None and session not in connection.streams:
            _reply(writer, 404, b'{"error": "Unknown session id"}')
        elif verb == "POST":
            if "method" in message and "id" in message:
                connection.routes[message["id"]] = session
            connection.link.write(body + b"\n")
            _reply(writer, 202)
        elif verb == "GET":
            await self._stream(connection.stream(session), writer)
        else:
            await connection.end()
            _reply(writer, 202)

    async def _initialize(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        connection_id = f"connection-{next(self._ids)}"
        connection = self.connections[connection_id] = Connected(self._main)
        connection.link.write(body + b"\n")
        answer = await connection.first
        headers = {"Acp-Connection-Id": connection_id}
        _reply(writer, 200, answer, headers if self.answer_to_initialize is None else self.answer_to_initialize)

    async def _stream(self, stream: Stream, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        while (line := await stream.queue.get()) is not None:
            event = b"data: " + line + b"\n\n"
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            await writer.drain()
            self.events_sent += 1
        writer.write(b"0\r\n\r\n")


def _reply(writer: asyncio.StreamWriter, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
    fields = {"Content-Length": str(len(body)), **(headers or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    writer.write(f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + body)
