"""A connection over an in-memory pair: the other side is written by hand, line by line."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from dragoman.errors import (
    AgentCrashed,
    AuthenticationRequired,
    Cancelled,
    DragomanError,
    InvalidFrame,
    RequestFailed,
    RequestTimeout,
)
from dragoman.testing.clock import ManualClock
from dragoman.wire.connection import MAX_CONCURRENT_REQUESTS, RpcConnection, RpcRefusal
from dragoman.wire.messages import Message, Noise, Notification, OutgoingMessage, Reply, Request, Update
from dragoman.wire.transport import MemoryTransport, memory_pair


class RecordingHandler:
    """A handler that records messages, and serves requests by `answer`."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.received = asyncio.Event()
        self.sent: list[OutgoingMessage] = []
        self.answer: Callable[[Request], Awaitable[object]] = self._refuse
        self.go = asyncio.Event()
        self.go.set()
        self.is_waiting = asyncio.Event()

    async def _refuse(self, request: Request) -> object:
        raise RpcRefusal(-32601, f"no {request.method}")

    def on_received(self, messages: Sequence[Message], at: float) -> None:
        self.messages += messages
        self.received.set()

    def on_sending(self, message: OutgoingMessage, at: float) -> None:
        self.sent.append(message)

    async def serve(self, request: Request) -> object:
        return await self.answer(request)

    async def wait_until_ready(self) -> None:
        if not self.go.is_set():
            self.is_waiting.set()
            await self.go.wait()

    async def on_ended(self) -> DragomanError:
        return AgentCrashed("it is gone")


class OtherSide:
    """The agent's side of the connection, driven by hand."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        self._buffer = b""

    def say(self, **frame: Any) -> None:
        self.transport.write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

    def update(self, text: str) -> None:
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        self.say(method="session/update", params={"sessionId": "s", "update": chunk})

    async def hear(self) -> Any:
        async with asyncio.timeout(10):
            while b"\n" not in self._buffer:
                data = await self.transport.read()
                assert data, "the connection closed its side"
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)


@pytest.fixture
async def handler() -> RecordingHandler:
    return RecordingHandler()


@pytest.fixture
async def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def ends(handler: RecordingHandler, clock: ManualClock) -> AsyncIterator[tuple[RpcConnection, OtherSide]]:
    ours, theirs = memory_pair()
    connection = RpcConnection(ours, handler, line_limit=100_000, clock=clock)
    yield connection, OtherSide(theirs)
    await connection.close()


async def test_an_answer_comes_after_all_messages_before_it(
    ends: tuple[RpcConnection, OtherSide], handler: RecordingHandler
) -> None:
    connection, other = ends
    call = connection.call("session/prompt", {})
    request = await other.hear()
    for number in range(100):
        other.update(str(number))
    other.say(id=request["id"], result={"stopReason": "end_turn"})
    other.update("late")
    assert json.loads(bytes(await connection.result(call))) == {"stopReason": "end_turn"}
    kinds = [type(message) for message in handler.messages]
    assert kinds[:101] == [Update] * 100 + [Reply]


@pytest.mark.parametrize("has_journal", [False, True])
async def test_nothing_is_written_while_writes_are_held_and_then_all_of_it_in_order(
    handler: RecordingHandler, has_journal: bool
) -> None:
    async def flush() -> None:
        flushed.set()

    flushed = asyncio.Event()
    ours, theirs = memory_pair()
    connection, other = RpcConnection(ours, handler, flush=flush if has_journal else None), OtherSide(theirs)
    hold = asyncio.get_running_loop().create_future()
    connection.hold_writes(hold)
    connection.call("session/prompt", {})
    connection.notify("session/cancel", {})
    if has_journal:
        await flushed.wait()
    hearing = asyncio.ensure_future(other.hear())
    other.update("reading goes on")
    await handler.received.wait()
    assert not hearing.done()
    hold.set_result(None)
    assert (await hearing)["method"] == "session/prompt"
    assert (await other.hear())["method"] == "session/cancel"
    connection.notify("session/cancel", {})
    assert (await other.hear())["method"] == "session/cancel"
    await connection.close()


async def test_errors_become_exceptions_by_their_code(ends: tuple[RpcConnection, OtherSide]) -> None:
    connection, other = ends
    expected: list[tuple[int, type[DragomanError], str]] = [
        (-32000, AuthenticationRequired, "agent"),
        (-32800, Cancelled, "cancelled"),
        (-32601, RequestFailed, "protocol"),
        (-32603, RequestFailed, "transient"),
        (-32002, RequestFailed, "agent"),
        (7, RequestFailed, "agent"),
    ]
    for code, kind, category in expected:
        call = connection.call("session/new", {})
        request = await other.hear()
        other.say(id=request["id"], error={"code": code, "message": "no", "data": {"details": "the reason"}})
        with pytest.raises(kind, match=r"session/new: no \(code .*the reason") as caught:
            await connection.result(call)
        assert caught.value.category == category


async def test_a_request_that_times_out_is_cancelled_and_its_late_answer_is_noise(
    ends: tuple[RpcConnection, OtherSide], handler: RecordingHandler, clock: ManualClock
) -> None:
    connection, other = ends
    requesting = asyncio.ensure_future(connection.request("session/new", {}, timeout=60.0))
    await clock.wait_for_timers()
    clock.advance(60.0)
    with pytest.raises(RequestTimeout, match="session/new within 60 s") as caught:
        await requesting
    assert caught.value.category == "transient"
    request = await other.hear()
    cancel = await other.hear()
    assert cancel == {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request["id"]}}
    other.say(id=request["id"], result={})
    call = connection.call("next", {})
    other.say(id=(await other.hear())["id"], result={})
    await connection.result(call)
    assert isinstance(handler.messages[0], Noise)


async def test_a_caller_that_is_cancelled_cancels_the_request(ends: tuple[RpcConnection, OtherSide]) -> None:
    connection, other = ends
    task = asyncio.create_task(connection.request("session/new", {}))
    request = await other.hear()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await other.hear())["params"] == {"requestId": request["id"]}


async def test_requests_are_served_at_the_same_time_and_answered_by_id(
    ends: tuple[RpcConnection, OtherSide], handler: RecordingHandler
) -> None:
    connection, other = ends
    gate = asyncio.Event()

    async def answer(request: Request) -> object:
        if request.id == "slow":
            await gate.wait()
        return {"to": request.id}

    handler.answer = answer
    other.say(id="slow", method="a", params={})
    other.say(id=2, method="b", params={})
    assert await other.hear() == {"jsonrpc": "2.0", "id": 2, "result": {"to": 2}}
    gate.set()
    assert await other.hear() == {"jsonrpc": "2.0", "id": "slow", "result": {"to": "slow"}}
    assert connection.pending_methods == []


async def test_refusals_and_defects_of_a_handler_are_answered_with_an_error(
    ends: tuple[RpcConnection, OtherSide], handler: RecordingHandler
) -> None:
    _, other = ends
    other.say(id=1, method="x/y", params={})
    assert (await other.hear())["error"] == {"code": -32601, "message": "no x/y"}

    async def broken(request: Request) -> object:
        raise ValueError("a defect")

    handler.answer = broken
    other.say(id=2, method="x/y", params={})
    assert (await other.hear())["error"] == {"code": -32603, "message": "ValueError: a defect"}


async def test_the_other_side_can_cancel_its_request_and_still_gets_an_answer(
    ends: tuple[RpcConnection, OtherSide], handler: RecordingHandler
) -> None:
    _, other = ends
    started = asyncio.Event()

    async def for_ever(request: Request) -> object:
        started.set()
        return await asyncio.Event().wait()

    handler.answer = for_ever
    other.say(id=5, method="session/request_permission", params={})
    await started.wait()
    other.say(method="$/cancel_request", params={"requestId": 5})
    assert await other.hear() == {"jsonrpc": "2.0", "id": 5, "error": {"code": -32800, "message": "cancelled"}}
    other.say(method="$/cancel_request", params={"requestId": 99})
    other.say(method="$/cancel_request", params="nonsense")
    assert isinstance(handler.messages[1], Notification)


async def test_a_request_cancelled_in_the_same_bytes_is_answered_too(
    ends: tuple[RpcConnection, OtherSide], handler: RecordingHandler
) -> None:
    _, other = ends
    other.say(id=5, method="session/request_permission", params={})
    other.say(method="$/cancel_request", params={"requestId": 5})
    assert (await other.hear())["error"]["code"] == -32800


async def test_nothing_is_read_while_the_handler_is_not_ready(
    ends: tuple[RpcConnection, OtherSide], handler: RecordingHandler
) -> None:
    _, other = ends
    handler.go.clear()
    other.update("first")
    async with asyncio.timeout(10):
        await handler.is_waiting.wait()
    other.transport.write(b"x" * 200_000)
    drained = asyncio.create_task(other.transport.drain())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not drained.done()
    assert len(handler.messages) == 1
    handler.go.set()
    async with asyncio.timeout(10):
        await drained


async def test_more_requests_than_are_served_at_once_wait_their_turn(
    ends: tuple[RpcConnection, OtherSide], handler: RecordingHandler
) -> None:
    _, other = ends
    serving = 0
    most = 0
    full = asyncio.Event()
    gate = asyncio.Event()

    async def answer(request: Request) -> object:
        nonlocal serving, most
        serving += 1
        most = max(most, serving)
        if serving == MAX_CONCURRENT_REQUESTS:
            full.set()
        await gate.wait()
        serving -= 1
        return {}

    handler.answer = answer
    for number in range(MAX_CONCURRENT_REQUESTS):
        other.say(id=number, method="m", params={})
    async with asyncio.timeout(10):
        await full.wait()
    for number in range(MAX_CONCURRENT_REQUESTS, MAX_CONCURRENT_REQUESTS + 10):
        other.say(id=number, method="m", params={})
    for _ in range(20):
        await asyncio.sleep(0)
    assert most == MAX_CONCURRENT_REQUESTS
    gate.set()
    answered = {(await other.hear())["id"] for _ in range(MAX_CONCURRENT_REQUESTS + 10)}
    assert answered == set(range(MAX_CONCURRENT_REQUESTS + 10))


async def test_pending_calls_fail_with_the_reason_when_the_stream_ends(
    ends: tuple[RpcConnection, OtherSide], handler: RecordingHandler
) -> None:
    connection, other = ends
    call = connection.call("session/prompt", {})
    other.update("last words")
    other.transport.close()
    with pytest.raises(AgentCrashed, match="it is gone"):
        await connection.result(call)
    assert isinstance(handler.messages[0], Update)
    with pytest.raises(AgentCrashed):
        connection.call("session/new", {})


async def test_an_answer_over_the_line_limit_fails_its_call_and_not_the_connection(
    ends: tuple[RpcConnection, OtherSide],
) -> None:
    connection, other = ends
    call = connection.call("session/list", {})
    request = await other.hear()
    other.say(id=request["id"], result={"much": "x" * 200_000})
    async with asyncio.timeout(10):
        with pytest.raises(InvalidFrame, match="over the line limit"):
            await connection.result(call)
    call = connection.call("session/list", {})
    other.say(id=(await other.hear())["id"], result={})
    await connection.result(call)


async def test_a_message_is_shown_to_the_handler_before_it_is_written(
    ends: tuple[RpcConnection, OtherSide], handler: RecordingHandler
) -> None:
    connection, other = ends
    connection.notify("session/cancel", {"sessionId": "s"})
    assert [type(message) for message in handler.sent] == [Notification]
    assert json.loads(handler.sent[0].line) == await other.hear()


async def test_a_cancel_that_cannot_be_read_ends_nothing(ends: tuple[RpcConnection, OtherSide]) -> None:
    connection, other = ends
    other.transport.write(b'{"method":"$/cancel_request","params":{"requestId":"\xff"}}\n')
    call = connection.call("x", {})
    request = await other.hear()
    other.say(id=request["id"], result=1)
    assert bytes(await connection.result(call, timeout=10)) == b"1"
