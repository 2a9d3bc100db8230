"""An ASGI application on a loopback port, in the caller's event loop, for as long as a block lasts.

uvicorn's HTTP protocol without its server, which would take over signals, look at a flag ten times a second to learn
that it shall end, and wait for streams that the other side never closes. Here the end is at once, and nothing is left.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from uvicorn import Config
from uvicorn.server import ServerState

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Any, Receive, Send], Awaitable[None]]

PATH: Final = "/mcp"

_HOSTS: Final = ("127.0.0.1", "localhost")


class Door:
    def __init__(self, inside: Application, *, token: str, port: int) -> None:
        self._inside = inside
        self._token = token.encode()
        self._hosts = {f"{host}:{port}".encode() for host in _HOSTS}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope["path"], scope["headers"])
        if refusal is None:
            await self._inside(scope, receive, send)
        else:
            await _refuse(send, *refusal)

    def _refusal(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """Status and reason. Names of headers are in lower case, as ASGI has them."""
        given: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            given.setdefault(name, []).append(value)
        hosts = given.get(b"host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, "the Host is not this server's"
        if any(origin.lower() not in self._origins for origin in given.get(b"origin", ())):
            return 403, "the Origin is not this server's"
        if not self._has_token(given.get(b"authorization", [])):
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

KEEP_ALIVE: Final = 3600
"""Seconds of silence until a connection is closed. Agents keep theirs for the next call, which may be long in coming;
one that is closed under them at that moment is a failed call."""

GRACE: Final = 1.0
"""Seconds that what is being answered gets to end, when it was told to."""


def open_port(port: int = 0) -> socket.socket:
    """A socket that listens on loopback, on any free port by default."""
    # The protocol is named, because asyncio turns off the delay of small packets (40 ms an answer) only where it is.
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((HOST, port))
        opened.listen(128)
        opened.setblocking(False)
    except BaseException:
        opened.close()
        raise
    return opened


@asynccontextmanager
async def serving(application: Application, on: socket.socket) -> AsyncIterator[Callable[[], None]]:
    """Answers on the socket, which is closed in the end with all connections. What it gives stops to let in more."""
    loop = asyncio.get_running_loop()
    ending = False

    async def answer(scope: Any, receive: Receive, send: Send) -> None:
        try:
            await application(scope, receive, send)
        except BaseException:
            # uvicorn logs what it gets, with a traceback; that an answer was cut short by our own end is no news.
            if not ending:
                raise

    config = Config(
        answer,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE,
        access_log=False,
    )
    config.load()
    state = ServerState()
    protocol: Any = config.http_protocol_class  # its type says nothing of how it is made
    watching = _watchers()

    def connected() -> asyncio.BaseProtocol:
        made: asyncio.BaseProtocol = protocol(config=config, server_state=state, app_state={}, _loop=loop)
        return made

    server = await loop.create_server(connected, sock=on)

    def stop() -> None:
        nonlocal ending
        ending = True
        server.close()

    try:
        yield stop
    finally:
        stop()
        await _end(state)
        for watcher in _watchers() - watching:
            watcher.cancel()


async def _end(state: ServerState) -> None:
    for connection in list(state.connections):
        connection.transport.abort()
    await asyncio.sleep(0)  # transports close their sockets in the loop's next turn, and then whoever answers learns it
    for task in state.tasks:
        task.cancel()
    if state.tasks:
        await asyncio.wait(state.tasks, timeout=GRACE)


def _watchers() -> set[asyncio.Task[Any]]:
    """sse-starlette, which writes the streams, starts a task a loop that looks for uvicorn's end, and never ends it."""
    return {task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "_shutdown_watcher"}
