"""One client's WebSocket: what it subscribes to, and what it wants done.

Each subscription is a task that makes its next message when it is its turn, and reads on from its cursor then: a client
that reads slowly, or not at all, costs a task for each, one message, and what the system's own buffers hold. What a
client says wrong is answered by an error that says what, and the socket stays.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any, Final

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from dragoman._version import __version__
from dragoman.bridge import asked, messages
from dragoman.bridge.bridge import Bridge
from dragoman.bridge.caller import Caller
from dragoman.bridge.messages import Ended, ErrorBody, Failure, Hello, Limits, Pong, Result
from dragoman.bridge.payload import Out
from dragoman.bridge.refusal import Refusal, refusal_of
from dragoman.errors import ConfigError

logger = logging.getLogger(__name__)

# An image of 20 MB, in base64, goes with a prompt.
MESSAGE_BYTES: Final = 32 * 1024 * 1024

# A person who types, and a page that asks for many things as it opens, stay far below.
MESSAGES_PER_SECOND: Final = 50
BURST: Final = 200

SUBSCRIPTIONS: Final = 64

# Characters of what is subscribed to. Ids of sessions and terminals are far shorter, and each is kept while it is.
STREAM_ID: Final = 500

# Controls of one client that are carried out at the same time; more are read when one of them is done.
AT_ONCE: Final = 16

# Sessions in the first list.
LISTED: Final = 200

CAPABILITIES: Final = ("frames", "history", "queue", "terminals", "questions")

_decoder: msgspec.json.Decoder[asked.FromClient] = msgspec.json.Decoder(asked.FromClient)
_encode = msgspec.json.Encoder().encode


class _Header(msgspec.Struct, frozen=True):
    """What is read of a message that cannot be read as a whole."""

    id: str | None = None
    type: str = ""


async def serve(websocket: WebSocket, bridge: Bridge, caller: Caller) -> None:
    """Until the client goes, or the bridge ends. The caller is known, and the socket not yet accepted."""
    await websocket.accept()
    bridge.metrics.sockets.add(1)
    socket = Socket(websocket, bridge, caller)
    try:
        await socket.run()
    finally:
        bridge.metrics.sockets.add(-1)


class Socket:
    def __init__(self, websocket: WebSocket, bridge: Bridge, caller: Caller) -> None:
        self._websocket = websocket
        self._bridge = bridge
        self._caller = caller
        self._sending = asyncio.Lock()
        self._turn = asyncio.Lock()  # of the streams: one at a time makes a message, and sends it
        self._streams: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._controls: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._allowance = float(BURST)
        self._counted = time.monotonic()

    async def run(self) -> None:
        try:
            await self._send(await self._hello())
            while (text := await self._receive()) is not None:
                await self._heard(text)
        except WebSocketDisconnect:
            pass
        finally:
            tasks = {*self._streams.values(), *self._controls}
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
            limits=Limits(
                message_bytes=MESSAGE_BYTES, messages_per_second=MESSAGES_PER_SECOND, subscriptions=SUBSCRIPTIONS
            ),
            time=time.time(),
        )

    # -- in and out

    async def _receive(self) -> bytes | None:
        """The next message; None when the client has gone."""
        event = await self._websocket.receive()
        if event["type"] == "websocket.disconnect":
            return None
        text = event.get("text")
        if text is None:
            return event.get("bytes") or b""
        return str(text).encode("utf-8", "replace")

    async def _send(self, message: Out | bytes) -> None:
        data = message if isinstance(message, bytes) else _encode(message)
        async with self._sending:
            if self._websocket.application_state is not WebSocketState.CONNECTED:
                raise WebSocketDisconnect
            try:
                await self._websocket.send_text(data.decode())
            except (RuntimeError, OSError) as problem:
                raise WebSocketDisconnect from problem  # it has gone meanwhile
        self._bridge.metrics.socket_messages.add(direction="out")

    # -- what the client says

    async def _heard(self, text: bytes) -> None:
        self._bridge.metrics.socket_messages.add(direction="in")
        try:
            self._check(text)
            said = _read(text)
        except Refusal as refusal:
            await self._send(Failure(id=_id_of(text), error=refusal.body))
            return
        match said:
            case asked.Ping():
                await self._send(Pong(time=time.time()))
            case asked.Subscribe():
                await self._subscribe(said)
            case asked.Unsubscribe():
                await self._unsubscribe(said.stream, said.id)
            case _:
                await self._room.acquire()
                try:
                    doing = self._bridge.begin(said, self._caller)  # now: the client may close right after it
                except Refusal as refusal:
                    self._room.release()
                    await self._send(Failure(id=said.id, error=refusal.body))
                else:
                    self._begin(self._answer(said, doing))

    def _check(self, text: bytes) -> None:
        now = time.monotonic()
        self._allowance = min(BURST, self._allowance + (now - self._counted) * MESSAGES_PER_SECOND)
        self._counted = now
        if self._allowance < 1:
            raise Refusal(
                "too_fast",
                f"more than {MESSAGES_PER_SECOND} messages a second",
                guidance="Wait a moment; nothing of this message was done.",
                retry_after=1 / MESSAGES_PER_SECOND,
            )
        self._allowance -= 1
        self._check_token()
        if len(text) > MESSAGE_BYTES:
            raise Refusal("too_large", f"a message may have {MESSAGE_BYTES} bytes; this one has {len(text)}")

    def _check_token(self) -> None:
        """It may have been revoked since the socket was opened: nothing more is done, or told, from then on."""
        try:
            good = self._bridge.tokens.holds(self._caller.token_id)
        except ConfigError:  # nobody knows which tokens are good
            good = False
        if not good:
            raise Refusal("unauthorized", "the token of this socket was revoked", guidance="Pair this device anew.")

    async def _answer(self, said: asked.Control, doing: asyncio.Task[Out]) -> None:
        try:
            try:
                result = await asyncio.shield(doing)
            except Refusal as refusal:
                await self._send(Failure(id=said.id, error=refusal.body))
            else:
                await self._send(Result(id=said.id, result=result))
        except WebSocketDisconnect:
            pass
        finally:
            self._room.release()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="dragoman control")
        self._controls.add(task)
        task.add_done_callback(self._controls.discard)

    # -- streams

    async def _subscribe(self, said: asked.Subscribe) -> None:
        """Subscribing again to the same begins it anew."""
        if len(said.id) > STREAM_ID:
            error = ErrorBody(kind="invalid", message=f"an id may have {STREAM_ID} characters", field="id")
            await self._send(Failure(id=None, error=error))
            return
        key = (said.stream, said.id)
        await self._unsubscribe(*key)
        if len(self._streams) >= SUBSCRIPTIONS:
            error = ErrorBody(kind="too_large", message=f"a socket may have {SUBSCRIPTIONS} subscriptions")
            await self._send(Failure(id=said.id or None, error=error))
            return
        task = asyncio.get_running_loop().create_task(self._stream(said), name=f"dragoman stream {said.stream}")
        self._streams[key] = task
        task.add_done_callback(lambda done: self._ended(key, done))

    def _ended(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        if self._streams.get(key) is task:
            del self._streams[key]

    async def _unsubscribe(self, stream: str, id_: str) -> None:
        task = self._streams.pop((stream, id_), None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _stream(self, said: asked.Subscribe) -> None:
        reason, kind = "the server has ended it", None
        try:
            async with aclosing(self._messages(said)) as found:
                async for message in found:
                    self._check_token()
                    await self._send(message)
                    del message  # else it would be kept while the next is waited for
        except WebSocketDisconnect:
            return
        except Exception as problem:
            refusal = refusal_of(problem)
            if refusal.body.kind == "internal":
                logger.exception("the stream %s failed", said.stream)
            reason, kind = refusal.body.message, refusal.body.kind
        try:
            await self._send(Ended(stream=said.stream, id=said.id, reason=reason, kind=kind))
        except WebSocketDisconnect:
            pass

    def _messages(self, said: asked.Subscribe) -> AsyncGenerator[bytes | Out, None]:
        feeds = self._bridge.feeds
        match said.stream:
            case "session" if said.frames:
                self._caller.require("prompt", "reading frames")
                return feeds.follow_frames(said.id, said.after, self._turn)
            case "session":
                limit = min(max(said.limit, 1), 5000)
                return feeds.follow(said.id, said.after, limit, self._turn)
            case "sessions":
                return self._sessions()
            case "permissions":
                return self._waiting()
            case "terminal":
                return self._terminal(said)
            case "agents":
                return self._agents()

    async def _sessions(self) -> AsyncGenerator[bytes | Out, None]:
        listing, journal = self._bridge.feeds.listing, self._bridge.hub.journal
        async with self._turn:
            number = listing.number
            sessions, more = listing.latest(LISTED)
            yield messages.SessionsSnapshot(cursor=await journal.cursor(), sessions=tuple(sessions), more=more)
        while True:
            await listing.wait(number)
            async with self._turn:
                changed, removed = listing.since(number)
                number = listing.number
                yield messages.SessionsUpdate(cursor=f"n{number}", changed=tuple(changed), removed=tuple(removed))

    async def _waiting(self) -> AsyncGenerator[bytes | Out, None]:
        listing = self._bridge.feeds.listing
        async with self._turn:
            number = listing.waiting_number
            yield messages.PermissionsSnapshot(cursor=f"w{number}", waiting=tuple(listing.waiting()))
        while True:
            await listing.wait(number, waiting=True)
            async with self._turn:
                number = listing.waiting_number
                yield messages.PermissionsUpdate(cursor=f"w{number}", waiting=tuple(listing.waiting()))

    async def _agents(self) -> AsyncGenerator[bytes | Out, None]:
        agents = self._bridge.agents
        async with self._turn:
            number = agents.number
            yield messages.AgentsSnapshot(cursor=f"a{number}", agents=await agents.listed())
        while True:
            await agents.wait(number)
            async with self._turn:
                number = agents.number
                yield messages.AgentsUpdate(cursor=f"a{number}", agents=await agents.listed())

    async def _terminal(self, said: asked.Subscribe) -> AsyncGenerator[bytes | Out, None]:
        terminal, row = self._bridge.terminal(said.id)
        after = int(said.after) if said.after is not None and re.fullmatch(r"[0-9]{1,15}", said.after) else 0
        first = True
        async for chunk in terminal.follow(after):
            data = base64.b64encode(chunk.data).decode()
            if first:
                first = False
                yield messages.TerminalSnapshot(
                    id=said.id,
                    cursor=str(chunk.end),
                    offset=chunk.offset,
                    data=data,
                    terminal=row,
                    typable=terminal.has_pty,
                    ended=False,
                )
            else:
                yield messages.TerminalUpdate(
                    id=said.id, cursor=str(chunk.end), offset=chunk.offset, data=data, ended=False
                )
        end = terminal.total_bytes
        if first:
            yield messages.TerminalSnapshot(
                id=said.id, cursor=str(end), offset=end, data="", terminal=row, typable=False, ended=True
            )
        else:
            yield messages.TerminalUpdate(id=said.id, cursor=str(end), offset=end, data="", ended=True)


def _read(text: bytes) -> asked.FromClient:
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        field = str(problem).partition("`$.")[2].partition("`")[0] or None
        raise Refusal("invalid", f"this message cannot be read: {problem}", field=field) from None


def _id_of(text: bytes) -> str | None:
    try:
        return msgspec.json.decode(text, type=_Header).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
