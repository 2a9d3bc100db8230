"""The WebSocket transport, client side: an agent behind `ws://` or `wss://`, one JSON message per WebSocket frame.

The end of the connection shows in `read`, with its reason in `end_reason`. The transport never reconnects by itself:
messages sent meanwhile would be lost unnoticed.

The `websockets` package is loaded when the first connection is made.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dragoman.errors import AuthenticationRequired, DragomanError, InputError, StartError
from dragoman.wire.framing import DEFAULT_LINE_LIMIT_BYTES
from dragoman.wire.network import KEEP_ALIVE, Address, OutgoingLines, check_headers, parse_address

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

SCHEMES = ("ws", "wss")

# Line breaks of pretty-printed JSON. They cannot occur inside JSON strings, so replacing them by spaces changes nothing
# and puts the message on one line.
_LINE_BREAKS = re.compile(rb"[\r\n]")


class WebSocketTransport:
    """A `Transport`, made by `connect_websocket`. The owner must call `end`."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._outgoing = OutgoingLines()
        self._sender = asyncio.get_running_loop().create_task(self._send(), name="dragoman websocket")

    async def read(self) -> bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            message = await self._socket.recv(decode=False)
        except ConnectionClosed:
            self._outgoing.abandon()
            return b""
        return _LINE_BREAKS.sub(b" ", message) + b"\n"

    def write(self, data: bytes) -> None:
        self._outgoing.put(data)

    async def drain(self) -> None:
        await self._outgoing.drain()

    def close(self) -> None:
        self._outgoing.close()

    async def _send(self) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            while (line := await self._outgoing.next_line()) is not None:
                await self._socket.send(line, text=True)
                self._outgoing.mark_sent()
            await self._socket.close()
        except ConnectionClosed:
            pass  # `read` returns b""
        finally:
            self._outgoing.abandon()

    # -- the end

    async def wait_ended(self) -> None:
        """Return when the connection is over; `read` may still return messages that came before."""
        await self._socket.wait_closed()

    @property
    def end_reason(self) -> str | None:
        """The reason for the end of the connection; None while it lasts."""
        from websockets.protocol import State

        if self._socket.state is not State.CLOSED:
            return None
        end = self._socket.protocol.close_exc
        if end.sent is not None and not end.rcvd_then_sent and end.sent.code != 1000:
            return f"Dragoman closed the connection: {end.sent}"
        if end.rcvd is None:
            return "the connection was lost"
        return f"the server closed the connection: {end.rcvd}"

    async def end(self, grace: float) -> None:
        """Send the queued messages and close the connection, after `grace` seconds whatever the server does."""
        self.close()
        await asyncio.wait([self._sender], timeout=grace)
        if not self._sender.done():
            self.abort()
            await asyncio.wait([self._sender])
        await self._socket.wait_closed()

    def abort(self) -> None:
        """Close the connection at once."""
        self._socket.transport.abort()


async def connect_websocket(
    url: str, *, headers: Mapping[str, str] | None = None, message_limit: int = DEFAULT_LINE_LIMIT_BYTES
) -> WebSocketTransport:
    """Connect; `headers` go with the handshake. A message over the limit ends the connection (close code 1009)."""
    address, headers = parse_address(url, SCHEMES), check_headers(headers)
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidHandshake, InvalidStatus
    except ImportError as error:
        raise InputError(
            f"connecting to an agent at {address.shown} needs the package `websockets`, which is not installed",
            guidance="Install it: pip install websockets",
        ) from error

    class Connect(connect):
        def process_redirect(self, exc: Exception) -> Exception:
            return exc  # not followed: the headers are for the host in the address

    try:
        socket = await Connect(
            address.url,
            additional_headers=headers,
            max_size=message_limit,
            # A proxy of the environment is meant for other hosts; few users except 127.0.0.1 from it.
            proxy=None if address.is_loopback else True,
            open_timeout=None,  # the caller that starts the agent has a timeout
            # With pings, a program that reads slowly (so that this transport stops reading) would lose the connection:
            # the pongs are behind the unread messages. TCP keep-alive finds dead peers instead.
            ping_interval=None,
        )
    except InvalidStatus as refusal:
        raise _refused(address, refusal.response.status_code, bytes(refusal.response.body or b"")) from None
    except (OSError, InvalidHandshake) as error:
        raise StartError(
            f"cannot connect to {address.shown}: {error}",
            guidance="Check that the agent's server is running there and speaks WebSocket at this path.",
        ) from None
    _keep_alive(socket)
    return WebSocketTransport(socket)


def _refused(address: Address, status: int, body: bytes) -> DragomanError:
    detail = body[:200].decode("utf-8", "replace").strip()
    message = f"{address.shown} refused the connection: HTTP {status}{f': {detail}' if detail else ''}"
    if status == 401:
        return AuthenticationRequired(
            message, method="connect", guidance="Pass the server's token: headers={'Authorization': 'Bearer …'}"
        )
    return StartError(message, guidance="Check the address, its path, and the headers that the server requires.")


def _keep_alive(socket: ClientConnection) -> None:
    raw = socket.transport.get_extra_info("socket")
    if raw is not None:
        for level, option, value in KEEP_ALIVE:
            raw.setsockopt(level, option, value)
