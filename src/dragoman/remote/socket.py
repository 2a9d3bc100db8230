"""One WebSocket to a server, kept up: calls that are answered, and sessions that are followed.

Promised: a call is done once, though the connection breaks while it is under way; a session is followed from where it
was, without a gap. While the connection is gone both wait; when it cannot be had again in time, both are told.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from dragoman.bridge import asked
from dragoman.bridge.messages import Ended, Failure, FramesUpdate
from dragoman.bridge.payload import Out
from dragoman.errors import DragomanError, ServerRefused, ServerUnreachable, SessionClosed
from dragoman.remote.connecting import Connecting
from dragoman.remote.refused import error_of
from dragoman.session.lifecycle import CloseOnce
from dragoman.session.session import new_id
from dragoman.wire.connection import copy_error

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Out)

# Seconds before the first and between the last tries to connect again: a server that restarts is back in a second or
# two, and one that is away for longer is not to be called at all the time.
FIRST_PAUSE: Final = 0.05
LAST_PAUSE: Final = 3.0


class Follower(Protocol):
    """A session that is followed. `cursor` is where it goes on when the connection is there again."""

    @property
    def cursor(self) -> str | None: ...
    def heard(self, update: FramesUpdate) -> None: ...
    def lost(self, problem: DragomanError) -> None:
        """Nothing more will be heard."""


class _Heard(msgspec.Struct, frozen=True):
    """What is read of every message."""

    type: str
    id: str | None = None
    stream: str | None = None


class _Result(msgspec.Struct, frozen=True):
    result: msgspec.Raw


class _Call(msgspec.Struct, frozen=True):
    data: bytes
    answered: asyncio.Future[msgspec.Raw]


_heard: Final = msgspec.json.Decoder(_Heard)
_frames: Final = msgspec.json.Decoder(FramesUpdate)


class Socket:
    """`patience`: seconds that a connection which broke is tried to be had again."""

    def __init__(self, url: str, token: str, *, fingerprint: str | None = None, patience: float = 60.0) -> None:
        self._connecting = Connecting(url, token, fingerprint)
        self._patience = patience
        self._begin = CloseOnce(self._connect_first, "dragoman connects")
        self._closed = False
        self._problem: DragomanError | None = None
        self._outgoing: asyncio.Queue[bytes] | None = None  # of the connection that stands
        self._calls: dict[str, _Call] = {}
        self._followers: dict[str, Follower] = {}
        self._keeping: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._outgoing is not None

    async def start(self) -> None:
        """Connects, once. Raises why it cannot."""
        if self._closed:
            raise SessionClosed("this client is closed", guidance="Make a new Client.")
        await self._begin()
        if self._problem is not None:
            raise copy_error(self._problem)

    async def call(self, control: asked.Control, answer: type[T]) -> T:
        """Has it done, and returns what it is answered with. With a `command_id` it is done once, whatever happens."""
        await self.start()
        waiting = _Call(msgspec.json.encode(control), asyncio.get_running_loop().create_future())
        self._calls[control.id] = waiting
        self._post(waiting.data)
        try:
            return msgspec.json.decode(await waiting.answered, type=answer)
        finally:
            del self._calls[control.id]

    def follow(self, session_id: str, follower: Follower) -> None:
        """From now on it is told of the session's frames, until `leave`."""
        if self._problem is not None:
            asyncio.get_running_loop().call_soon(follower.lost, copy_error(self._problem))
            return
        self._followers[session_id] = follower
        self._subscribe(session_id, follower)

    def leave(self, session_id: str) -> None:
        if self._followers.pop(session_id, None) is not None:
            self._post(msgspec.json.encode(asked.Unsubscribe(stream="session", id=session_id)))

    async def close(self) -> None:
        self._closed = True
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        self._over(SessionClosed("this client was closed"))

    # -- the connection

    async def _connect_first(self) -> None:
        try:
            socket = await self._connecting.connect()
        except DragomanError as problem:
            self._problem = problem
            return
        self._keeping = asyncio.get_running_loop().create_task(self._keep_up(socket), name="dragoman socket")

    async def _keep_up(self, socket: ClientConnection) -> None:
        """Reads what comes, and connects again whenever that ends."""
        try:
            while True:
                try:
                    await self._serve(socket)
                finally:
                    await socket.close()
                socket = await self._connect_again()
        except DragomanError as problem:
            self._over(problem)
        except Exception as defect:
            logger.exception("what the server said could not be followed")
            self._over(DragomanError(f"what the server said could not be followed: {defect}"))

    async def _serve(self, socket: ClientConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        outgoing = self._outgoing = asyncio.Queue()
        sending = asyncio.get_running_loop().create_task(_send(socket, outgoing), name="dragoman sends")
        # What was under way, or is followed, is said anew. What was done of it is not done again.
        for session_id, follower in list(self._followers.items()):
            self._subscribe(session_id, follower)
        for waiting in list(self._calls.values()):
            self._post(waiting.data)
        try:
            async for message in socket:
                self._read(message if isinstance(message, bytes) else message.encode())
        except ConnectionClosed:
            pass
        finally:
            self._outgoing = None
            sending.cancel()
            await asyncio.wait([sending])

    async def _connect_again(self) -> ClientConnection:
        logger.info("the connection to %s is gone; connecting again", self._connecting.address.shown)
        ends = time.monotonic() + self._patience
        pause = FIRST_PAUSE
        while True:
            try:
                return await self._connecting.connect()
            except ServerUnreachable as problem:
                if time.monotonic() + pause > ends:
                    raise ServerUnreachable(
                        f"the connection was lost, and could not be had again within {self._patience:g} s: {problem}"
                    ) from None
            # Not all clients of a server that comes back at the same moment.
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311
            pause = min(pause * 2, LAST_PAUSE)

    def _over(self, problem: DragomanError) -> None:
        """All who wait are told."""
        self._problem = self._problem or problem
        for waiting in list(self._calls.values()):
            if not waiting.answered.done():
                waiting.answered.set_exception(copy_error(problem))
        followers, self._followers = self._followers, {}
        for follower in followers.values():
            follower.lost(copy_error(problem))

    # -- what is said

    def _post(self, data: bytes) -> None:
        """Without a connection it waits with what it is about, and is said when there is one."""
        if self._outgoing is not None:
            self._outgoing.put_nowait(data)

    def _subscribe(self, session_id: str, follower: Follower) -> None:
        said = asked.Subscribe(stream="session", id=session_id, after=follower.cursor, frames=True)
        self._post(msgspec.json.encode(said))

    # -- what is heard

    def _read(self, message: bytes) -> None:
        try:
            head = _heard.decode(message)
            match head:
                case _Heard(type="update", stream="session", id=str(session_id)):
                    if (follower := self._followers.get(session_id)) is not None:
                        follower.heard(_frames.decode(message))
                case _Heard(type="result", id=str(call_id)):
                    if (waiting := self._calls.get(call_id)) is not None and not waiting.answered.done():
                        waiting.answered.set_result(msgspec.json.decode(message, type=_Result).result)
                case _Heard(type="error"):
                    self._failed(msgspec.json.decode(message, type=Failure))
                case _Heard(type="ended", stream="session", id=str(session_id)):
                    self._ended(session_id, msgspec.json.decode(message, type=Ended))
                case _:
                    pass  # of a newer server
        except msgspec.MsgspecError:
            logger.exception("a message of the server cannot be read")

    def _failed(self, failure: Failure) -> None:
        body = failure.error
        waiting = self._calls.get(failure.id or "")
        follower = self._followers.get(failure.id or "")
        if body.kind == "too_fast" and failure.id is not None:
            asyncio.get_running_loop().call_later(body.retry_after or 1.0, self._again, failure.id)
        elif waiting is not None and not waiting.answered.done():
            waiting.answered.set_exception(error_of(body))
        elif follower is not None:
            del self._followers[failure.id or ""]
            follower.lost(error_of(body))
        else:
            logger.warning("the server could not read something that we said: %s", body.message)

    def _again(self, id_: str) -> None:
        """A call, or a session, that the server did not take."""
        if (waiting := self._calls.get(id_)) is not None:
            self._post(waiting.data)
        elif (follower := self._followers.get(id_)) is not None:
            self._subscribe(id_, follower)

    def _ended(self, session_id: str, ended: Ended) -> None:
        follower = self._followers.get(session_id)
        if follower is None:
            return
        if ended.kind is None:
            # It was deleted, which the next try tells; or the server ends, and with it this connection.
            asyncio.get_running_loop().call_later(FIRST_PAUSE, self._again, session_id)
            return
        del self._followers[session_id]
        follower.lost(ServerRefused(f"session {session_id}: {ended.reason}", kind=ended.kind))


def new_call() -> str:
    """An id for a call, or for a command."""
    return f"call-{new_id()}"


async def _send(socket: ClientConnection, outgoing: asyncio.Queue[bytes]) -> None:
    from websockets.exceptions import ConnectionClosed

    try:
        while True:
            await socket.send(await outgoing.get(), text=True)
    except ConnectionClosed:
        pass  # who reads learns of it
