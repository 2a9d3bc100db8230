"""Serve an ASGI application on a port of this machine, by uvicorn.

Signals are left to the command line, which has more to end than the server.
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

from dragoman.bridge.metrics import Metrics
from dragoman.bridge.security import MAX_HEADER_BYTES
from dragoman.errors import InputError

# Time that unfinished responses get when the server stops.
STOP_GRACE_S: Final = 2

# Open connections. A browser keeps six and a socket; further clients are answered that the server is busy.
MAX_CONNECTIONS: Final = 1000

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
    """uvicorn without signal handlers. `listening` is set when it listens."""

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
async def serving(app: ASGIApp, listener: socket.socket, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    """Serve on the socket while the block lasts, then close all connections; responses get a grace to finish."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE_BYTES,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=STOP_GRACE_S,
        h11_max_incomplete_event_size=2 * MAX_HEADER_BYTES,
    )
    config.load()
    config.ssl = tls
    server = _Server(config)
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
