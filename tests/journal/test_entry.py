"""An entry is enough to read the same message again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.journal.entry import Entry, Origin, direction_of, entry_kind, read_message, stored_frame
from dragoman.record.routing import ConnectionReader
from dragoman.wire.messages import Message, Noise, Notification, Oversized, Reply, Request, RpcError, Unknown, Update


def entry_of(message: Message, origin: Origin = "agent") -> Entry:
    return Entry("c", "s", 1, 1.0, origin, entry_kind(message), stored_frame(message))


def read_messages(direction: Any, *lines: bytes) -> list[Message]:
    reader = ConnectionReader()
    return [routed.message for line in lines for routed in reader.read(direction, line)]


LINES = [
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[]}}}',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"odd","x":1}}}',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":7}}}',
    b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"_x/y","params":{"sessionId":"s"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s"}}',
    b'{"jsonrpc":"2.0","id":"a","method":"fs/read_text_file","params":{}}  ',
    b"no JSON \xff",
    b"[]",
    b'{"jsonrpc":"2.0","id":99,"result":{}}',
    b'{"a":1}{"b":2}',
]


@pytest.mark.parametrize("line", LINES)
def test_a_stored_message_is_read_back_unchanged(line: bytes) -> None:
    messages = read_messages("in", line)
    assert messages
    for message in messages:
        again = read_message(entry_of(message))
        if isinstance(message, Noise):
            assert isinstance(again, Noise)
            assert again.line == message.line
        else:
            assert again == message


def test_an_answer_has_the_method_of_its_request() -> None:
    conversation = ConnectionReader()
    conversation.read("out", b'{"jsonrpc":"2.0","id":5,"method":"session/new","params":{}}')
    [reply] = conversation.read("in", b'{"jsonrpc":"2.0","id":5,"result":{"sessionId":"s"}}')
    again = read_message(entry_of(reply.message))
    assert isinstance(again, Reply)
    assert (again, again.method) == (reply.message, "session/new")


def test_a_request_whose_id_was_still_in_use_stays_noise() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{}}'
    first, second = read_messages("in", line, line)
    assert isinstance(read_message(entry_of(first)), Request)
    assert isinstance(read_message(entry_of(second)), Noise)


def test_an_agents_method_that_sounds_like_ours_is_no_harm() -> None:
    for method in ("noise", "oversized"):
        [message] = read_messages("in", msgspec.json.encode({"jsonrpc": "2.0", "method": method}))
        assert isinstance(read_message(entry_of(message)), Noise | Notification)


def test_an_oversized_line_is_stored_as_length_digest_and_beginning() -> None:
    long = Oversized(10**9, "ab" * 32, b"\xff{head", b"tail}\xfe")
    assert read_message(entry_of(long)) == long


def test_an_answer_that_was_made_up_for_one_too_long_is_the_hosts() -> None:
    made_up = Reply(3, "session/prompt", msgspec.Raw(b"null"), RpcError(1, "too long"), b"")
    again = read_message(entry_of(made_up, "host"))
    assert isinstance(again, Reply)
    assert (again.id, again.method, again.error) == (3, "session/prompt", RpcError(1, "too long"))
    assert direction_of("host", again) == "in"


def test_kinds_are_those_of_the_wire() -> None:
    kinds = [entry_kind(message) for line in LINES[:6] for message in read_messages("in", line)]
    assert kinds == ["plan", "odd", "plan", "_x/y", "session/request_permission", "fs/read_text_file"]


@pytest.mark.parametrize(
    ("frame", "direction"),
    [
        ({"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "odd"}}}, "in"),
        ({"method": "_dragoman/tombstone", "params": {}}, "in"),
        ({"id": 1, "method": "session/prompt", "params": {}}, "out"),
        ({"id": 1, "method": "session/request_permission", "params": {}}, "in"),
        ({"method": "session/cancel", "params": {}}, "out"),
        ({"id": 1, "method": "initialize", "params": {}}, "out"),
        ({"id": 1, "method": "terminal/create", "params": {}}, "in"),
    ],
)
def test_the_direction_of_an_imported_frame_follows_from_its_method(frame: dict[str, Any], direction: str) -> None:
    [message] = read_messages("in", msgspec.json.encode({"jsonrpc": "2.0", **frame}))
    assert direction_of("import", message) == direction
    if isinstance(message, Request):
        answer = Reply(1, message.method, msgspec.Raw(b"{}"), None, b"{}")
        assert direction_of("import", answer) == ("out" if direction == "in" else "in")


def test_an_unknown_update_keeps_its_kind() -> None:
    [message] = read_messages("in", LINES[1])
    assert isinstance(message, Update)
    assert isinstance(message.update, Unknown)
    assert entry_kind(message) == "odd"
