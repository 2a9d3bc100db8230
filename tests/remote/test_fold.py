"""The state of a remote session, folded from the frames that the server sends."""

from __future__ import annotations

import json

from dragoman.protocol.models import Frame
from dragoman.record import notes
from dragoman.record.facts import Fact, RunEnded, RunStarted, TextAdded
from dragoman.remote.fold import FoldedFrame, RemoteFold
from dragoman.wire import vocabulary as acp

PROMPT = notes.write(notes.Prompt("r1", (acp.TextContent(text="hello"),)))


def chunk(text: str) -> str:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    params = {"sessionId": "a", "update": update}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})


TALK = [
    ("host", "_dragoman/prompt", PROMPT.line.decode()),
    ("client", "session/prompt", '{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"a"}}'),
    ("agent", "agent_message_chunk", chunk("One ")),
    ("import", "hidden", ""),
    ("agent", "agent_message_chunk", chunk("One ")),
    ("agent", "session/prompt", '{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}'),
]


def frames(connection: str = "c1") -> list[Frame]:
    return [
        Frame(cursor=str(n), connection_id=connection, n=n, at=float(n), origin=origin, kind=kind, frame=text)
        for n, (origin, kind, text) in enumerate(TALK, start=1)
    ]


def facts_of(result: list[FoldedFrame | None]) -> list[Fact]:
    return [fact for one in result if one is not None for fact in one.facts]


def test_a_frame_that_is_sent_again_counts_once() -> None:
    once, often = RemoteFold("s1"), RemoteFold("s1")
    talk = frames()
    result = [once.add(frame) for frame in talk]
    again = [often.add(frame) for at in range(len(talk)) for frame in talk[max(0, at - 3) : at + 1]]
    assert [type(fact) for fact in facts_of(again)] == [type(fact) for fact in facts_of(result)]
    assert [message.text for message in often.fold.messages] == [message.text for message in once.fold.messages]
    assert often.count == once.count == len(talk)


def test_equal_texts_are_not_taken_for_the_same_frame() -> None:
    heard = RemoteFold("s1")
    result = facts_of([heard.add(frame) for frame in frames()])
    assert [fact.text for fact in result if isinstance(fact, TextAdded)] == ["One ", "One "]


def test_each_frame_is_delivered_in_its_run() -> None:
    heard = RemoteFold("s1")
    result = [one for frame in frames() if (one := heard.add(frame)) is not None]
    assert [one.run_id for one in result] == [None, "r1", "r1", "r1", "r1", "r1"]
    assert [type(fact) for fact in result[1].facts] == [RunStarted]
    assert isinstance(result[-1].facts[-1], RunEnded)


def test_a_frame_that_is_not_shown_is_counted() -> None:
    heard = RemoteFold("s1")
    for frame in frames():
        heard.add(frame)
    assert heard.count == len(TALK)


def test_the_next_connection_of_the_agent_counts_from_one() -> None:
    heard = RemoteFold("s1")
    request = '{"jsonrpc":"2.0","id":7,"method":"terminal/wait_for_exit","params":{"sessionId":"a","terminalId":"t"}}'
    for frame in frames():
        heard.add(frame)
    heard.add(
        Frame(cursor="7", connection_id="c1", n=7, at=7, origin="agent", kind="terminal/wait_for_exit", frame=request)
    )
    assert heard.is_serving
    assert heard.add(frames("c2")[0]) is not None
    assert not heard.is_serving
