"""`Acceptor`: takes the connections of clients, and limits their number and the time they may take.

Anyone who reaches the port can open connections, and each costs a file descriptor, which agents and the journal need as
well. A connection on which no valid token was sent yet is *waiting*: it may only take a while, and if too many are
waiting, the one that has waited longest is closed in favour of the new one. So nobody can keep others out by opening
connections and sending nothing. A connection with a valid token has no such limits.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import h11
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from dragoman.clock import SYSTEM_CLOCK, Clock, Timer

logger = logging.getLogger(__name__)

# Open connections, if the system allows as many. A browser keeps six and a socket.
MAX_CONNECTIONS: Final = 1000

# Waiting connections, of all addresses and of one. A browser that loads the page has six.
MAX_WAITING: Final = 256
MAX_WAITING_PER_ADDRESS: Final = 64

# Time for the TLS handshake, and then for the headers of the first request.
HANDSHAKE_TIMEOUT_S: Final = 10.0
HEADER_TIMEOUT_S: Final = 10.0

# Time from a request without a token to the end of the next one: for its body, the response, and the headers after it.
REQUEST_TIMEOUT_S: Final = 60.0

# Connections that are accepted before others get their turn, and the pause after the system refused one.
MAX_ACCEPTED_AT_ONCE: Final = 64
ACCEPT_PAUSE_S: Final = 1.0

# Files and sockets that this process would like to have open at most. The programs that it starts inherit the limit,
# and some of them are slow with a much larger one.
WANTED_DESCRIPTORS: Final = 8192


def raise_descriptor_limit() -> int:
    """Raise the limit of open files as far as necessary and possible. Return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return WANTED_DESCRIPTORS
    wanted = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, WANTED_DESCRIPTORS)
    if wanted > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # a system with another limit beside this one
            return soft
        return wanted
    return soft


def max_connections(descriptors: int) -> int:
    """The number of connections for a limit of open files: half of them are left to agents and the journal."""
    return min(MAX_CONNECTIONS, descriptors // 2)


class Connection:
    """A connection of a client, which is waiting until a valid token was sent on it."""

    def __init__(self, connections: Connections, address: str) -> None:
        self.address = address
        self.abort: Callable[[], object] = lambda: None  # closes it at once
        self._connections = connections
        self._timer: Timer | None = None
        self._set_timer(HANDSHAKE_TIMEOUT_S + HEADER_TIMEOUT_S)

    def on_made(self, transport: asyncio.Transport) -> None:
        self.abort = transport.abort
        self._set_timer(HEADER_TIMEOUT_S)

    def on_request(self) -> None:
        """Note that the headers of a request have come."""
        if self._timer is not None:
            self._set_timer(REQUEST_TIMEOUT_S)

    def on_authenticated(self) -> None:
        """Note that the request has a valid token."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._connections.stop_waiting(self)

    def on_lost(self) -> None:
        self.on_authenticated()
        self._connections.remove(self)

    def _set_timer(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._connections.clock.call_later(delay_s, self._on_timeout)

    def _on_timeout(self) -> None:
        self.abort()


class Connections:
    """All connections of a server."""

    def __init__(self, limit: int, clock: Clock) -> None:
        self.clock = clock
        self._limit = limit
        self._open: set[Connection] = set()
        self._waiting: dict[Connection, None] = {}  # the one that has waited longest first

    def add(self, address: str) -> Connection | None:
        """A new connection from this address; None if there are too many. It may close others that are waiting."""
        max_waiting = min(MAX_WAITING, max(1, self._limit // 2))
        if len(self._open) >= self._limit or len(self._waiting) >= max_waiting:
            self._close_oldest(list(self._waiting))
        from_address = [connection for connection in self._waiting if connection.address == address]
        if len(from_address) >= MAX_WAITING_PER_ADDRESS:
            self._close_oldest(from_address)
        if len(self._open) >= self._limit:
            logger.warning("a connection was refused, because %d are open", len(self._open))
            return None
        connection = Connection(self, address)
        self._open.add(connection)
        self._waiting[connection] = None
        return connection

    def stop_waiting(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)

    def remove(self, connection: Connection) -> None:
        self._open.discard(connection)

    def _close_oldest(self, waiting: list[Connection]) -> None:
        if waiting:
            waiting[0].abort()
            waiting[0].on_lost()


class Acceptor:
    """Accepts connections from a listening socket. `make_protocol` makes the protocol of each."""

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        make_protocol: Callable[[Connection], asyncio.Protocol],
        *,
        limit: int = MAX_CONNECTIONS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._listener = listener
        self._tls = tls
        self._make_protocol = make_protocol
        self._clock = clock
        self._connections = Connections(limit, clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._pause: Timer | None = None
        self._closed = False

    def start(self) -> None:
        self._pause = None
        if not self._closed:
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        self._closed = True
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        if self._pause is not None:
            self._pause.cancel()
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(MAX_ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptor or no memory is left: others must end something first
                logger.warning("no connection can be accepted: %s", error.strerror)
                asyncio.get_running_loop().remove_reader(self._listener.fileno())
                self._pause = self._clock.call_later(ACCEPT_PAUSE_S, self.start)
                return
            connection = self._connections.add(str(address[0]) if address else "")
            if connection is None:
                accepted.close()
                continue
            accepted.setblocking(False)
            task = asyncio.get_running_loop().create_task(self._connect(accepted, connection), name="dragoman accept")
            connection.abort = task.cancel
            self._tasks.add(task)
            task.add_done_callback(partial(self._on_connected, accepted))

    def _on_connected(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():  # perhaps before it began
            accepted.close()

    async def _connect(self, accepted: socket.socket, connection: Connection) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make_protocol(connection),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S if self._tls is not None else None,
            )
        except BaseException as error:
            accepted.close()
            connection.on_lost()
            if not isinstance(error, OSError):  # a failed handshake is one, too: the client's own business
                raise


class HttpProtocol(H11Protocol):
    """uvicorn's protocol, which tells its `Connection` what happens. Requests find it in `scope["state"]`."""

    def __init__(self, connection: Connection, app_state: dict[str, Any], **options: Any) -> None:
        super().__init__(app_state={**app_state, "connection": connection}, **options)
        self._connection = connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self._connection.on_made(transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connection.on_lost()

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._connection.on_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._connection.on_request()
        super().handle_websocket_upgrade(event)


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, which tells its `Connection` when it is lost."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.app_state["connection"].on_lost()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            # It was refused by a response of its own: uvicorn would report it as not answered at all.
            self.handshake_complete = True


def on_authenticated(scope: Scope) -> None:
    """Note on the connection of a request that the request has a valid token."""
    connection = scope.get("state", {}).get("connection")
    if isinstance(connection, Connection):
        connection.on_authenticated()
