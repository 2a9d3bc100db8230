"""Lines that are made to hurt: the peer reads what can be read, reports the rest, and never raises."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from dragoman.errors import AgentCrashed, DragomanError
from dragoman.wire.connection import MAX_CONCURRENT_REQUESTS, RpcConnection
from dragoman.wire.framing import OversizedIdentity, identify_oversized
from dragoman.wire.messages import Message, Noise, Notification, OutgoingMessage, Oversized, Reply, Request, Update
from dragoman.wire.peer import MAX_MESSAGES_PER_LINE, MAX_SLOW_LINES_PER_PART, Peer
from dragoman.wire.transport import MemoryTransport, memory_pair
from dragoman.wire.vocabulary import AgentMessageChunk, TextContent

DEEP = b"[" * 100_000 + b"]" * 100_000
TIMEOUT_S = 10.0


def chunk(text: str, **more: Any) -> bytes:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **more}
    return json.dumps({"method": "session/update", "params": {"sessionId": "s", "update": update}}).encode()


@pytest.mark.parametrize(
    "line",
    [
        DEEP,
        b'{"method":"x","params":' + DEEP + b"}",
        b'{"id":1,"result":' + DEEP + b"}",
        chunk("lost", _meta={"deep": "DEEP"}).replace(b'"DEEP"', DEEP),
        b'{"id":' + b"9" * 5000 + b',"method":"x"}',
        b'\xef\xbb\xbf{"id":1,"method":"x","params":' + b"9" * 5000 + b"}",
        b'{"a":' + b"9" * 5000 + b"}{}",
    ],
    ids=["array", "notification", "answer", "update", "id", "behind a mark", "before another"],
)
def test_a_value_that_no_decoder_can_hold_is_noise_with_its_line(line: bytes) -> None:
    (noise,) = Peer().feed(line + b"\n")
    assert isinstance(noise, Noise)
    assert noise.line == line


def test_not_a_number_beside_a_text_does_not_cost_the_text() -> None:
    line = chunk("kept", _meta={"cost": float("nan")})
    (update,) = Peer().feed(line + b"\n")
    assert isinstance(update, Update)
    assert isinstance(update.update, AgentMessageChunk)
    assert update.update.content == TextContent(text="kept")
    assert update.line == line


def test_so_many_objects_are_read_from_one_line_and_the_rest_is_noise() -> None:
    messages = Peer().feed(b'{"method":"a"}' * (MAX_MESSAGES_PER_LINE + 5) + b"\n")
    assert [type(message) for message in messages] == [Notification] * MAX_MESSAGES_PER_LINE + [Noise]
    rest = messages[-1]
    assert isinstance(rest, Noise)
    assert rest.line == b'{"method":"a"}' * 5


@pytest.mark.parametrize(
    ("head", "tail", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"a":"', b'"}}', OversizedIdentity(7, None)),
        (b'{"id": 7, "jsonrpc": "2.0", "error": {"a":"', b'"}}', OversizedIdentity(7, None)),
        (b'{"jsonrpc":"2.0","result":{"a":"', b'"},"id":7}', OversizedIdentity(7, None)),
        (b'{"result":{"a":"', b'"}, "id": "seven" }', OversizedIdentity("seven", None)),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"', b'"}}', OversizedIdentity(7, "m")),
        (b'{"jsonrpc":"2.0","method":"m","id":"x","params":["', b'"]}', OversizedIdentity("x", "m")),
        (b'{"method":"m","params":{"a":"', b'"},"id":-1}', OversizedIdentity(-1, "m")),
        (b'{"jsonrpc":"2.0","method":"m","params":{"a":"', b'"}}', None),
        (b'{"jsonrpc":"2.0","method":"m","params":{"a":"', b'","b":{"id":7}}}', None),
        (b'{"jsonrpc":"2.0","result":{"a":"', b'","id":7}}', None),
        (b'{"id":7,"other":"', b'"}', None),
        (b"x" * 50, b"x" * 50, None),
        (b"", b"", None),
    ],
)
def test_a_line_too_long_to_keep_is_still_known_by_its_ends(
    head: bytes, tail: bytes, expected: OversizedIdentity | None
) -> None:
    assert identify_oversized(Oversized(10**8, "", head, tail)) == expected


class Silent:
    """A handler that serves nothing until it is told to."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.go = asyncio.Event()

    def on_received(self, messages: Sequence[Message], at: float) -> None:
        self.messages += messages

    def on_sending(self, message: OutgoingMessage, at: float) -> None:
        pass

    async def serve(self, request: Request) -> object:
        await self.go.wait()
        return {"padding": "x" * 1000}

    async def wait_until_ready(self) -> None:
        pass

    async def on_ended(self) -> DragomanError:
        return AgentCrashed("it is gone")


def ask(other: MemoryTransport, numbers: range) -> None:
    for number in numbers:
        other.write(json.dumps({"id": number, "method": "m", "params": {}}).encode() + b"\n")


async def turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def test_a_flood_of_lines_is_read_in_parts_of_bounded_work() -> None:
    parts = list(Peer().feed_in_parts(b"no JSON\n" * 1000))
    assert sum(map(len, parts)) == 1000
    assert max(map(len, parts)) <= MAX_SLOW_LINES_PER_PART
    # Updates are cheap: as many as one read brings are one part.
    [updates] = Peer().feed_in_parts(b"".join(chunk(str(number)) + b"\n" for number in range(500)))
    assert len(updates) == 500


async def test_others_get_their_turn_in_the_middle_of_a_flood() -> None:
    ours, theirs = memory_pair()
    handler = Silent()
    connection = RpcConnection(ours, handler)
    seen: list[int] = []

    async def look() -> None:
        while len(handler.messages) < 1000:
            seen.append(len(handler.messages))
            await asyncio.sleep(0)

    theirs.write(b"no JSON\n" * 1000)  # one read brings all of them
    async with asyncio.timeout(TIMEOUT_S):
        await look()
        await connection.close()
    assert max(later - earlier for earlier, later in pairwise(seen)) <= MAX_SLOW_LINES_PER_PART
    assert len(set(seen)) >= 1000 // MAX_SLOW_LINES_PER_PART


async def test_a_peer_that_does_not_read_answers_is_not_read() -> None:
    ours, theirs = memory_pair()
    handler = Silent()
    handler.go.set()
    connection = RpcConnection(ours, handler)
    for start in range(0, 10 * MAX_CONCURRENT_REQUESTS, MAX_CONCURRENT_REQUESTS):
        ask(theirs, range(start, start + MAX_CONCURRENT_REQUESTS))
        await turns()
    # The answers to the first fill the pipe; those who wait for it keep their places.
    assert len(handler.messages) < 4 * MAX_CONCURRENT_REQUESTS
    async with asyncio.timeout(TIMEOUT_S):
        answers = b""
        while answers.count(b"\n") < 10 * MAX_CONCURRENT_REQUESTS:
            answers += await theirs.read()
        await connection.close()


async def test_an_answer_on_its_way_cannot_be_taken_back_to_make_room() -> None:
    ours, theirs = memory_pair()
    handler = Silent()
    handler.go.set()
    connection = RpcConnection(ours, handler)
    for number in range(20 * MAX_CONCURRENT_REQUESTS):
        ask(theirs, range(number, number + 1))
        await asyncio.sleep(0)
        theirs.write(json.dumps({"method": "$/cancel_request", "params": {"requestId": number}}).encode() + b"\n")
    await turns()
    assert len([each for each in handler.messages if isinstance(each, Request)]) < 4 * MAX_CONCURRENT_REQUESTS
    async with asyncio.timeout(TIMEOUT_S):
        theirs.close()
        reading = asyncio.create_task(_read_all(theirs))
        await connection.wait_ended()
        await connection.close()
        await reading


async def _read_all(transport: MemoryTransport) -> None:
    while await transport.read():
        pass


async def test_the_end_of_the_other_side_is_noticed_with_no_room_left() -> None:
    ours, theirs = memory_pair()
    gone = asyncio.Event()
    handler = Silent()
    connection = RpcConnection(ours, handler, wait_peer_ended=gone.wait)
    call = connection.call("session/prompt", {})
    ask(theirs, range(1000, 1000 + MAX_CONCURRENT_REQUESTS))
    await turns()
    ask(theirs, range(2000, 2010))
    theirs.close()
    await turns()
    assert len(handler.messages) == MAX_CONCURRENT_REQUESTS
    gone.set()
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(AgentCrashed, match="it is gone"):
            await connection.result(call)
        await connection.close()
    assert len(handler.messages) == MAX_CONCURRENT_REQUESTS + 10


async def test_a_request_too_long_to_read_is_refused() -> None:
    ours, theirs = memory_pair()
    connection = RpcConnection(ours, Silent(), line_limit=1000)
    theirs.write(json.dumps({"id": "w", "method": "fs/write_text_file", "params": {"content": "x" * 2000}}).encode())
    theirs.write(b"\n")
    async with asyncio.timeout(TIMEOUT_S):
        refused = json.loads(await theirs.read())
        assert (refused["id"], refused["error"]["code"]) == ("w", -32600)
        assert "fs/write_text_file" in refused["error"]["message"]
        await connection.close()


async def test_an_answer_that_cannot_be_written_as_json_becomes_an_error_answer() -> None:
    ours, theirs = memory_pair()

    class Wrong(Silent):
        async def serve(self, request: Request) -> object:
            return object()

    connection = RpcConnection(ours, Wrong())
    ask(theirs, range(1, 2))
    async with asyncio.timeout(TIMEOUT_S):
        assert json.loads(await theirs.read())["error"]["code"] == -32603
        await connection.close()


def test_an_answer_with_its_id_last_still_finds_its_question() -> None:
    peer = Peer(line_limit=1000)
    request_id = peer.request("session/prompt", {}).id
    (whole,) = peer.feed(b'{"result":{},"id":%d}\n' % int(request_id))
    assert isinstance(whole, Reply)
    (long,) = peer.feed(b'{"result":{"a":"' + b"x" * 2000 + b'"},"id":1}\n')
    assert isinstance(long, Oversized)
    assert identify_oversized(long) == OversizedIdentity(1, None)
