"""The WebSocket shell, client side: an agent behind `ws://` or `wss://`, one JSON message a frame.

The end of the connection shows in `read`, with its reason in `end_reason`. Nothing is connected again behind
anyone's back: what was said meanwhile would be lost without a sign.

Needs the `websockets` package (`dragoman[websocket]`), which is loaded when the first connection is made.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dragoman.errors import AuthenticationRequired, DragomanError, InputError, StartError
from dragoman.wire.address import KEEP_ALIVE, Address, check_headers, read_address
from dragoman.wire.framing import DEFAULT_LINE_LIMIT
from dragoman.wire.outgoing import Outgoing

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

SCHEMES = ("ws", "wss")

# Line breaks between the parts of a message that was written for people to read. Inside of JSON text they cannot
# stand, so as spaces they mean the same, and the message is on one line.
_LINE_BREAKS = re.compile(rb"[\r\n]")


class WebSocketTransport:
    """A `Transport`; made by `connect_websocket`. `end` must be called when it is done with."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._outgoing = Outgoing()
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
            while (line := await self._outgoing.take()) is not None:
                await self._socket.send(line, text=True)
                self._outgoing.sent()
            await self._socket.close()
        except ConnectionClosed:
            pass  # `read` tells
        finally:
            self._outgoing.abandon()

    # -- the end

    async def wait_ended(self) -> None:
        """Returns when the connection is over; `read` may still have messages that came before."""
        await self._socket.wait_closed()

    @property
    def end_reason(self) -> str | None:
        """Why the connection ended; None while it stands."""
        from websockets.protocol import State

        if self._socket.state is not State.CLOSED:
            return None
        end = self._socket.protocol.close_exc
        if end.sent is not None and not end.rcvd_then_sent and end.sent.code != 1000:
            return f"we closed the connection: {end.sent}"
        if end.rcvd is None:
            return "the connection was lost"
        return f"the server closed the connection: {end.rcvd}"

    async def end(self, grace: float) -> None:
        """Sends what waits, takes leave, and lets go after `grace` seconds whatever the server does."""
        self.close()
        await asyncio.wait([self._sender], timeout=grace)
        if not self._sender.done():
            self.abort()
            await asyncio.wait([self._sender])
        await self._socket.wait_closed()

    def abort(self) -> None:
        """Lets go at once."""
        self._socket.transport.abort()


async def connect_websocket(
    url: str, *, headers: Mapping[str, str] | None = None, message_limit: int = DEFAULT_LINE_LIMIT
) -> WebSocketTransport:
    """Connects; `headers` go with the handshake. A message over the limit ends the connection (close code 1009)."""
    address, headers = read_address(url, SCHEMES), check_headers(headers)
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidHandshake, InvalidStatus
    except ImportError as missing:
        raise InputError(
            f"to reach an agent at {address.shown} the package `websockets` is needed, and it is not installed",
            guidance="Install it: pip install 'dragoman[websocket]'",
        ) from missing

    class Connect(connect):
        def process_redirect(self, exc: Exception) -> Exception:
            return exc  # not followed: our headers are for the host that was named

    try:
        socket = await Connect(
            address.url,
            additional_headers=headers,
            max_size=message_limit,
            # A proxy from the environment is for the world outside; few who set one except 127.0.0.1 from it.
            proxy=None if address.loopback else True,
            open_timeout=None,  # whoever starts an agent has a limit for it
            # With pings of our own, a program that is slow to take what the agent says (so that we stop reading)
            # would lose the connection with it: the pongs are behind what is unread. TCP finds the dead instead.
            ping_interval=None,
        )
    except InvalidStatus as refusal:
        raise _refused(address, refusal.response.status_code, bytes(refusal.response.body or b"")) from None
    except (OSError, InvalidHandshake) as problem:
        raise StartError(
            f"cannot connect to {address.shown}: {problem}",
            guidance="Check that the agent's server runs there, and that it speaks WebSocket at this path.",
        ) from None
    _keep_alive(socket)
    return WebSocketTransport(socket)


def _refused(address: Address, status: int, body: bytes) -> DragomanError:
    said = body[:200].decode("utf-8", "replace").strip()
    message = f"{address.shown} refused the connection: HTTP {status}{f': {said}' if said else ''}"
    if status == 401:
        return AuthenticationRequired(
            message, method="connect", guidance="Pass the server's token: headers={'Authorization': 'Bearer …'}"
        )
    return StartError(message, guidance="Check the address, its path, and the headers that the server wants.")


def _keep_alive(socket: ClientConnection) -> None:
    raw = socket.transport.get_extra_info("socket")
    if raw is not None:
        for level, option, value in KEEP_ALIVE:
            raw.setsockopt(level, option, value)
