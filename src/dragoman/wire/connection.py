"""`RpcConnection`: a peer on a transport. It is the only reader of a link, and writes everything that is sent over it.

Promised: the handler gets messages in the order of the wire, and a caller gets its answer only after everything that
came before it. Nothing is read while the handler is not ready, so that a slow consumer slows the other side instead of
filling this process's memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from dragoman.clock import SYSTEM_CLOCK, Clock
from dragoman.clock import timeout as timeout_by
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
from dragoman.wire.framing import DEFAULT_LINE_LIMIT_BYTES, identify_oversized
from dragoman.wire.messages import (
    DECODE_ERRORS,
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
from dragoman.wire.peer import Peer
from dragoman.wire.transport import Transport

# Requests of the other side that are served at the same time. An agent that sends more is not read until some are
# answered; none has been seen to send more than a handful.
MAX_CONCURRENT_REQUESTS = 256

# The error code of an answer that was too long to read; outside of the range that JSON-RPC reserves, so that no agent
# uses it.
UNREADABLE_ANSWER = 1

_NULL = msgspec.Raw(b"null")
_CANCELLED = RpcError(REQUEST_CANCELLED, "cancelled")


class RpcRefusal(Exception):
    """Raised by `Handler.serve` to answer a request with this error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error = RpcError(code, message, data)


class Handler(Protocol):
    """Receives the messages of a connection. `on_received` and `on_sending` must not block."""

    def on_received(self, messages: Sequence[Message], at: float) -> None:
        """Handle messages that came in together, in wire order; each message of a connection exactly once."""

    def on_sending(self, message: OutgoingMessage, at: float) -> None:
        """Take note of a message that is about to be written. Its `line` has no newline."""

    async def serve(self, request: Request) -> object:
        """Return the result of a request, or raise `RpcRefusal`. The other side may cancel it."""

    async def wait_until_ready(self) -> None:
        """Return when more may be read."""

    async def on_ended(self) -> DragomanError:
        """Handle the end of the stream; return the error for the calls that still wait for an answer."""


class Call:
    """A request under way. `id` is known at once; `RpcConnection.result` waits for the answer."""

    def __init__(self, request_id: RequestId, method: str, answer: asyncio.Future[Reply]) -> None:
        self.id = request_id
        self.method = method
        self.answer = answer


class _IncomingRequest:
    """A request of the other side that has no answer yet."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.has_begun = False
        self.is_withdrawn = False


class RpcConnection:
    def __init__(
        self,
        transport: Transport,
        handler: Handler,
        *,
        line_limit: int = DEFAULT_LINE_LIMIT_BYTES,
        clock: Clock = SYSTEM_CLOCK,
        wait_peer_ended: Callable[[], Coroutine[Any, Any, object]] | None = None,
        flush: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """Start reading.

        `wait_peer_ended` returns when the other side has ended, for transports that know before all of it was read.
        `flush` returns when the journal has committed all messages that the handler got so far. With it, no message is
        written, and no answer or request is passed on, before it is committed. `clock` tells when a message came or
        went, and when a request has waited long enough.
        """
        self._transport = transport
        self._handler = handler
        self._clock = clock
        self._peer = Peer(line_limit=line_limit)
        self._calls: dict[RequestId, Call] = {}
        self._wait_peer_ended = wait_peer_ended
        self._flush = flush
        self._uncommitted: list[bytes] = []  # lines to write once they are committed, and nothing holds them
        self._writer: asyncio.Task[None] | None = None
        self._holds: list[asyncio.Future[None]] = []  # nothing is written before all of them are done
        self._incoming: dict[RequestId, _IncomingRequest] = {}  # without an answer: the other side may cancel these
        self._serving: set[asyncio.Task[None]] = set()  # the same, until their answers have been written
        self._has_room = asyncio.Event()  # set while fewer than MAX_CONCURRENT_REQUESTS are being served
        self._has_room.set()
        self._finishing = False
        self._end: DragomanError | None = None
        self._journal_error: DragomanError | None = None  # a message could not be committed
        self._reader = asyncio.get_running_loop().create_task(self._read(), name="dragoman reader")

    # -- calls

    @property
    def pending_methods(self) -> list[str]:
        """The methods of the requests sent from here that have no answer yet."""
        return [call.method for call in self._calls.values()]

    def call(self, method: str, params: object) -> Call:
        """Send a request at once; `result` waits for its answer."""
        if self._end is not None:
            raise copy_error(self._end)
        request = self._peer.request(method, params)
        call = Call(request.id, method, asyncio.get_running_loop().create_future())
        self._calls[request.id] = call
        self._send(request)
        return call

    async def result(self, call: Call, *, timeout: float | None = None) -> msgspec.Raw:
        """Return the call's result. A caller that gives up, by time or by cancellation, cancels the request."""
        try:
            async with timeout_by(self._clock, timeout):
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
            raise error_from_reply(call.method, reply.error)
        return reply.result

    async def request(self, method: str, params: object, *, timeout: float | None = None) -> msgspec.Raw:
        return await self.result(self.call(method, params), timeout=timeout)

    def notify(self, method: str, params: object) -> None:
        if self._end is None:
            self._send(self._peer.notify(method, params))

    def hold_writes(self, until: asyncio.Future[None]) -> None:
        """Write nothing that is sent from now on before `until` is done; it must not fail. Reading goes on."""
        self._holds.append(until)

    async def drain(self) -> None:
        if self._writer is not None:
            await asyncio.wait([self._writer])
        await self._transport.drain()

    def _abandon(self, call: Call) -> None:
        if self._calls.pop(call.id, None) is not None:
            self._peer.forget(call.id)
            self.notify("$/cancel_request", {"requestId": call.id})
        if not call.answer.done():
            call.answer.cancel()

    def _send(self, message: OutgoingMessage) -> None:
        self._handler.on_sending(message, self._clock.time())
        line = message.line + b"\n"
        if self._flush is None and not self._holds:
            self._transport.write(line)
            return
        self._uncommitted.append(line)
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_committed(), name="dragoman writer")

    async def _write_committed(self) -> None:
        try:
            while self._uncommitted:
                lines, self._uncommitted = self._uncommitted, []
                if self._flush is not None:
                    await self._flush()
                if self._holds:
                    await asyncio.wait(self._holds)
                    self._holds = [hold for hold in self._holds if not hold.done()]
                for line in lines:
                    self._transport.write(line)
        except DragomanError as error:
            # A message that cannot be committed is not sent, and all pending calls fail with the reason.
            self._uncommitted.clear()
            self._journal_error = error
            self._reader.cancel()
        finally:
            self._writer = None

    # -- reading

    async def _read(self) -> None:
        try:
            while data := await self._transport.read():
                await self._receive_in_parts(data)
                await self._wait_until_ready()
            await self._receive(self._peer.finish())
        except DragomanError as error:
            self._journal_error = error  # these messages are not passed on, and no more are read
        except asyncio.CancelledError:
            if self._journal_error is None:
                raise
        finally:
            await self._finish()

    async def _receive_in_parts(self, data: bytes) -> None:
        is_first = True
        for messages in self._peer.feed_in_parts(data):
            if not is_first:
                await self._wait_until_ready()
                await asyncio.sleep(0)  # others get their turn
            is_first = False
            await self._receive(messages)

    async def _wait_until_ready(self) -> None:
        await self._handler.wait_until_ready()
        if not self._has_room.is_set():
            await self._wait_for_room()

    async def _receive(self, messages: list[Message]) -> None:
        if not messages:
            return
        self._handler.on_received(messages, self._clock.time())
        if self._flush is not None:
            await self._flush()
        self._dispatch(messages)

    async def _wait_for_room(self) -> None:
        """Wait for a free slot, or for the end of the other side: little is left to read then, and its end counts."""
        ended = [self._wait_peer_ended()] if self._wait_peer_ended is not None else []
        await wait_for_first(self._has_room.wait(), *ended)

    def _dispatch(self, messages: Sequence[Message]) -> None:
        """Wake the tasks that wait for answers and start those that serve requests.

        They run after this, when the handler has got all of the messages.
        """
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
                    self._cancel_request(message.params)
                case Oversized():
                    self._answer_oversized(message)
                case _:
                    pass

    def _answer_oversized(self, oversized: Oversized) -> None:
        """Answer a request, or fail a call, whose line was too long to read, so that neither side waits for ever."""
        identity = identify_oversized(oversized)
        if identity is None:
            return
        if identity.method is not None:
            reason = f"{identity.method}: the request has {oversized.length} bytes, over the line limit of this side"
            error = RpcError(INVALID_REQUEST, reason)
            self._send(self._peer.refuse_unread(identity.id, identity.method, error))
        elif (call := self._calls.get(identity.id)) is not None:
            self._peer.forget(call.id)
            reason = f"the answer has {oversized.length} bytes, over the line limit"
            replies = [Reply(call.id, call.method, _NULL, RpcError(UNREADABLE_ANSWER, reason), b"")]
            self._handler.on_received(replies, self._clock.time())
            self._dispatch(replies)

    def _serve(self, request: Request) -> None:
        incoming = _IncomingRequest()
        self._incoming[request.id] = incoming
        name = f"dragoman {request.method}"
        task = asyncio.get_running_loop().create_task(self._answer(request, incoming), name=name)
        incoming.task = task
        self._serving.add(task)
        task.add_done_callback(self._on_served)
        if len(self._serving) >= MAX_CONCURRENT_REQUESTS:
            self._has_room.clear()

    def _on_served(self, task: asyncio.Task[None]) -> None:
        self._serving.discard(task)
        if len(self._serving) < MAX_CONCURRENT_REQUESTS:
            self._has_room.set()

    async def _answer(self, request: Request, incoming: _IncomingRequest) -> None:
        incoming.has_begun = True
        if incoming.is_withdrawn:
            answer = self._peer.refuse(request.id, _CANCELLED)
        else:
            answer = await self._compute_answer(request)
        self._incoming.pop(request.id, None)  # already removed where the other side used an id twice
        if answer is not None and self._end is None:
            self._send(answer)
            # The slot is free once the answer is written: an agent that asks and does not read answers is not read.
            await self.drain()

    async def _compute_answer(self, request: Request) -> Reply | None:
        try:
            return self._peer.answer(request.id, await self._handler.serve(request))
        except asyncio.CancelledError:
            # Also when the connection ends; the answer goes nowhere then, and does no harm.
            return self._peer.refuse(request.id, _CANCELLED)
        except RpcRefusal as refusal:
            return self._peer.refuse(request.id, refusal.error)
        except Exception as error:
            # A defect in a handler must not end the connection; the agent learns that it was not its fault.
            return self._peer.refuse(request.id, RpcError(INTERNAL_ERROR, f"{type(error).__name__}: {error}"))

    def _cancel_request(self, params: msgspec.Raw) -> None:
        try:
            request_id = msgspec.json.decode(params, type=_CancelParams).requestId
        except DECODE_ERRORS:
            return
        incoming = self._incoming.get(request_id)
        if incoming is not None:
            # A task that is cancelled before its first step never takes one, and this one owes an answer.
            incoming.is_withdrawn = True
            if incoming.has_begun and incoming.task is not None:
                incoming.task.cancel()

    # -- the end

    async def _finish(self) -> None:
        self._finishing = True
        failure = await self._handler.on_ended()
        self._end = self._journal_error or failure
        for task in list(self._serving):
            task.cancel()
        calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            if not call.answer.done():
                call.answer.set_exception(copy_error(self._end))
                call.answer.exception()  # retrieved, so that asyncio does not warn of a call that nobody awaits

    async def wait_ended(self) -> None:
        """Return when the stream is over and all pending calls have failed."""
        await asyncio.wait([self._reader])

    async def close(self) -> None:
        """Stop reading and writing. The process at the other end of the transport is the caller's to end."""
        if self._writer is not None:
            await asyncio.wait([self._writer])
        self._transport.close()
        if not self._finishing:  # else it is failing the pending calls, and must come to its end
            self._reader.cancel()
        await asyncio.wait([self._reader])
        if self._serving:
            await asyncio.wait(self._serving)


async def wait_for_first(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when one of the coroutines does; cancel the others."""
    tasks = [asyncio.get_running_loop().create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


class _CancelParams(msgspec.Struct, frozen=True):
    requestId: RequestId  # noqa: N815 (the wire's name)


_Error = TypeVar("_Error", bound=DragomanError)


def copy_error(error: _Error) -> _Error:
    """Return a copy of an error that is raised in several places, each with its own traceback and result."""
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    return copy


def error_from_reply(method: str, error: RpcError) -> DragomanError:
    """Return the exception for a JSON-RPC error. This is the one place where one becomes the other."""
    message = f"{method}: {error.message or 'error'} (code {error.code}){_detail(error.data)}"
    if error.code == UNREADABLE_ANSWER:
        return InvalidFrame(f"{method}: {error.message}")
    if error.code == REQUEST_CANCELLED:
        return Cancelled(message)
    if error.code == AUTHENTICATION_REQUIRED:
        return AuthenticationRequired(message, method=method, data=error.data)
    return RequestFailed(message, method=method, code=error.code, data=error.data)


def _detail(data: object) -> str:
    """Return the text in `data`, which is often the only part of an error that says what failed."""
    match data:
        case None:
            return ""
        case str():
            return f": {data}"
        case {"message": str(text)} | {"details": str(text)} | {"detail": str(text)}:
            return f": {text}"
        case _:
            return f": {msgspec.json.encode(data).decode()[:500]}"
