"""One client's WebSocket: its subscriptions and its requests.

Each subscription is a task that builds its next message when the socket is free, and continues from its cursor then: a
client that reads slowly, or not at all, costs one task per subscription, one message, and the system's own buffers. A
message that the server cannot read is answered by an error, and the socket stays open.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from dragoman._version import __version__
from dragoman.bridge.auth import Caller
from dragoman.bridge.bridge import Bridge
from dragoman.bridge.refusal import Refusal, refusal_of
from dragoman.bridge.rows import row_model
from dragoman.protocol import messages, models, requests
from dragoman.protocol.messages import ErrorMessage, Hello, Pong, ResultMessage, SocketLimits, StreamEnded, includes
from dragoman.protocol.models import Model

logger = logging.getLogger(__name__)

# A prompt with an image of 20 MB, in base64.
MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024

# A person who types, and a page that sends many requests when it opens, stay far below.
MAX_MESSAGES_PER_SECOND: Final = 50
MAX_BURST: Final = 200

MAX_SUBSCRIPTIONS: Final = 64

# Ids of sessions and terminals are far shorter, and each is kept as long as its subscription.
MAX_STREAM_ID_CHARS: Final = 500

# Requests of one client that are carried out at the same time; the next one is read when one of them is done.
MAX_CONCURRENT_REQUESTS: Final = 16

# Sessions in the first snapshot of the list, and rows in a snapshot of a session.
LISTED_SESSIONS: Final = 200
MAX_SNAPSHOT_ROWS: Final = 5000

# Scope that a client needs to type into a terminal.
TYPING_SCOPE: Final = requests.REQUESTS[requests.TerminalInput].scope

CAPABILITIES: Final = ("frames", "history", "queue", "terminals", "questions")

_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(requests.FROM_CLIENT)
_encode = msgspec.json.Encoder().encode


class _Header(msgspec.Struct, frozen=True):
    """The part that is read of a message that cannot be read as a whole."""

    id: str | None = None
    type: str = ""


async def serve_socket(websocket: WebSocket, bridge: Bridge, caller: Caller) -> None:
    """Serve a socket that is not accepted yet, until the client disconnects or the bridge closes."""
    await websocket.accept()
    bridge.metrics.sockets.inc()
    try:
        await Socket(websocket, bridge, caller).run()
    finally:
        bridge.metrics.sockets.dec()


class Socket:
    def __init__(
        self, websocket: WebSocket, bridge: Bridge, caller: Caller, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._websocket = websocket
        self._bridge = bridge
        self._caller = caller
        self._clock = clock
        self._sending = asyncio.Lock()
        self._stream_lock = asyncio.Lock()  # one stream at a time builds a message and sends it
        self._streams: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._requests: set[asyncio.Task[None]] = set()
        self._request_slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
        self._allowance = float(MAX_BURST)
        self._allowance_at = clock()
        self._messages_in = bridge.metrics.socket_messages.labels(direction="in")
        self._messages_out = bridge.metrics.socket_messages.labels(direction="out")

    async def run(self) -> None:
        try:
            try:
                await self._send(await self._hello())
            except Refusal as refusal:
                await self._send_error(None, refusal)
            while (text := await self._receive()) is not None:
                try:
                    await self._handle(text)
                except Refusal as refusal:
                    await self._send_error(_id_of(text), refusal)
        except WebSocketDisconnect:
            pass
        finally:
            tasks = {*self._streams.values(), *self._requests}
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _hello(self) -> Hello:
        journal = self._bridge.hub.journal
        return Hello(
            version=__version__,
            protocol=messages.PROTOCOL,
            journal=journal.name,
            cursor=await journal.cursor(),
            scope=self._caller.scope,
            capabilities=CAPABILITIES,
            limits=SocketLimits(
                message_bytes=MAX_MESSAGE_BYTES,
                messages_per_second=MAX_MESSAGES_PER_SECOND,
                subscriptions=MAX_SUBSCRIPTIONS,
            ),
            time=time.time(),
        )

    # -- in and out

    async def _receive(self) -> str | bytes | None:
        """The next message; None when the client has disconnected."""
        event = await self._websocket.receive()
        if event["type"] == "websocket.disconnect":
            return None
        text: str | None = event.get("text")
        return text if text is not None else event.get("bytes") or b""

    async def _send(self, message: Model | bytes, *, allow_revoked: bool = False) -> None:
        """Send a message. A `Refusal` where the token was revoked, also while the message waited for the socket."""
        data = message if isinstance(message, bytes) else _encode(message)
        async with self._sending:
            if self._websocket.application_state is not WebSocketState.CONNECTED:
                raise WebSocketDisconnect
            if not allow_revoked:
                self._check_token()
            try:
                await self._websocket.send_text(data.decode())  # browsers want text messages
            except (RuntimeError, OSError) as error:
                raise WebSocketDisconnect from error  # it has disconnected meanwhile
        self._messages_out.inc()

    async def _send_error(self, request_id: str | None, refusal: Refusal) -> None:
        """Refuse a message. The client of a revoked token learns that it was revoked, and nothing of the request."""
        try:
            self._check_token()
        except Refusal as revocation:
            refusal = revocation
        await self._send(ErrorMessage(id=request_id, error=refusal.details), allow_revoked=True)

    # -- messages of the client

    async def _handle(self, text: str | bytes) -> None:
        self._messages_in.inc()
        self._check(text)
        message = _read(text)
        match message:
            case requests.Ping():
                await self._send(Pong(time=time.time()))
            case requests.Subscribe():
                await self._subscribe(message)
            case requests.Unsubscribe():
                await self._unsubscribe(message.stream, message.id)
            case requests.Request():
                await self._begin(message)
            case _:
                raise AssertionError(f"{message} is no message of a client")

    async def _begin(self, request: requests.Request[Any]) -> None:
        await self._request_slots.acquire()
        try:
            execution = self._bridge.begin(request, self._caller)  # now: the client may disconnect right after it
        except Refusal:
            self._request_slots.release()
            raise
        self._start(self._answer(request, execution))

    def _check(self, text: str | bytes) -> None:
        now = self._clock()
        refill = (now - self._allowance_at) * MAX_MESSAGES_PER_SECOND
        self._allowance = min(MAX_BURST, self._allowance + refill)
        self._allowance_at = now
        if self._allowance < 1:
            raise Refusal(
                "too_fast",
                f"more than {MAX_MESSAGES_PER_SECOND} messages per second",
                guidance="Wait a moment; this message had no effect.",
                retry_after=1 / MAX_MESSAGES_PER_SECOND,
            )
        self._allowance -= 1
        self._check_token()
        size = len(text) if isinstance(text, bytes) or text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size > MAX_MESSAGE_BYTES:
            raise Refusal("too_large", f"a message has at most {MAX_MESSAGE_BYTES} bytes; this one has {size}")

    def _check_token(self) -> None:
        """Refuse to read or send anything more once the socket's token was revoked."""
        caller = self._caller
        if not self._bridge.tokens.has(caller.token_id, caller.digest, caller.scope):
            raise Refusal("unauthorized", "the token of this socket was revoked", guidance="Pair this device again.")

    async def _answer(self, request: requests.Request[Any], execution: asyncio.Task[Model]) -> None:
        revokes_itself = isinstance(request, requests.TokenRevoke) and request.token_id == self._caller.token_id
        try:
            try:
                result = await asyncio.shield(execution)
                await self._send(ResultMessage(id=request.id, result=result), allow_revoked=revokes_itself)
            except Refusal as refusal:
                await self._send_error(request.id, refusal)
        except WebSocketDisconnect:
            pass
        finally:
            self._request_slots.release()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="dragoman request")
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    # -- streams

    async def _subscribe(self, subscription: requests.Subscribe) -> None:
        """Start a stream; one that is subscribed already is started again."""
        if len(subscription.id) > MAX_STREAM_ID_CHARS:
            await self._send_error(
                None, Refusal("invalid", f"an id has at most {MAX_STREAM_ID_CHARS} characters", field="id")
            )
            return
        key = (subscription.stream, subscription.id)
        await self._unsubscribe(*key)
        if len(self._streams) >= MAX_SUBSCRIPTIONS:
            refusal = Refusal("too_large", f"a socket has at most {MAX_SUBSCRIPTIONS} subscriptions")
            await self._send_error(subscription.id or None, refusal)
            return
        task = asyncio.get_running_loop().create_task(
            self._stream(subscription), name=f"dragoman stream {subscription.stream}"
        )
        self._streams[key] = task
        task.add_done_callback(lambda done: self._on_stream_done(key, done))

    def _on_stream_done(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        if self._streams.get(key) is task:
            del self._streams[key]

    async def _unsubscribe(self, stream: str, stream_id: str) -> None:
        task = self._streams.pop((stream, stream_id), None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _stream(self, subscription: requests.Subscribe) -> None:
        reason, kind = "The server ended the stream.", None
        try:
            async with aclosing(self._messages(subscription)) as stream:
                async for message in stream:
                    await self._send(message)
                    del message  # or it would stay in memory while the next one is awaited
        except WebSocketDisconnect:
            return
        except Exception as error:
            refusal = refusal_of(error)
            if refusal.details.kind == "internal":
                logger.exception("the stream %s failed", subscription.stream)
            reason, kind = refusal.details.message, refusal.details.kind
        try:
            ended = StreamEnded(stream=subscription.stream, id=subscription.id, reason=reason, kind=kind)
            await self._send(ended, allow_revoked=True)
        except WebSocketDisconnect:
            pass

    def _messages(self, subscription: requests.Subscribe) -> AsyncGenerator[bytes | Model, None]:
        match subscription.stream:
            case "session":
                return self._session(subscription)
            case "sessions":
                return self._sessions()
            case "permissions":
                return self._permissions()
            case "terminal":
                return self._terminal(subscription)
            case "agents":
                return self._agents()

    async def _session(self, subscription: requests.Subscribe) -> AsyncGenerator[bytes | Model, None]:
        broadcaster = self._bridge.broadcaster
        if subscription.frames:
            self._caller.require("prompt", "reading frames")
            stream = broadcaster.follow_frames(subscription.id, subscription.after, self._stream_lock)
        else:
            limit = min(max(subscription.limit, 1), MAX_SNAPSHOT_ROWS)
            stream = broadcaster.follow(subscription.id, subscription.after, limit, self._stream_lock)
        async with aclosing(stream):
            async for message in stream:
                yield message.data
                del message  # or it would stay in memory while the next one is awaited

    async def _sessions(self) -> AsyncGenerator[bytes | Model, None]:
        listing, journal = self._bridge.broadcaster.listing, self._bridge.hub.journal
        async with self._stream_lock:
            number = listing.number
            sessions, more = listing.latest(LISTED_SESSIONS)
            yield messages.SessionsSnapshot(cursor=await journal.cursor(), sessions=tuple(sessions), more=more)
        while True:
            await listing.wait(number)
            async with self._stream_lock:
                changed, removed = listing.since(number)
                number = listing.number
                yield messages.SessionsUpdate(cursor=f"n{number}", changed=tuple(changed), removed=tuple(removed))

    async def _permissions(self) -> AsyncGenerator[bytes | Model, None]:
        listing = self._bridge.broadcaster.listing
        async with self._stream_lock:
            number = listing.pending_number
            yield self._bridge.pending()
        while True:
            await listing.wait_for_pending(number)
            async with self._stream_lock:
                number = listing.pending_number
                yield messages.PermissionsUpdate(cursor=f"w{number}", pending=tuple(listing.pending()))

    async def _agents(self) -> AsyncGenerator[bytes | Model, None]:
        agents = self._bridge.agents
        async with self._stream_lock:
            number = agents.number
            yield messages.AgentsSnapshot(cursor=f"a{number}", agents=await agents.items())
        while True:
            await agents.wait(number)
            async with self._stream_lock:
                number = agents.number
                yield messages.AgentsUpdate(cursor=f"a{number}", agents=await agents.items())

    async def _terminal(self, subscription: requests.Subscribe) -> AsyncGenerator[bytes | Model, None]:
        session_id, _, terminal_id = subscription.id.partition("/")
        terminal = self._bridge.services.terminal(session_id, terminal_id)
        row = self._terminal_row(session_id, terminal_id)
        after = subscription.after or ""
        is_first = True
        async for chunk in terminal.follow(int(after) if re.fullmatch(r"[0-9]{1,15}", after) else 0):
            data = base64.b64encode(chunk.data).decode()
            if is_first:
                is_first = False
                yield messages.TerminalSnapshot(
                    id=subscription.id,
                    cursor=str(chunk.end),
                    offset=chunk.offset,
                    data=data,
                    terminal=row,
                    accepts_input=terminal.has_pty and includes(self._caller.scope, TYPING_SCOPE),
                    ended=False,
                )
            else:
                yield messages.TerminalUpdate(
                    id=subscription.id, cursor=str(chunk.end), offset=chunk.offset, data=data, ended=False
                )
        end = terminal.total_bytes
        if is_first:
            yield messages.TerminalSnapshot(
                id=subscription.id,
                cursor=str(end),
                offset=end,
                data="",
                terminal=row,
                accepts_input=False,
                ended=True,
            )
        else:
            yield messages.TerminalUpdate(id=subscription.id, cursor=str(end), offset=end, data="", ended=True)

    def _terminal_row(self, session_id: str, terminal_id: str) -> models.Terminal | None:
        owned = self._bridge.hub.owned_sessions.get(session_id)
        if owned is None or owned.session is None:
            return None
        row = owned.session.fold.terminals.by_terminal_id(terminal_id)
        model = row_model(row) if row is not None else None
        return model if isinstance(model, models.Terminal) else None


def _read(text: str | bytes) -> requests.FromClient:
    try:
        message: requests.FromClient = _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        field = str(error).partition("`$.")[2].partition("`")[0] or None
        raise Refusal("invalid", f"this message cannot be read: {error}", field=field) from None
    if isinstance(message, requests.Request) and not message.id:
        raise Refusal("invalid", "this message cannot be read: a request needs an id", field="id")
    return message


def _id_of(text: str | bytes) -> str | None:
    try:
        return msgspec.json.decode(text, type=_Header).id
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
