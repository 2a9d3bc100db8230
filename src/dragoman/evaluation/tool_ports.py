"""The two loopback ports of a tool server, in the caller's event loop: one for HTTP, one for shims.

`serve_http` uses uvicorn's HTTP protocol without uvicorn's server, which would take over signals, poll a flag ten times
a second and wait for streams that the other side never closes. Here the end is immediate, and nothing is left open.

`serve_shims` is for agents that take only stdio. The agent starts `_shim_main.py`, which connects its stdin and stdout
to the port. The first line must be the token; before it, nothing is read as a message.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import sys
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from uvicorn import Config
from uvicorn.server import ServerState

from dragoman.evaluation._shim_main import GREETING, TOKEN
from dragoman.wire.vocabulary import EnvVariable, McpServerStdio

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Any, Receive, Send], Awaitable[None]]

PATH: Final = "/mcp"

_HOSTS: Final = ("127.0.0.1", "localhost")


class TokenCheck:
    """An ASGI application that lets only requests with the token, for this host, through to another one."""

    def __init__(self, application: Application, *, token: str, port: int) -> None:
        self._application = application
        self._token = token.encode()
        self._hosts = {f"{host}:{port}".encode() for host in _HOSTS}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope["path"], scope["headers"])
        if refusal is None:
            await self._application(scope, receive, send)
        else:
            await _refuse(send, *refusal)

    def _refusal(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """Return the status and the reason of a refusal. ASGI has the names of headers in lower case."""
        values: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            values.setdefault(name, []).append(value)
        hosts = values.get(b"host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, "the Host is not this server's"
        if any(origin.lower() not in self._origins for origin in values.get(b"origin", ())):
            return 403, "the Origin is not this server's"
        if not self._has_token(values.get(b"authorization", [])):
            return 401, "the bearer token is missing or wrong"
        return None if path == PATH else (404, f"there is only {PATH}")

    def _has_token(self, headers: list[bytes]) -> bool:
        if len(headers) != 1:
            return False
        scheme, _, token = headers[0].partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = f"{reason}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


HOST: Final = "127.0.0.1"

# An agent keeps its connection for the next tool call, which may come much later; if the connection is closed at that
# moment, the call fails.
KEEP_ALIVE_S: Final = 3600

# Time for cancelled requests to end.
CANCEL_GRACE_S: Final = 1.0


def open_port(port: int = 0) -> socket.socket:
    """Return a socket that listens on loopback, on any free port by default."""
    # With the protocol named, asyncio turns off the delay of small packets (40 ms per answer).
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(128)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


@asynccontextmanager
async def serve_http(application: Application, listener: socket.socket) -> AsyncIterator[Callable[[], None]]:
    """Serve on the socket; close it at the end with all connections. Yields a function that refuses new connections."""
    loop = asyncio.get_running_loop()
    is_ending = False

    async def answer(scope: Any, receive: Receive, send: Send) -> None:
        try:
            await application(scope, receive, send)
        except BaseException:
            # uvicorn would log the exception with a traceback, though we ended the answer ourselves.
            if not is_ending:
                raise

    config = Config(
        answer,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE_S,
        access_log=False,
    )
    config.load()
    state = ServerState()
    protocol: Any = config.http_protocol_class  # its type says nothing of how it is made
    watchers = _shutdown_watchers()

    def new_connection() -> asyncio.BaseProtocol:
        connection: asyncio.BaseProtocol = protocol(config=config, server_state=state, app_state={}, _loop=loop)
        return connection

    server = await loop.create_server(new_connection, sock=listener)

    def stop() -> None:
        nonlocal is_ending
        is_ending = True
        server.close()

    try:
        yield stop
    finally:
        stop()
        await _close_connections(state)
        for watcher in _shutdown_watchers() - watchers:
            watcher.cancel()


async def _close_connections(state: ServerState) -> None:
    for connection in list(state.connections):
        connection.transport.abort()
    await asyncio.sleep(0)  # transports close their sockets in the loop's next turn
    for task in state.tasks:
        task.cancel()
    if state.tasks:
        await asyncio.wait(state.tasks, timeout=CANCEL_GRACE_S)


def _shutdown_watchers() -> set[asyncio.Task[Any]]:
    """Return the tasks of sse-starlette that wait for uvicorn's end: one for each event loop, and it never ends."""
    return {task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "_shutdown_watcher"}


PROGRAM: Final = Path(__file__).with_name("_shim_main.py")

# For the first line, which the shim sends at once.
GREETING_TIMEOUT_S: Final = 10.0

# For one message from the agent; the same as over HTTP.
MAX_LINE_BYTES: Final = 4 * 1024 * 1024

ServeShim: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def shim_entry(name: str, port: int, token: str) -> McpServerStdio:
    """Return the MCP server entry by which the agent starts the shim."""
    return McpServerStdio(
        name=name,
        command=sys.executable,
        args=("-I", "-S", str(PROGRAM), str(port)),
        env=(EnvVariable(name=TOKEN, value=token),),
    )


@asynccontextmanager
async def serve_shims(serve_shim: ServeShim, listener: socket.socket, token: str) -> AsyncIterator[None]:
    """Accept shims on the socket; call `serve_shim` for each that has the token, until either side ends."""
    tasks: set[asyncio.Task[None]] = set()
    transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()
    expected = GREETING + token.encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                line = await reader.readuntil(b"\n")
            if hmac.compare_digest(line.rstrip(b"\r\n"), expected):
                await serve_shim(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no shim of ours, or one whose agent has ended
        finally:
            writer.close()  # what was written still goes out, to a shim that reads it

    def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        transports.add(writer.transport)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(on_connection, sock=listener, limit=MAX_LINE_BYTES)
    try:
        yield
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for transport in transports:
            transport.abort()  # of one that does not read, too
        await asyncio.sleep(0)  # transports close their sockets in the loop's next turn
