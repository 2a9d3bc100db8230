"""`ServerConnection`: one WebSocket to a server, kept open: requests that are answered, and sessions that are followed.

Promised: a request is carried out once, even when the connection breaks meanwhile; a session is followed from its
cursor, without a gap. While there is no connection both wait; when it cannot be restored in time, both fail.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import re
import ssl
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from dragoman.clock import SYSTEM_CLOCK, Clock
from dragoman.errors import DragomanError, InputError, ServerRefused, ServerUnreachable, SessionClosed
from dragoman.protocol import requests
from dragoman.protocol.messages import PROTOCOL, ErrorDetails, ErrorMessage, FramesUpdate, Hello, StreamEnded
from dragoman.protocol.models import Model
from dragoman.protocol.requests import REQUESTS, Request
from dragoman.remote.errors import request_error
from dragoman.session.lifecycle import CloseOnce
from dragoman.session.session import new_id
from dragoman.wire.connection import copy_error
from dragoman.wire.network import Address, check_headers, parse_address

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT", bound=Model)

PATH: Final = "/v1/socket"
_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_EXAMPLE: Final = "`dragoman serve` prints it, such as http://127.0.0.1:8421"

_SHA256: Final = re.compile(r"[0-9a-f]{64}")

# Time for connecting, including the server's first message.
CONNECT_TIMEOUT_S: Final = 10.0

# Time without a sign of life after which the connection counts as broken (a sleeping laptop, an unplugged cable).
SILENCE_TIMEOUT_S: Final = 20.0

# Time for the closing handshake.
CLOSE_TIMEOUT_S: Final = 2.0

# Pauses before the first and between later attempts to reconnect: a server that restarts is back in a second or two,
# and one that is away for longer should not be called all the time.
FIRST_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 3.0


class Follower(Protocol):
    """A session that is followed. `cursor` is where its stream continues after a reconnect."""

    @property
    def cursor(self) -> str | None: ...
    def on_frames(self, update: FramesUpdate) -> None: ...
    def on_lost(self, error: DragomanError) -> None:
        """Nothing more will be received."""


class _Header(msgspec.Struct, frozen=True):
    """The part that is read of every message."""

    type: str
    id: str | None = None
    stream: str | None = None


class _Result(msgspec.Struct, frozen=True):
    result: msgspec.Raw


class _Call(msgspec.Struct, frozen=True):
    data: bytes
    result: asyncio.Future[msgspec.Raw]


_header_decoder: Final = msgspec.json.Decoder(_Header)
_frames_decoder: Final = msgspec.json.Decoder(FramesUpdate)


class ServerConnection:
    """A connection to the server at `url`. `patience_s`: time for restoring a broken connection."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        fingerprint: str | None = None,
        patience_s: float = 60.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._connector = Connector(url, token, fingerprint)
        self._patience_s = patience_s
        self._clock = clock
        self._start = CloseOnce(self._connect_first, "dragoman connect")
        self._closed = False
        self._failure: DragomanError | None = None
        self._outgoing: asyncio.Queue[bytes] | None = None  # of the current WebSocket
        self._calls: dict[str, _Call] = {}
        self._followers: dict[str, Follower] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        return self._outgoing is not None

    async def start(self) -> None:
        """Connect, once. Raises why it cannot."""
        if self._closed:
            raise SessionClosed("this client is closed", guidance="Make a new Client.")
        await self._start()
        if self._failure is not None:
            raise copy_error(self._failure)

    async def call(self, request: Request[ResultT]) -> ResultT:
        """Send a request and return its result. A request that changes something is carried out once."""
        await self.start()
        declaration = REQUESTS[type(request)]
        command_id = request.command_id or (new_request_id() if declaration.changes else None)
        request_id = new_request_id()
        data = msgspec.json.encode(replace(request, id=request_id, command_id=command_id))
        pending = self._calls[request_id] = _Call(data, asyncio.get_running_loop().create_future())
        self._post(data)
        try:
            return cast("ResultT", msgspec.json.decode(await pending.result, type=declaration.result))
        finally:
            del self._calls[request_id]

    def follow(self, session_id: str, follower: Follower) -> None:
        """Send the session's frames to the follower, until `unfollow`."""
        if self._failure is not None:
            asyncio.get_running_loop().call_soon(follower.on_lost, copy_error(self._failure))
            return
        self._followers[session_id] = follower
        self._subscribe(session_id, follower)

    def unfollow(self, session_id: str) -> None:
        if self._followers.pop(session_id, None) is not None:
            self._post(msgspec.json.encode(requests.Unsubscribe(stream="session", id=session_id)))

    async def close(self) -> None:
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._fail_all(SessionClosed("this client was closed"))

    # -- connecting

    async def _connect_first(self) -> None:
        try:
            websocket = await self._connector.connect()
        except DragomanError as error:
            self._failure = error
            return
        self._task = asyncio.get_running_loop().create_task(self._run(websocket), name="dragoman connection")

    async def _run(self, websocket: ClientConnection) -> None:
        """Read messages, and reconnect whenever the WebSocket ends."""
        try:
            while True:
                try:
                    await self._use(websocket)
                finally:
                    await websocket.close()
                websocket = await self._reconnect()
        except DragomanError as error:
            self._fail_all(error)
        except Exception as error:
            logger.exception("a message of the server could not be handled")
            self._fail_all(DragomanError(f"a message of the server could not be handled: {error}"))

    async def _use(self, websocket: ClientConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        outgoing = self._outgoing = asyncio.Queue()
        sending = asyncio.get_running_loop().create_task(_send(websocket, outgoing), name="dragoman send")
        # Requests without an answer are sent again; the server does not carry out a command id twice.
        for session_id, follower in list(self._followers.items()):
            self._subscribe(session_id, follower)
        for pending in list(self._calls.values()):
            self._post(pending.data)
        try:
            async for message in websocket:
                self._read(message)
        except ConnectionClosed:
            pass
        finally:
            self._outgoing = None
            sending.cancel()
            await asyncio.wait([sending])

    async def _reconnect(self) -> ClientConnection:
        logger.info("the connection to %s is broken; reconnecting", self._connector.address.shown)
        give_up_at = self._clock.monotonic() + self._patience_s
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await self._connector.connect()
            except ServerUnreachable as error:
                if self._clock.monotonic() + pause_s > give_up_at:
                    raise ServerUnreachable(
                        f"the connection was lost and could not be restored within {self._patience_s:g} s: {error}"
                    ) from None
            # At random, so that not all clients of a restarted server come back at the same moment.
            await self._clock.sleep(pause_s * random.uniform(0.5, 1))  # noqa: S311
            pause_s = min(pause_s * 2, MAX_PAUSE_S)

    def _fail_all(self, error: DragomanError) -> None:
        """Fail all requests and followers."""
        self._failure = self._failure or error
        for pending in list(self._calls.values()):
            if not pending.result.done():
                pending.result.set_exception(copy_error(error))
        followers, self._followers = self._followers, {}
        for follower in followers.values():
            follower.on_lost(copy_error(error))

    # -- out

    def _post(self, data: bytes) -> None:
        """Send a message. Without a WebSocket it is dropped here: `_use` sends all that is open when there is one."""
        if self._outgoing is not None:
            self._outgoing.put_nowait(data)

    def _subscribe(self, session_id: str, follower: Follower) -> None:
        message = requests.Subscribe(stream="session", id=session_id, after=follower.cursor, frames=True)
        self._post(msgspec.json.encode(message))

    # -- in

    def _read(self, message: str | bytes) -> None:
        try:
            match _header_decoder.decode(message):
                case _Header(type="update", stream="session", id=str(session_id)):
                    if (follower := self._followers.get(session_id)) is not None:
                        follower.on_frames(_frames_decoder.decode(message))
                case _Header(type="result", id=str(request_id)):
                    if (pending := self._calls.get(request_id)) is not None and not pending.result.done():
                        pending.result.set_result(msgspec.json.decode(message, type=_Result).result)
                case _Header(type="error"):
                    self._on_error(msgspec.json.decode(message, type=ErrorMessage))
                case _Header(type="ended", stream="session", id=str(session_id)):
                    self._on_ended(session_id, msgspec.json.decode(message, type=StreamEnded))
                case _:
                    pass  # of a newer server
        except msgspec.MsgspecError:
            logger.exception("a message of the server cannot be read")

    def _on_error(self, message: ErrorMessage) -> None:
        details = message.error
        message_id = message.id or ""
        pending = self._calls.get(message_id)
        if details.kind == "too_fast" and message.id is not None:
            self._clock.call_later(details.retry_after or 1.0, partial(self._send_again, message.id))
        elif pending is not None and not pending.result.done():
            pending.result.set_exception(request_error(details))
        elif (follower := self._followers.pop(message_id, None)) is not None:
            follower.on_lost(request_error(details))
        else:
            logger.warning("the server could not read a message of ours: %s", details.message)

    def _send_again(self, message_id: str) -> None:
        """Send a request or a subscription again that the server did not accept."""
        if (pending := self._calls.get(message_id)) is not None:
            self._post(pending.data)
        elif (follower := self._followers.get(message_id)) is not None:
            self._subscribe(message_id, follower)

    def _on_ended(self, session_id: str, ended: StreamEnded) -> None:
        follower = self._followers.get(session_id)
        if follower is None:
            return
        if ended.kind is None:
            # It was deleted, which the next subscription reports; or the server stops, and with it this connection.
            self._clock.call_later(FIRST_PAUSE_S, partial(self._send_again, session_id))
            return
        del self._followers[session_id]
        follower.on_lost(ServerRefused(f"session {session_id}: {ended.reason}", kind=ended.kind))


def new_request_id() -> str:
    """A new id for a request or a command."""
    return f"call-{new_id()}"


async def _send(websocket: ClientConnection, outgoing: asyncio.Queue[bytes]) -> None:
    from websockets.exceptions import ConnectionClosed

    try:
        while True:
            await websocket.send(await outgoing.get(), text=True)
    except ConnectionClosed:
        pass  # the reader learns of it


# -- opening a WebSocket


class _HttpError(msgspec.Struct, frozen=True):
    """The body of an HTTP response that reports an error."""

    error: ErrorDetails


def socket_address(url: str) -> Address:
    """The WebSocket address of a server, from the URL that people use."""
    scheme, separator, rest = str(url).partition("://")
    if not separator or scheme not in _SCHEMES:
        raise InputError(f"the server's URL is {url!r}; it begins with http:// or https://", guidance=_EXAMPLE)
    parse_address(url, tuple(_SCHEMES))  # without a user, a password, a fragment
    return parse_address(f"{_SCHEMES[scheme]}://{rest.partition('?')[0].rstrip('/')}{PATH}", ("ws", "wss"))


class Connector:
    """Opens WebSockets to one server. `fingerprint` is that of a self-signed certificate."""

    def __init__(self, url: str, token: str, fingerprint: str | None = None) -> None:
        self.address = socket_address(url)
        if not isinstance(token, str) or not token.strip():
            raise InputError("a token is needed", guidance="On the server: dragoman token create NAME --scope prompt")
        self._headers = check_headers({"Authorization": f"Bearer {token.strip()}"})
        self._digest = _certificate_digest(fingerprint, self.address)
        self._tls = ssl.create_default_context() if self.address.scheme == "wss" else None

    async def connect(self) -> ClientConnection:
        """Open a WebSocket and check the server's first message. `ServerUnreachable` where a retry may help."""
        # Imported here: a program that imports `Client` and never uses it pays nothing.
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus, WebSocketException

        class Connect(connect):
            def process_redirect(self, exc: Exception) -> Exception:
                return exc  # not followed: the token is for the named host only

        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                if self._digest is not None:
                    self._tls = await self._pinned_context(self._digest)
                websocket = await Connect(
                    self.address.url,
                    additional_headers=self._headers,
                    ssl=self._tls,
                    max_size=None,
                    # Compression costs more than it saves where there is no network in between.
                    compression=None if self.address.is_loopback else "deflate",
                    proxy=None if self.address.is_loopback else True,
                    open_timeout=None,
                    ping_interval=SILENCE_TIMEOUT_S,
                    ping_timeout=SILENCE_TIMEOUT_S,
                    close_timeout=CLOSE_TIMEOUT_S,
                )
                try:
                    self._check_hello(await websocket.recv(decode=False))
                except BaseException:
                    websocket.transport.abort()
                    raise
                return websocket
        except InvalidStatus as refusal:
            raise self._http_error(refusal.response.status_code, bytes(refusal.response.body or b"")) from None
        except ssl.SSLCertVerificationError as error:
            raise InputError(
                f"the certificate of {self.address.shown} is not trusted: {error.verify_message}",
                guidance="Pass fingerprint=…, which `dragoman serve` prints on the server.",
            ) from None
        except TimeoutError:
            raise self._unreachable(f"no answer within {CONNECT_TIMEOUT_S:g} s") from None
        except (OSError, WebSocketException) as error:
            raise self._unreachable(str(error)) from None

    async def _pinned_context(self, digest: str) -> ssl.SSLContext:
        """A TLS context that trusts only the certificate with this digest.

        The certificate is fetched first: the token is sent with the first bytes of a connection and must not reach any
        other server.
        """
        parts = urlsplit(self.address.url)
        unverified = ssl.create_default_context()
        unverified.check_hostname = False
        unverified.verify_mode = ssl.CERT_NONE
        _, writer = await asyncio.open_connection(parts.hostname, parts.port or 443, ssl=unverified)
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        if hashlib.sha256(certificate).hexdigest() != digest:
            raise InputError(
                f"the certificate of {self.address.shown} does not have the given fingerprint",
                guidance="Compare it with the one that `dragoman serve` prints there; it changes once a year.",
            )
        context = ssl.create_default_context(cadata=certificate)
        context.check_hostname = False  # the digest identifies it, whatever names it has
        return context

    def _check_hello(self, message: bytes) -> None:
        try:
            hello = msgspec.json.decode(message, type=Hello)
        except msgspec.MsgspecError as error:
            raise self._unreachable(f"this is not a Dragoman server: {error}") from None
        if hello.protocol != PROTOCOL:
            older = "the server" if hello.protocol < PROTOCOL else "this Dragoman"
            raise InputError(
                f"the server at {self.address.shown} ({hello.version}) speaks protocol {hello.protocol}, we {PROTOCOL}",
                guidance=f"Update {older}.",
            )

    def _unreachable(self, reason: str) -> ServerUnreachable:
        return ServerUnreachable(
            f"cannot connect to {self.address.shown}: {reason}",
            guidance=f"Check that `dragoman serve` runs there, and the URL. {_EXAMPLE}",
        )

    def _http_error(self, status: int, body: bytes) -> DragomanError:
        try:
            error = request_error(msgspec.json.decode(body, type=_HttpError).error)
        except msgspec.MsgspecError:
            return self._unreachable(f"it answered with HTTP {status}: not a Dragoman server, or a busy one")
        if isinstance(error, ServerRefused) and error.kind == "unavailable":
            return self._unreachable(str(error))
        return error


def _certificate_digest(fingerprint: str | None, address: Address) -> str | None:
    if fingerprint is None:
        return None
    plain = fingerprint.replace(":", "").strip().lower()
    if address.scheme != "wss" or not _SHA256.fullmatch(plain):
        raise InputError(
            "fingerprint is the SHA-256 of a certificate, 32 bytes in hex, and only for https://",
            guidance="`dragoman serve --host 0.0.0.0` prints it.",
        )
    return plain
