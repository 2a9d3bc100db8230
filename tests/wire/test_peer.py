"""The peer, fed bytes: no process, no loop."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire.messages import Message, Noise, Notification, Oversized, Reply, Request, RpcError, Unknown, Update
from dragoman.wire.peer import Peer
from dragoman.wire.vocabulary import AgentMessageChunk, TextContent


def line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


def update(kind: str = "agent_message_chunk", **fields: Any) -> bytes:
    params = {"sessionId": "s", "update": {"sessionUpdate": kind, **fields}}
    return line(method="session/update", params=params)


def chunk(text: str) -> bytes:
    return update(content={"type": "text", "text": text})


def only(messages: list[Message]) -> Message:
    assert len(messages) == 1
    return messages[0]


def test_an_update_is_typed_and_keeps_its_bytes() -> None:
    sent = chunk("hi")
    assert only(Peer().feed(sent)) == Update("s", AgentMessageChunk(content=TextContent(text="hi")), sent[:-1])


def test_an_update_of_a_kind_we_do_not_know_keeps_everything() -> None:
    sent = update("holo_chunk", depth=3, _meta={"a": 1})
    message = only(Peer().feed(sent))
    assert isinstance(message, Update)
    assert isinstance(message.update, Unknown)
    assert message.update.kind == "holo_chunk"
    assert json.loads(bytes(message.update.raw)) == {"sessionUpdate": "holo_chunk", "depth": 3, "_meta": {"a": 1}}


def test_messages_come_in_the_order_of_the_wire() -> None:
    peer = Peer()
    request_id = peer.request("session/prompt", {}).id
    data = chunk("a") + line(method="x/y") + chunk("b") + line(id=request_id, result={}) + chunk("c")
    kinds = [type(message) for message in peer.feed(data)]
    assert kinds == [Update, Notification, Update, Reply, Update]


def test_a_reply_names_the_method_it_answers() -> None:
    peer = Peer()
    request = peer.request("initialize", {"protocolVersion": 1})
    assert json.loads(request.line) == {
        "jsonrpc": "2.0",
        "id": request.id,
        "method": "initialize",
        "params": {"protocolVersion": 1},
    }
    reply = only(peer.feed(line(id=request.id, result={"a": 1})))
    assert isinstance(reply, Reply)
    assert (reply.method, json.loads(bytes(reply.result)), reply.error) == ("initialize", {"a": 1}, None)


def test_a_null_result_is_an_answer() -> None:
    peer = Peer()
    request_id = peer.request("session/load", {}).id
    reply = only(peer.feed(line(id=request_id, result=None)))
    assert isinstance(reply, Reply)
    assert bytes(reply.result) == b"null"


def test_an_error_is_an_answer_whatever_its_shape() -> None:
    peer = Peer()
    good = peer.request("a", {}).id
    bad = peer.request("b", {}).id
    first, second = peer.feed(
        line(id=good, error={"code": -32000, "message": "no", "data": [1]}) + line(id=bad, error="oops")
    )
    assert isinstance(first, Reply)
    assert first.error == RpcError(-32000, "no", [1])
    assert isinstance(second, Reply)
    assert second.error == RpcError(-32603, '"oops"')


@pytest.mark.parametrize(
    "sent",
    [
        line(id=99, result={}),
        line(id=None, error={"code": -32700, "message": "Parse error"}),
        line(result={}),
        b'{"jsonrpc":"2.0"}\n',
        b"npm warn deprecated\n",
        b"null\n",
        b"42\n",
        b"[]\n",
        b"\n",
        b"{\n",
        b'{"id":{"a":1},"method":"x"}\n',
        line(method="session/update", params={"update": {}}),
        line(method="session/update", params=None),
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_line_that_is_no_message_is_noise_and_keeps_its_line(sent: bytes) -> None:
    message = only(Peer().feed(sent))
    assert isinstance(message, Noise)
    assert message.line == sent[:-1]


def test_a_second_answer_is_noise() -> None:
    peer = Peer()
    request_id = peer.request("a", {}).id
    first, second = peer.feed(line(id=request_id, result=1) + line(id=request_id, result=2))
    assert isinstance(first, Reply)
    assert isinstance(second, Noise)


def test_an_answer_to_a_forgotten_request_is_noise() -> None:
    peer = Peer()
    request_id = peer.request("a", {}).id
    peer.forget(request_id)
    assert isinstance(only(peer.feed(line(id=request_id, result=1))), Noise)


def test_a_byte_order_mark_and_broken_utf8_do_not_cost_the_message() -> None:
    sent = b"\xef\xbb\xbf" + line(
        method="session/update",
        params={
            "sessionId": "s",
            "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "BROKEN"}},
        },
    ).replace(b"BROKEN", b"a\xffb")
    message = only(Peer().feed(sent))
    assert isinstance(message, Update)
    assert isinstance(message.update, AgentMessageChunk)
    assert message.update.content == TextContent(text="a\ufffdb")
    assert message.line == sent[:-1]


def test_half_of_an_emoji_does_not_cost_the_message() -> None:
    sent = chunk("BROKEN").replace(b"BROKEN", rb"a\ud83d")
    message = only(Peer().feed(sent))
    assert isinstance(message, Update)
    assert isinstance(message.update, AgentMessageChunk)
    assert message.update.content == TextContent(text="a\ufffd")


def test_an_error_that_is_null_is_no_error() -> None:
    peer = Peer()
    request_id = peer.request("a", {}).id
    reply = only(peer.feed(line(id=request_id, result={"ok": True}, error=None)))
    assert isinstance(reply, Reply)
    assert reply.error is None


def test_two_objects_on_a_line_are_two_messages() -> None:
    first, second = Peer().feed(chunk("a")[:-1] + chunk("b"))
    assert isinstance(first, Update)
    assert isinstance(second, Update)


def test_requests_of_the_other_side_are_answered_once() -> None:
    peer = Peer()
    request = only(peer.feed(line(id="q1", method="fs/read_text_file", params={"path": "/a"})))
    assert request == Request("q1", "fs/read_text_file", msgspec.Raw(b'{"path": "/a"}'), request.line)  # type: ignore[union-attr]
    answer = peer.answer("q1", {"content": "x"})
    assert answer is not None
    assert json.loads(answer.line) == {"jsonrpc": "2.0", "id": "q1", "result": {"content": "x"}}
    assert peer.answer("q1", {"content": "late"}) is None
    assert peer.refuse("q1", RpcError(-1, "late")) is None


def test_a_sent_message_is_what_the_other_side_reads() -> None:
    ours, theirs = Peer(), Peer()
    request = ours.request("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "hé"}]})
    assert theirs.feed(request.line + b"\n") == [request]
    notification = ours.notify("session/cancel", {"sessionId": "s"})
    assert theirs.feed(notification.line + b"\n") == [notification]
    answer = theirs.answer(request.id, {"stopReason": "end_turn"})
    assert answer is not None
    assert ours.feed(answer.line + b"\n") == [answer]
    second = ours.request("session/load", None)
    theirs.feed(second.line + b"\n")
    refusal = theirs.refuse(second.id, RpcError(-32601, "not offered", {"method": "session/load"}))
    assert refusal is not None
    assert ours.feed(refusal.line + b"\n") == [refusal]


def test_a_request_id_in_use_is_not_taken_twice() -> None:
    first, second = Peer().feed(line(id=1, method="a") * 2)
    assert isinstance(first, Request)
    assert isinstance(second, Noise)


def test_a_line_over_the_limit_is_reported_and_the_next_is_read() -> None:
    peer = Peer(line_limit=1000)
    first, second = peer.feed(chunk("x" * 2000) + chunk("ok"))
    assert isinstance(first, Oversized)
    assert isinstance(second, Update)


def test_a_last_line_without_newline_counts() -> None:
    peer = Peer()
    assert peer.feed(chunk("end")[:-1]) == []
    assert isinstance(only(peer.finish()), Update)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
frames = st.fixed_dictionaries(
    {},
    optional={
        "id": json_values,
        "method": st.sampled_from(["session/update", "session/request_permission", "$/cancel_request"]) | json_values,
        "params": st.fixed_dictionaries(
            {},
            optional={
                "sessionId": json_values,
                "update": st.fixed_dictionaries(
                    {"sessionUpdate": st.sampled_from(["agent_message_chunk", "tool_call", "plan"]) | json_values},
                    optional={"content": json_values, "toolCallId": json_values, "entries": json_values},
                ),
            },
        )
        | json_values,
        "result": json_values,
        "error": json_values,
    },
)


@given(sent=st.lists(st.binary(max_size=60) | frames.map(lambda frame: json.dumps(frame).encode()), max_size=5))
def test_nothing_that_is_sent_makes_the_peer_raise_and_no_line_is_lost(sent: list[bytes]) -> None:
    data = b"".join(piece + b"\n" for piece in sent)
    messages = Peer().feed(data)
    assert len(messages) >= data.count(b"\n")


def test_an_error_in_broken_text_is_still_the_answer() -> None:
    peer = Peer()
    peer.request("session/prompt", {})
    reply = only(peer.feed(b'{"id":0,"error":{"code":-32000,"message":"log in\xff"}}\n'))
    assert isinstance(reply, Reply)
    assert reply.error == RpcError(-32000, "log in\ufffd")
