"""`application`: the bridge as an ASGI application, with every URL of the server. `serving` runs it by uvicorn.

Signals are left to the command line, which has more to end than the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from dragoman.bridge.auth import Auth, Caller, FailedAttempts
from dragoman.bridge.bridge import Bridge
from dragoman.bridge.connections import MAX_CONNECTIONS, Acceptor, Connection, HttpProtocol, SocketProtocol
from dragoman.bridge.http import Api
from dragoman.bridge.openapi import description
from dragoman.bridge.refusal import Refusal, refusal_of
from dragoman.bridge.responses import JSON, BuiltPage, files_by_url, refusal_response
from dragoman.bridge.security import MAX_HEADER_BYTES, HostNames, SecurityMiddleware
from dragoman.bridge.socket import serve_socket
from dragoman.bridge.telemetry import Metrics
from dragoman.clock import SYSTEM_CLOCK, Clock
from dragoman.errors import InputError

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "page"  # built from web/
PAGES: Final = HERE / "pages"  # pages that need no build: pairing, API documentation

SocketHandler = Callable[[WebSocket, Bridge, Caller], Awaitable[None]]


def application(
    bridge: Bridge,
    *,
    host_names: HostNames,
    stopping: asyncio.Event,
    port: int,
    page: Path = PAGE,
    handle_socket: SocketHandler = serve_socket,
) -> ASGIApp:
    """The ASGI application. `stopping` is set when the server is about to stop; `page` is the built page's folder."""
    auth = Auth(bridge.tokens, FailedAttempts(), port)

    async def open_socket(websocket: WebSocket) -> None:
        try:
            caller = await auth.caller(websocket)
        except Refusal as refusal:
            await websocket.send_denial_response(refusal_response(refusal))
            return
        await handle_socket(websocket, bridge, caller)

    routes = [
        *Api(bridge, auth, stopping).routes(),
        Route("/v1/openapi.json", _describe, methods=["GET"]),
        WebSocketRoute("/v1/socket", open_socket),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_error, Exception: _internal_error})
    app.router.redirect_slashes = False
    app.router.default = _files(page, app.router.not_found)
    return SecurityMiddleware(app, host_names, bridge.metrics)


def _files(page: Path, not_found: ASGIApp) -> ASGIApp:
    """Serve files at all URLs without a route. URLs within the page (`/sessions/…`) serve the page itself."""
    own_pages = files_by_url(PAGES, "/docs/")
    own_pages |= {"/pair": own_pages["/docs/pair.html"], "/docs": own_pages["/docs/index.html"]}
    built = BuiltPage(page)

    def answer(request: Request) -> Response:
        path = request.url.path
        index = "/index.html" if path == "/" or _is_page_url(request) else path
        file = own_pages.get(path) or built.get(path) or built.get(index)
        if path == "/" and file is None:
            return RedirectResponse("/docs", 302)
        if file is None:
            raise HTTPException(404)
        if request.method not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"allow": "GET, HEAD"})
        return file.response(request.headers)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        response = not_found if scope["type"] == "websocket" else answer(Request(scope))
        await response(scope, receive, send)

    return serve


async def _describe(_: Request) -> Response:
    return Response(description(), media_type=JSON)


def _is_page_url(request: Request) -> bool:
    path = request.url.path
    return (
        "text/html" in request.headers.get("accept", "")
        and not path.startswith(("/v1/", "/docs/", "/assets/"))
        and "." not in path.rpartition("/")[2]
    )


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer an error of the router."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        refusal = Refusal(
            "unsupported", f"{request.url.path} does not support {request.method}", guidance="GET /v1/openapi.json"
        )
    else:
        refusal = Refusal("not_found", f"there is nothing at {request.url.path}", guidance="GET /v1/openapi.json")
    response = refusal_response(refusal, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _internal_error(_: Request, error: Exception) -> Response:
    return refusal_response(refusal_of(error))


# Time that unfinished responses get when the server stops.
STOP_GRACE_S: Final = 2

# Size of a socket's message. Twice the documented limit, so that most larger ones get an answer, not a closed socket.
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024

# Time between two measurements of the event loop's delay.
MEASURE_PAUSE_S: Final = 0.25


def open_port(host: str, port: int) -> socket.socket:
    """Open a listening socket; raises `PortTaken` or another `InputError`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        raise InputError(
            f"this machine has no address {host!r}", guidance="--host 127.0.0.1, or 0.0.0.0 for the local network."
        ) from None
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and host == "::":  # IPv4 as well, whatever the system's default is
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.bind(address)
        opened.listen(256)
        opened.setblocking(False)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"port {port} is in use", guidance="Choose another one.") from None
        raise InputError(
            f"cannot listen on {host}:{port}: {error.strerror}", guidance="Choose another --host or --port."
        ) from None
    return opened


class PortTaken(InputError):
    pass


class _Server(uvicorn.Server):
    """uvicorn without signal handlers, and with connections that are limited. `listening` is set when it listens."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, limit: int, clock: Clock) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._acceptor = Acceptor(listener, config.ssl, self._make_protocol, limit=limit, clock=clock)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])  # no listener of its own
        self._acceptor.start()
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._acceptor.close()
        await super().shutdown(sockets)

    def _make_protocol(self, connection: Connection) -> HttpProtocol:
        return HttpProtocol(connection, self.lifespan.state, config=self.config, server_state=self.server_state)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp,
    listener: socket.socket,
    tls: ssl.SSLContext | None = None,
    *,
    max_connections: int = MAX_CONNECTIONS,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[None]:
    """Serve on the socket while the block lasts, then close all connections; responses get a grace to finish."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws=SocketProtocol,
        ws_max_size=MAX_MESSAGE_BYTES,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_GRACE_S,
        h11_max_incomplete_event_size=2 * MAX_HEADER_BYTES,
    )
    config.load()
    config.ssl = tls
    server = _Server(config, listener, max_connections, clock)
    task = asyncio.create_task(server.serve([listener]), name="dragoman server")
    listening = asyncio.create_task(server.listening.wait())
    try:
        await asyncio.wait({task, listening}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task  # raises why it failed
        yield
    finally:
        listening.cancel()
        server.should_exit = True
        await asyncio.wait({task, listening})


@contextlib.asynccontextmanager
async def measuring_loop_delay(metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> AsyncIterator[None]:
    """Measure the event loop's delay while the block lasts."""

    async def measure() -> None:
        while True:
            due = clock() + MEASURE_PAUSE_S
            await asyncio.sleep(MEASURE_PAUSE_S)
            metrics.loop_delay_seconds.observe(max(0.0, clock() - due))

    task = asyncio.create_task(measure(), name="dragoman loop delay")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
