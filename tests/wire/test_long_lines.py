"""Long lines are read in bounded steps, and as if they had been read at once."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire import lenient
from dragoman.wire.long_lines import STEP_BYTES, LongLine
from dragoman.wire.messages import Message, Noise, Notification, Reply, Request, Update
from dragoman.wire.peer import Peer
from dragoman.wire.vocabulary import AgentMessageChunk, TextContent

STEP = 32  # bytes: a text of a few words is long, and no name of the protocol is


def read(line: bytes, step_bytes: int) -> list[Message]:
    peer = Peer(step_bytes=step_bytes)
    peer.expect(1, "session/prompt")
    return peer.feed(line + b"\n")


def read_at_once(line: bytes) -> list[Message]:
    return read(line, len(line) + 1)


def update(text: str, **more: Any) -> dict[str, Any]:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **more}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": chunk}}


# Characters that are written as themselves or as an escape, in one, two, three or four bytes, or as a pair of escapes.
TEXTS = st.text(st.sampled_from('a"\\\n\té€😀\x7f'), max_size=200)
VALUES = st.recursive(TEXTS | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner))
FRAMES = st.one_of(
    st.builds(update, TEXTS, _meta=st.dictionaries(TEXTS, VALUES, max_size=3)),
    st.builds(lambda value: {"method": "session/update", "params": {"sessionId": "s", "update": value}}, VALUES),
    st.builds(lambda value: {"method": "x", "params": value}, VALUES),
    st.builds(lambda number, value: {"id": number, "method": "x", "params": value}, TEXTS, VALUES),
    st.builds(lambda value: {"id": 1, "result": value}, VALUES),
    st.builds(lambda text: {"id": 1, "error": {"code": 1, "message": text}}, TEXTS),
    VALUES,
)


@given(FRAMES, st.booleans(), st.integers(STEP, 64))
def test_a_line_is_read_in_steps_as_it_is_at_once(frame: object, ascii_only: bool, step_bytes: int) -> None:
    line = json.dumps(frame, ensure_ascii=ascii_only).encode()
    assert read(line, step_bytes) == read_at_once(line)


@given(FRAMES, st.booleans(), st.data())
def test_so_is_a_line_that_is_broken_somewhere(frame: object, ascii_only: bool, data: st.DataObject) -> None:
    line = json.dumps(frame, ensure_ascii=ascii_only).encode()
    at = data.draw(st.integers(0, len(line)))
    junk = data.draw(
        st.sampled_from([b"", b'"', b"\\", b"\\u12", b"\\ud83d", b"\x01", b"\xff", b"\xc3", b"}{", b"NaN"])
    )
    line = line[:at] + junk + line[at + data.draw(st.integers(0, 3)) :]
    assert [type(message) for message in read(line, STEP)] == [type(message) for message in read_at_once(line)]
    for ours, theirs in zip(read(line, STEP), read_at_once(line), strict=True):
        if isinstance(theirs, Noise):
            assert getattr(ours, "line", None) == theirs.line  # what the decoder said of it may be about another place
        else:
            assert _without_raw(ours) == _without_raw(theirs)


def _without_raw(value: object) -> object:
    """Return a message with raw values as their readers see them: half a surrogate pair may be written or repaired."""
    if isinstance(value, msgspec.Raw):
        return lenient.decode(value, Any)
    if isinstance(value, msgspec.Struct):
        fields = {name: _without_raw(getattr(value, name)) for name in value.__struct_fields__}
        return type(value), fields
    return value


@pytest.mark.parametrize("broken", [b"\xe2\\ud83d\x82", b"\xf0\\u12f\x9f", b"\\\x80", b"\x80" * 50, b"\xe2\x82" * 20])
def test_bytes_that_are_no_character_may_stand_anywhere(broken: bytes) -> None:
    for length in range(STEP):
        line = b'{"id": 1, "method": "x", "params": "' + b"a" * (STEP + length) + broken + b'a"}'
        assert list(map(_without_raw, read(line, STEP))) == list(map(_without_raw, read_at_once(line)))


@pytest.mark.parametrize("text", ["word " * 200_000, 'a "quoted"\n😀' * 100_000, "\ud83d" * 100_000])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_step_reads_more_than_its_bytes(text: str, ascii_only: bool) -> None:
    line = json.dumps(update(text), ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    long_line = LongLine(line)
    positions = [0]
    while long_line.step():
        positions.append(long_line.position)
    assert len(positions) <= len(line) // STEP_BYTES * 2 + 4
    steps = [end - begin for begin, end in pairwise(positions)]
    assert max(steps) <= STEP_BYTES + 1
    assert long_line.short is not None
    assert len(long_line.short) < 400


def test_each_step_is_a_part_of_its_own_and_the_lines_around_are_read_as_ever() -> None:
    text = "word " * 400_000
    lines = [update("before"), update(text), update("after"), {"id": "r", "method": "m", "params": {"content": text}}]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    parts = list(Peer().feed_in_parts(data))
    assert max(map(len, parts)) == 1
    assert parts.count([]) > 2 * len(text) // STEP_BYTES - 2
    before, long, after, request = [message for part in parts for message in part]
    for message, expected in ((before, "before"), (long, text), (after, "after")):
        assert isinstance(message, Update)
        assert isinstance(message.update, AgentMessageChunk)
        assert message.update.content == TextContent(text=expected)
    assert isinstance(request, Request)
    assert bytes(request.params) == json.dumps({"content": text}).encode()
    assert request.line == json.dumps(lines[-1]).encode()


@pytest.mark.parametrize("depth", [100, 400, 600, 5000])
def test_a_long_line_that_is_nested_deeply_is_read_as_it_is_at_once(depth: int) -> None:
    line = json.dumps(update("word " * 100, _meta={"deep": "DEEP"})).encode()
    line = line.replace(b'"DEEP"', b"[" * depth + b"]" * depth)
    assert read(line, STEP) == read_at_once(line)


def test_an_id_of_megabytes_is_answered_with_itself() -> None:
    peer = Peer(step_bytes=STEP)
    name = "x" * 1000
    (request,) = peer.feed(json.dumps({"id": name, "method": "m"}).encode() + b"\n")
    assert isinstance(request, Request)
    answer = peer.answer(name, {})
    assert isinstance(answer, Reply)
    assert json.loads(answer.line)["id"] == name


def test_a_text_that_looks_like_what_replaces_a_long_one_stays() -> None:
    line = json.dumps({"method": "m", "params": ["long-string-0000-0-", "y" * 100]}).encode()
    (notification,) = read(line, STEP)
    assert isinstance(notification, Notification)
    assert bytes(notification.params) == json.dumps(["long-string-0000-0-", "y" * 100]).encode()
