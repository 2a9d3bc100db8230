"""`Server`: an ASGI application on a port of this machine, until it is told to stop.

uvicorn does the serving; signals are left to the command, which has more to end than the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from dragoman.bridge.door import MOST_HEADER_BYTES
from dragoman.bridge.metrics import Histogram
from dragoman.errors import InputError

# Seconds that answers under way get to end, when they were told to.
GRACE: Final = 2

# Connections at once. A browser keeps six and a socket; beyond this, who comes is told that it is busy.
MOST_CONNECTIONS: Final = 1000

# Of a socket's message. Twice what it may have, so that the usual too large one is answered, and not cut off.
MOST_MESSAGE: Final = 64 * 1024 * 1024

# Seconds between two looks at how late the loop is.
BEAT: Final = 0.25


def open_port(host: str, port: int) -> socket.socket:
    """A socket that listens; `PortTaken` or another `InputError` where it cannot."""
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
        opened.bind(address)
        opened.listen(256)
        opened.setblocking(False)
    except OSError as problem:
        opened.close()
        if problem.errno == errno.EADDRINUSE:
            raise PortTaken(f"port {port} is taken", guidance="Choose another one.") from None
        raise InputError(
            f"{host}:{port} cannot be listened on: {problem.strerror}", guidance="Choose another --host or --port."
        ) from None
    return opened


class PortTaken(InputError):
    pass


class _Quiet(uvicorn.Server):
    """`listening` is set when it is."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, on: socket.socket, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    """Answers on the socket while the block lasts. Then connections are closed, and what still answers after a grace
    is cut."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="websockets-sansio",
        ws_max_size=MOST_MESSAGE,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=2 * MOST_HEADER_BYTES,
    )
    config.load()
    config.ssl = tls
    server = _Quiet(config)
    task = asyncio.create_task(server.serve([on]), name="dragoman server")
    listening = asyncio.create_task(server.listening.wait())
    try:
        await asyncio.wait({task, listening}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task  # it failed, and says why
        yield
    finally:
        listening.cancel()
        server.should_exit = True
        await asyncio.wait({task, listening})


@contextlib.asynccontextmanager
async def measured(delays: Histogram, clock: Callable[[], float] = time.monotonic) -> AsyncIterator[None]:
    """Looks, while the block lasts, how late the loop comes to what it has to do."""

    async def measure() -> None:
        while True:
            due = clock() + BEAT
            await asyncio.sleep(BEAT)
            delays.observe(max(0.0, clock() - due))

    task = asyncio.create_task(measure(), name="dragoman loop delay")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
