"""Lines that are not JSON: garbage, halves, giants, broken text.

Where nothing else is said, the turn brings "before " and "after", with the trouble between the two.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

from dragoman.testing.rogue.agent import Agent, line
from dragoman.testing.rogue.registry import behaviour, register

SKIPS_AND_REPORTS = "ignores and reports it, and keeps all words"

# Past what a careful client takes as one line; ours takes 64 MiB.
GIANT = 70_000_000


def _between(agent: Agent, trouble: bytes) -> None:
    agent.until("session/prompt")
    agent.say("before ")
    agent.write(trouble)
    agent.send(agent.chunk("after"), agent.turn_ended())


def _lines(name: str, does: str, trouble: Callable[[], bytes], good: str = SKIPS_AND_REPORTS) -> None:
    """A behaviour that writes these bytes between two chunks."""

    def play(agent: Agent) -> None:
        _between(agent, trouble())

    register(name, does, good, play)


_lines(
    "garbage_between_frames", "log lines on stdout between its frames", lambda: b"INFO loading model\n> done (3.2 s)\n"
)
_lines("binary_garbage", "4 KiB of every byte there is", lambda: bytes(range(256)) * 16 + b"\n")
_lines("blank_lines", "empty lines and lines of spaces", lambda: b"\n\r\n   \n\t\n")
_lines("nul_bytes", "lines of NUL bytes", lambda: b"\0\n\0\0\0\n")
_lines("null_line", "a line `null`", lambda: b"null\n", "does not take it for the end; keeps all words")
_lines("number_lines", "lines that are numbers", lambda: b"0\n-1\n1.5e9\n1 2 3\n")
_lines("text_lines", "lines that are JSON strings and booleans", lambda: b'"session/update"\ntrue\n')
_lines("batch", "a JSON-RPC batch: an array of frames", lambda: b"[" + line({"method": "a"})[:-1] + b"]\n[]\n")
_lines("empty_objects", "objects that are no message", lambda: b'{}\n{"jsonrpc":"2.0"}\n{"id":null}\n')
_lines(
    "broken_line",
    "the first half of a frame, and then a newline",
    lambda: line({"method": "x", "params": {}})[:20] + b"\n",
)
_lines(
    "frame_behind_a_log",
    "a log line that quotes a frame: the answer to the prompt",
    lambda: b'DEBUG sent {"jsonrpc":"2.0","id":2,"result":{"stopReason":"refusal"}}\n',
    "does not take the quotation for the frame",
)
_lines("utf16", "a line in UTF-16", lambda: line({"method": "x"}).decode().encode("utf-16") + b"\n")
_lines(
    "endless_objects",
    "a line of 100,000 empty objects",
    lambda: b"{}" * 100_000 + b"\n",
    "keeps its memory and all words",
)
_lines(
    "backslashes",
    "a line of 4 MB that is nothing but backslashes",
    lambda: b"\xff" + b"\\" * 4_000_000 + b"\n",
    "is not held up by it",
)


@behaviour("arrays nested 100,000 deep, as a line, in a notification and in an update", SKIPS_AND_REPORTS)
def deep_nesting(agent: Agent) -> None:
    agent.until("session/prompt")
    deep = b"[" * 100_000 + b"]" * 100_000
    frame = line(agent.update({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "t", "rawInput": "DEEP"}))
    agent.say("before ")
    agent.write(deep + b"\n" + b'{"jsonrpc":"2.0","method":"deep","params":' + deep + b"}\n")
    agent.write(frame.replace(b'"DEEP"', deep))
    agent.send(agent.chunk("after"), agent.turn_ended())


@behaviour("numbers no computer holds: an id of 5,000 digits, 1e999, a usage of 30 digits", SKIPS_AND_REPORTS)
def huge_numbers(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before ")
    agent.write(b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"x","params":{}}\n')
    for number in (b"1e999", b"9" * 30, b"9" * 5000):
        frame = line(agent.update({"sessionUpdate": "usage_update", "used": "N", "size": "N"}))
        agent.write(frame.replace(b'"N"', number))
    agent.send(agent.chunk("after"), agent.turn_ended())


@behaviour("`NaN` and `Infinity` beside its words, as Python writes them", "keeps the words")
def not_a_number(agent: Agent) -> None:
    agent.until("session/prompt")
    for text, number in (("before ", float("nan")), ("after", float("-inf"))):
        content = {"type": "text", "text": text}
        agent.send(
            agent.update({"sessionUpdate": "agent_message_chunk", "content": content, "_meta": {"cost": number}})
        )
    agent.end_turn()


@behaviour("a banner and a progress bar before its first frame", SKIPS_AND_REPORTS)
def garbage_first(agent: Agent) -> None:
    agent.write(b"\x1b[1mRogue\x1b[0m 1.0\nloading \r 50 %\r100 %\n")
    agent.until("session/prompt")
    agent.send(agent.chunk("before "), agent.chunk("after"), agent.turn_ended())


@behaviour("log lines after the end of its turn", SKIPS_AND_REPORTS)
def garbage_after_the_turn(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.send(agent.chunk("before "), agent.chunk("after"), agent.turn_ended())
    agent.write(b"INFO turn took 3.2 s\nWARN bye\n")


@behaviour("a frame as indented JSON over many lines", "cannot read it, reports each line, and goes on")
def pretty_printed(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before ")
    agent.write(json.dumps(agent.chunk("lost"), indent=2).encode() + b"\n")
    agent.send(agent.chunk("after"), agent.turn_ended())


@behaviour("two frames on one line, several times", "reads both")
def two_objects_on_a_line(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.write(line(agent.chunk("be"))[:-1] + line(agent.chunk("fore "))[:-1] + b"  " + line(agent.chunk("after")))
    agent.write(line({"method": "_rogue/x"})[:-1] + line(agent.turn_ended()))


@behaviour("its frames in pieces, with pauses in the middle of a word and of a character", "puts them together")
def half_lines(agent: Agent) -> None:
    agent.until("session/prompt")
    frames = json.dumps(agent.chunk("before ü "), ensure_ascii=False).encode() + b"\n" + line(agent.chunk("after"))
    character = frames.index("ü".encode()) + 1
    for piece in (frames[:10], frames[10:character], frames[character:-5], frames[-5:]):
        agent.write(piece)
        time.sleep(0.01)  # so that each is read by itself
    agent.end_turn()


@behaviour("every byte by itself, the handshake too", "puts them together")
def slow_bytes(agent: Agent) -> None:
    def dribble(data: bytes) -> None:
        for position in range(len(data)):
            os.write(1, data[position : position + 1])

    agent.write = dribble
    agent.until("session/prompt")
    agent.send(agent.chunk("before "), agent.chunk("after"), agent.turn_ended())


@behaviour("a byte-order mark before each of its frames", "reads them")
def byte_order_mark(agent: Agent) -> None:
    _rewriting(agent, lambda data: b"\xef\xbb\xbf" + data)


@behaviour("CR LF at the end of each line", "reads them")
def crlf(agent: Agent) -> None:
    _rewriting(agent, lambda data: data.replace(b"\n", b"\r\n"))


@behaviour("frames without the member `jsonrpc`", "reads them")
def no_jsonrpc(agent: Agent) -> None:
    _rewriting(agent, lambda data: data.replace(b'"jsonrpc": "2.0", ', b""))


def _rewriting(agent: Agent, rewrite: Callable[[bytes], bytes]) -> None:
    plain = agent.write
    agent.write = lambda data: plain(rewrite(data))
    agent.until("session/prompt")
    agent.say("before ")
    agent.say("after")
    agent.end_turn()


@behaviour("words with bytes that are not UTF-8", "shows U+FFFD in their place, and keeps the rest")
def invalid_utf8(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.write(line(agent.chunk("before ?")).replace(b"?", b"\xff\xfe"))
    agent.send(agent.chunk(" after"), agent.turn_ended())


@behaviour("words with half of a surrogate pair", "shows U+FFFD in its place, and keeps the rest")
def lone_surrogates(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.send(agent.chunk("before \ud83d"), agent.chunk(" after"), agent.turn_ended())


@behaviour("a chunk of 40 MB as one line", "keeps all of it")
def long_line(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.send(agent.chunk("x" * agent.many(40_000_000)), agent.turn_ended())


@behaviour("an update over the line limit", "reports its length and its beginning, and goes on")
def oversized_update(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before ")
    agent.send(agent.chunk("x" * agent.many(GIANT)), agent.chunk("after"), agent.turn_ended())


@behaviour("an answer to the prompt over the line limit", "fails the run with it, and not the session")
def oversized_answer(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    answer = agent.turn_ended()
    answer["result"]["_meta"] = {"much": "x" * agent.many(GIANT)}
    agent.send(answer)


@behaviour("the same, with the id as the last member", "the same")
def oversized_answer_id_last(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    answer = agent.turn_ended()
    answer["result"]["_meta"] = {"much": "x" * agent.many(GIANT)}
    agent.send({"result": answer["result"], "id": answer["id"]})


@behaviour("a request over the line limit; it waits for the answer", "answers with an error")
def oversized_request(agent: Agent) -> None:
    agent.until("session/prompt")
    content = "x" * agent.many(GIANT)
    request_id = agent.ask("fs/write_text_file", {"sessionId": agent.session, "path": "/x", "content": content})
    agent.say(f"answered {agent.answer_to(request_id)['error']['code']}")
    agent.end_turn()


@behaviour("the answer to the prompt as its last line, without a newline; then it ends", "takes the answer")
def last_line_without_newline(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before after")
    agent.write(line(agent.turn_ended())[:-1])
    sys.exit(0)


@behaviour("ends in the middle of a line", "keeps the words before it; the run ends as cut")
def cut_line(agent: Agent) -> None:
    agent.until("session/prompt")
    agent.say("before")
    agent.write(line(agent.chunk(" lost"))[:40])
    sys.exit(1)


@behaviour("LSP's framing: `Content-Length` headers and no newline", "gives up when its start limit has passed")
def content_length_headers(agent: Agent) -> None:
    request = agent.until("initialize")
    body = line({"id": request["id"], "result": agent.handshake()})[:-1]
    agent.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
