"""A peer on a transport: the one reader of a link, and everything that is written to it.

Promised: messages are handed to the handler one by one in the order of the wire, an answer only after
everything that came before it. While the handler is not `ready` nothing more is read, so a slow
consumer slows the other side instead of filling our memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from dragoman.errors import (
    AUTHENTICATION_REQUIRED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    AuthenticationRequired,
    Cancelled,
    DragomanError,
    InvalidFrame,
    RequestFailed,
    RequestTimeout,
)
from dragoman.wire.framing import DEFAULT_LINE_LIMIT
from dragoman.wire.messages import (
    UNREADABLE,
    Message,
    Notification,
    OutgoingMessage,
    Oversized,
    Reply,
    Request,
    RequestId,
    RpcError,
    Update,
)
from dragoman.wire.outline import outline
from dragoman.wire.peer import Peer
from dragoman.wire.transport import Transport

# Requests of the other side that we serve at the same time. An agent that asks more is not read until
# some are answered; none has been seen to ask more than a handful.
MAX_SERVED = 256

# Stands for an answer that we could not read; outside of what JSON-RPC reserves, so that no agent means it.
UNREADABLE_ANSWER = 1

_NULL = msgspec.Raw(b"null")
_CANCELLED = RpcError(REQUEST_CANCELLED, "cancelled")


class RpcRefusal(Exception):
    """Raised by `Handler.serve` to answer a request with this error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error = RpcError(code, message, data)


class Handler(Protocol):
    """Whom a connection tells what it hears. All but `serve`, `ready` and `ended` must not block."""

    def received(self, messages: Sequence[Message], at: float) -> None:
        """Messages that came in together, in wire order; each message of a connection exactly once."""

    def sending(self, message: OutgoingMessage, at: float) -> None:
        """Take note of a message that is about to be written. Its `line` has no newline."""

    async def serve(self, request: Request) -> object:
        """Answers a request; an `RpcRefusal` answers it with an error. May be cancelled by the other side."""

    async def ready(self) -> None:
        """Returns when more may be read."""

    async def ended(self) -> DragomanError:
        """The stream is over: the error that all who still wait for an answer shall get."""


class Call:
    """A request under way. `id` is known at once; the answer comes by `result`."""

    def __init__(self, request_id: RequestId, method: str, answer: asyncio.Future[Reply]) -> None:
        self.id = request_id
        self.method = method
        self.answer = answer


class _Serving:
    """A request of the other side's without an answer yet."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.begun = False
        self.withdrawn = False


class Connection:
    def __init__(
        self,
        transport: Transport,
        handler: Handler,
        *,
        line_limit: int = DEFAULT_LINE_LIMIT,
        clock: Callable[[], float] = time.time,
        gone: Callable[[], Coroutine[Any, Any, object]] | None = None,
        kept: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`gone()` returns when the other side has ended, for transports that know before all of it was read.

        `kept()` returns when all that the handler has heard and said so far is kept for good. With it nothing is
        written before it is kept, and no answer or request is passed on before.
        """
        self._transport = transport
        self._handler = handler
        self._clock = clock
        self._peer = Peer(line_limit=line_limit)
        self._calls: dict[RequestId, Call] = {}
        self._gone = gone
        self._kept = kept
        self._unwritten: list[bytes] = []  # said, and not kept yet
        self._writing: asyncio.Task[None] | None = None
        self._unanswered: dict[RequestId, _Serving] = {}  # their requests: these they may still take back
        self._served: set[asyncio.Task[None]] = set()  # the same, until their answers have left
        self._room = asyncio.Event()  # set while fewer than MAX_SERVED requests are being served
        self._room.set()
        self._finishing = False
        self._end: DragomanError | None = None
        self._broken: DragomanError | None = None  # what was said or heard could not be kept
        self._reader = asyncio.get_running_loop().create_task(self._read(), name="dragoman reader")

    # -- asking

    @property
    def waiting_methods(self) -> list[str]:
        """The methods of our requests that have no answer yet."""
        return [call.method for call in self._calls.values()]

    def call(self, method: str, params: object) -> Call:
        """Sends a request at once; the answer is awaited with `result`."""
        if self._end is not None:
            raise fresh(self._end)
        request = self._peer.request(method, params)
        call = Call(request.id, method, asyncio.get_running_loop().create_future())
        self._calls[request.id] = call
        self._send(request)
        return call

    async def result(self, call: Call, *, timeout: float | None = None) -> msgspec.Raw:
        """The call's result. A caller that gives up, by time or by cancellation, cancels the request."""
        try:
            async with asyncio.timeout(timeout):
                await self.drain()
                reply = await asyncio.shield(call.answer)
        except TimeoutError:
            self._abandon(call)
            raise RequestTimeout(
                f"the agent did not answer {call.method} within {timeout:g} s", method=call.method
            ) from None
        except asyncio.CancelledError:
            self._abandon(call)
            raise
        if reply.error is not None:
            raise error_of_reply(call.method, reply.error)
        return reply.result

    async def request(self, method: str, params: object, *, timeout: float | None = None) -> msgspec.Raw:
        return await self.result(self.call(method, params), timeout=timeout)

    def notify(self, method: str, params: object) -> None:
        if self._end is None:
            self._send(self._peer.notify(method, params))

    async def drain(self) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._transport.drain()

    def _abandon(self, call: Call) -> None:
        if self._calls.pop(call.id, None) is not None:
            self._peer.forget(call.id)
            self.notify("$/cancel_request", {"requestId": call.id})
        if not call.answer.done():
            call.answer.cancel()

    def _send(self, message: OutgoingMessage) -> None:
        self._handler.sending(message, self._clock())
        line = message.line + b"\n"
        if self._kept is None:
            self._transport.write(line)
            return
        self._unwritten.append(line)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_kept(), name="dragoman writer")

    async def _write_kept(self) -> None:
        assert self._kept is not None
        try:
            while self._unwritten:
                lines, self._unwritten = self._unwritten, []
                await self._kept()
                for line in lines:
                    self._transport.write(line)
        except DragomanError as problem:
            # What could not be kept is not said. Whoever waits for an answer learns why.
            self._unwritten.clear()
            self._broken = problem
            self._reader.cancel()
        finally:
            self._writing = None

    # -- hearing

    async def _read(self) -> None:
        try:
            while data := await self._transport.read():
                await self._hear(self._peer.feed(data))
                await self._handler.ready()
                if not self._room.is_set():
                    await self._wait_for_room()
            await self._hear(self._peer.finish())
        except DragomanError as problem:
            self._broken = problem  # it could not be kept: nobody is told of what was read, and no more is read
        except asyncio.CancelledError:
            if self._broken is None:
                raise
        finally:
            await self._finish()

    async def _hear(self, messages: list[Message]) -> None:
        if not messages:
            return
        self._handler.received(messages, self._clock())
        if self._kept is not None:
            await self._kept()
        self._pass_on(messages)

    async def _wait_for_room(self) -> None:
        """Also over when the other side has ended: what it still wrote is little, and its end must be heard of."""
        await first_of(self._room.wait(), *([self._gone()] if self._gone is not None else []))

    def _pass_on(self, messages: Sequence[Message]) -> None:
        """Answers and requests only wake tasks, which run after this: the handler has then heard all of it."""
        for message in messages:
            if type(message) is Update:
                continue
            match message:
                case Reply():
                    call = self._calls.pop(message.id, None)
                    if call is not None and not call.answer.done():
                        call.answer.set_result(message)
                case Request():
                    self._serve(message)
                case Notification(method="$/cancel_request"):
                    self._cancel_served(message.params)
                case Oversized():
                    self._unread(message)
                case _:
                    pass

    def _unread(self, oversized: Oversized) -> None:
        """Nobody must wait for ever for what was too long to read: an error stands in for an answer, or answers."""
        told = outline(oversized)
        if told is None:
            return
        if told.method is not None:
            reason = f"{told.method}: the request has {oversized.length} bytes, over the line limit of this side"
            self._send(self._peer.refuse_unread(told.id, told.method, RpcError(INVALID_REQUEST, reason)))
        elif (call := self._calls.get(told.id)) is not None:
            self._peer.forget(call.id)
            reason = f"the answer has {oversized.length} bytes, over the line limit"
            stand_in = [Reply(call.id, call.method, _NULL, RpcError(UNREADABLE_ANSWER, reason), b"")]
            self._handler.received(stand_in, self._clock())
            self._pass_on(stand_in)

    def _serve(self, request: Request) -> None:
        serving = _Serving()
        self._unanswered[request.id] = serving
        task = asyncio.get_running_loop().create_task(self._answer(request, serving), name=f"dragoman {request.method}")
        serving.task = task
        self._served.add(task)
        task.add_done_callback(self._served_one)
        if len(self._served) >= MAX_SERVED:
            self._room.clear()

    def _served_one(self, task: asyncio.Task[None]) -> None:
        self._served.discard(task)
        if len(self._served) < MAX_SERVED:
            self._room.set()

    async def _answer(self, request: Request, serving: _Serving) -> None:
        serving.begun = True
        answer = self._peer.refuse(request.id, _CANCELLED) if serving.withdrawn else await self._answer_of(request)
        self._unanswered.pop(request.id, None)  # gone, where the other side used an id twice
        if answer is not None and self._end is None:
            self._send(answer)
            # It keeps its place until the answer has left: who asks and does not read the answers is not read either.
            await self.drain()

    async def _answer_of(self, request: Request) -> Reply | None:
        try:
            return self._peer.answer(request.id, await self._handler.serve(request))
        except asyncio.CancelledError:
            # Also when we end: nobody reads the answer then, and it does no harm.
            return self._peer.refuse(request.id, _CANCELLED)
        except RpcRefusal as refusal:
            return self._peer.refuse(request.id, refusal.error)
        except Exception as problem:
            # A defect in a handler must not end the connection; the agent learns that it was ours.
            error = RpcError(INTERNAL_ERROR, f"{type(problem).__name__}: {problem}")
            return self._peer.refuse(request.id, error)

    def _cancel_served(self, params: msgspec.Raw) -> None:
        try:
            request_id = msgspec.json.decode(params, type=_CancelParams).requestId
        except UNREADABLE:
            return
        serving = self._unanswered.get(request_id)
        if serving is not None:
            # A task that is cancelled before its first step never takes one, and this one owes an answer.
            serving.withdrawn = True
            if serving.begun and serving.task is not None:
                serving.task.cancel()

    # -- ending

    async def _finish(self) -> None:
        self._finishing = True
        failure = await self._handler.ended()
        self._end = self._broken or failure
        for task in list(self._served):
            task.cancel()
        calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            if not call.answer.done():
                call.answer.set_exception(fresh(self._end))
                call.answer.exception()  # retrieved: a call that nobody awaits is no complaint at exit

    async def wait_ended(self) -> None:
        """Returns when the stream is over and all who waited have been told."""
        await asyncio.wait([self._reader])

    async def close(self) -> None:
        """Stops reading, for good. The transport's other end is the caller's to deal with."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        self._transport.close()
        if not self._finishing:  # else it is telling those who wait, and must come to its end
            self._reader.cancel()
        await asyncio.wait([self._reader])
        if self._served:
            await asyncio.wait(self._served)


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Returns when one of them does; the others are given up."""
    tasks = [asyncio.get_running_loop().create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


class _CancelParams(msgspec.Struct, frozen=True):
    requestId: RequestId  # noqa: N815 (the wire's name)


_Error = TypeVar("_Error", bound=DragomanError)


def fresh(error: _Error) -> _Error:
    """The same error once more: each who is told of it gets one that nobody else adds a result or a traceback to."""
    twin = type(error).__new__(type(error), *error.args)
    twin.__dict__.update(error.__dict__)
    return twin


def error_of_reply(method: str, error: RpcError) -> DragomanError:
    """The one place where JSON-RPC errors become exceptions."""
    message = f"{method}: {error.message or 'error'} (code {error.code}){_detail(error.data)}"
    if error.code == UNREADABLE_ANSWER:
        return InvalidFrame(f"{method}: {error.message}")
    if error.code == REQUEST_CANCELLED:
        return Cancelled(message)
    if error.code == AUTHENTICATION_REQUIRED:
        return AuthenticationRequired(message, method=method, data=error.data)
    return RequestFailed(message, method=method, code=error.code, data=error.data)


def _detail(data: object) -> str:
    """What agents put into `data` is often the only part that says what went wrong."""
    match data:
        case None:
            return ""
        case str():
            return f": {data}"
        case {"message": str(text)} | {"details": str(text)} | {"detail": str(text)}:
            return f": {text}"
        case _:
            return f": {msgspec.json.encode(data).decode()[:500]}"
