"""Lines that are not JSON (garbage, halves, giants, broken text), and floods of lines.

A flood has a million lines; `--count` sets another number.

Unless stated otherwise, the run says "before " and "after", with the fault between the two.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator

from dragoman.testing.rogue.agent import Agent, Frame, behaviour, line, register, write_all

SKIPS_AND_REPORTS = "ignores and reports it; loses no text"

# Past what a careful client takes as one line; ours takes 64 MiB.
OVERSIZED_BYTES = 70_000_000


def _between(agent: Agent, trouble: bytes) -> None:
    agent.begin_run("before ")
    agent.write(trouble)
    agent.finish_run("after")


def _lines(name: str, does: str, trouble: Callable[[], bytes], good: str = SKIPS_AND_REPORTS) -> None:
    """Register a behaviour that writes these bytes between two chunks."""

    def play(agent: Agent) -> None:
        _between(agent, trouble())

    register(name, does, good, play)


_lines(
    "garbage_between_frames", "log lines on stdout between its frames", lambda: b"INFO loading model\n> done (3.2 s)\n"
)
_lines("binary_garbage", "4 KiB with every byte value", lambda: bytes(range(256)) * 16 + b"\n")
_lines("blank_lines", "empty lines and lines of spaces", lambda: b"\n\r\n   \n\t\n")
_lines("nul_bytes", "lines of NUL bytes", lambda: b"\0\n\0\0\0\n")
_lines("null_line", "a line `null`", lambda: b"null\n", "does not read it as the end; loses no text")
_lines("number_lines", "lines that are numbers", lambda: b"0\n-1\n1.5e9\n1 2 3\n")
_lines("text_lines", "lines that are JSON strings and booleans", lambda: b'"session/update"\ntrue\n')
_lines("batch", "a JSON-RPC batch: an array of frames", lambda: b"[" + line({"method": "a"})[:-1] + b"]\n[]\n")
_lines("empty_objects", "objects that are not messages", lambda: b'{}\n{"jsonrpc":"2.0"}\n{"id":null}\n')
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
    "needs no more memory; loses no text",
)
_lines(
    "backslashes",
    "a line of 4 MB of backslashes",
    lambda: b"\xff" + b"\\" * 4_000_000 + b"\n",
    "is not delayed by it",
)


@behaviour("arrays nested 100,000 deep, as a line, in a notification and in an update", SKIPS_AND_REPORTS)
def deep_nesting(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    deep = b"[" * 100_000 + b"]" * 100_000
    frame = line(agent.update({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "t", "rawInput": "DEEP"}))
    agent.say("before ")
    agent.write(deep + b"\n" + b'{"jsonrpc":"2.0","method":"deep","params":' + deep + b"}\n")
    agent.write(frame.replace(b'"DEEP"', deep))
    agent.finish_run("after")


@behaviour("numbers that are too large: an id of 5,000 digits, 1e999, a usage of 30 digits", SKIPS_AND_REPORTS)
def huge_numbers(agent: Agent) -> None:
    agent.begin_run("before ")
    agent.write(b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"x","params":{}}\n')
    for number in (b"1e999", b"9" * 30, b"9" * 5000):
        frame = line(agent.update({"sessionUpdate": "usage_update", "used": "N", "size": "N"}))
        agent.write(frame.replace(b'"N"', number))
    agent.finish_run("after")


@behaviour("`NaN` and `Infinity` beside its text, as Python writes them", "keeps the text")
def not_a_number(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    for text, number in (("before ", float("nan")), ("after", float("-inf"))):
        content = {"type": "text", "text": text}
        agent.send(
            agent.update({"sessionUpdate": "agent_message_chunk", "content": content, "_meta": {"cost": number}})
        )
    agent.end_run()


@behaviour("a banner and a progress bar before its first frame", SKIPS_AND_REPORTS)
def garbage_first(agent: Agent) -> None:
    agent.write(b"\x1b[1mRogue\x1b[0m 1.0\nloading \r 50 %\r100 %\n")
    agent.wait_for("session/prompt")
    agent.finish_run("before ", "after")


@behaviour("log lines after the end of its run", SKIPS_AND_REPORTS)
def garbage_after_the_run(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    agent.finish_run("before ", "after")
    agent.write(b"INFO run took 3.2 s\nWARN bye\n")


@behaviour("a frame as indented JSON over many lines", "reports each line, and continues")
def pretty_printed(agent: Agent) -> None:
    agent.begin_run("before ")
    agent.write(json.dumps(agent.chunk("lost"), indent=2).encode() + b"\n")
    agent.finish_run("after")


@behaviour("two frames on one line, several times", "reads both")
def two_objects_on_a_line(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    agent.write(line(agent.chunk("be"))[:-1] + line(agent.chunk("fore "))[:-1] + b"  " + line(agent.chunk("after")))
    agent.write(line({"method": "_rogue/x"})[:-1] + line(agent.run_ended()))


@behaviour("its frames in pieces, with pauses in the middle of a word and of a character", "joins them")
def half_lines(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    frames = json.dumps(agent.chunk("before ü "), ensure_ascii=False).encode() + b"\n" + line(agent.chunk("after"))
    character = frames.index("ü".encode()) + 1
    for piece in (frames[:10], frames[10:character], frames[character:-5], frames[-5:]):
        agent.write(piece)
        time.sleep(0.01)  # so that each is read by itself
    agent.end_run()


@behaviour("every byte in a separate write, also in the handshake", "joins them")
def slow_bytes(agent: Agent) -> None:
    def dribble(data: bytes) -> None:
        for position in range(len(data)):
            os.write(1, data[position : position + 1])

    agent.write = dribble
    agent.wait_for("session/prompt")
    agent.finish_run("before ", "after")


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
    agent.begin_run("before ")
    agent.say("after")
    agent.end_run()


@behaviour("text with bytes that are not UTF-8", "shows U+FFFD in their place, and keeps the rest")
def invalid_utf8(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    agent.write(line(agent.chunk("before ?")).replace(b"?", b"\xff\xfe"))
    agent.send(agent.chunk(" after"), agent.run_ended())


@behaviour("text with half a surrogate pair", "shows U+FFFD in its place, and keeps the rest")
def lone_surrogates(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    agent.send(agent.chunk("before \ud83d"), agent.chunk(" after"), agent.run_ended())


@behaviour("a chunk of 40 MB as one line", "keeps all of it")
def long_line(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    agent.send(agent.chunk("x" * agent.repetitions(40_000_000)), agent.run_ended())


@behaviour("an update over the line limit", "reports its length and its beginning, and continues")
def oversized_update(agent: Agent) -> None:
    agent.begin_run("before ")
    agent.send(agent.chunk("x" * agent.repetitions(OVERSIZED_BYTES)), agent.chunk("after"), agent.run_ended())


@behaviour("an answer to the prompt over the line limit", "fails the run, not the session")
def oversized_answer(agent: Agent) -> None:
    agent.begin_run("before")
    answer = agent.run_ended()
    answer["result"]["_meta"] = {"much": "x" * agent.repetitions(OVERSIZED_BYTES)}
    agent.send(answer)


@behaviour("the same, with the id as the last member", "the same")
def oversized_answer_id_last(agent: Agent) -> None:
    agent.begin_run("before")
    answer = agent.run_ended()
    answer["result"]["_meta"] = {"much": "x" * agent.repetitions(OVERSIZED_BYTES)}
    agent.send({"result": answer["result"], "id": answer["id"]})


@behaviour("a request over the line limit; it waits for the answer", "answers with an error")
def oversized_request(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    content = "x" * agent.repetitions(OVERSIZED_BYTES)
    request_id = agent.ask("fs/write_text_file", {"sessionId": agent.session, "path": "/x", "content": content})
    agent.say(f"answered {agent.answer_to(request_id)['error']['code']}")
    agent.end_run()


@behaviour("the answer to the prompt as its last line, without a newline; then it exits", "accepts the answer")
def last_line_without_newline(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    agent.say("before after")
    agent.write(line(agent.run_ended())[:-1])
    sys.exit(0)


@behaviour("exits in the middle of a line", "keeps the text before it; the run is interrupted")
def truncated_line(agent: Agent) -> None:
    agent.begin_run("before")
    agent.write(line(agent.chunk(" lost"))[:40])
    sys.exit(1)


@behaviour("the framing of LSP: `Content-Length` headers and no newline", "gives up after its start timeout")
def content_length_headers(agent: Agent) -> None:
    request = agent.wait_for("initialize")
    body = line({"id": request["id"], "result": agent.handshake()})[:-1]
    agent.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))


MILLION = 1_000_000
BATCH_LINES = 1000

KEEPS_UP = "reads all of it, in bounded memory"


def _pour(agent: Agent, frame: Frame, count: int) -> None:
    """Write the same frame again and again, as fast as the pipe takes it."""
    one = line(frame)
    many = one * BATCH_LINES
    for _ in range(count // BATCH_LINES):
        agent.write(many)
    agent.write(one * (count % BATCH_LINES))


@behaviour("a million chunks in one run", KEEPS_UP + ", and loses no text")
def flood_of_updates(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    _pour(agent, agent.chunk("flood "), agent.repetitions(MILLION))
    agent.end_run()


@behaviour("a million notifications that the protocol does not have", KEEPS_UP)
def flood_of_notifications(agent: Agent) -> None:
    agent.begin_run("before ")
    _pour(agent, {"method": "rogue/news", "params": {"sessionId": agent.session}}, agent.repetitions(MILLION) // 2)
    _pour(agent, {"method": "rogue/news", "params": {}}, agent.repetitions(MILLION) // 2)
    agent.finish_run("after")


@behaviour("a million updates of sessions that are not open", KEEPS_UP)
def flood_of_strays(agent: Agent) -> None:
    agent.begin_run("before ")
    session, agent.session = agent.session, "elsewhere"
    _pour(agent, agent.chunk("stray"), agent.repetitions(MILLION))
    agent.session = session
    agent.finish_run("after")


@behaviour("a million updates before `session/new` is answered", "keeps some, reports the rest, opens the session")
def flood_before_the_session(agent: Agent) -> None:
    request = agent.wait_for("session/new")
    agent.session = "elsewhere"
    _pour(agent, agent.chunk("early"), agent.repetitions(MILLION))
    agent.answer(request, {"sessionId": agent.new_session()})


@behaviour("a million lines of garbage", KEEPS_UP)
def flood_of_garbage(agent: Agent) -> None:
    agent.begin_run("before ")
    for _ in range(agent.repetitions(MILLION) // BATCH_LINES):
        agent.write(b"INFO nothing to see here\n" * BATCH_LINES)
    agent.finish_run("after")


@behaviour("a million updates that have to be repaired", KEEPS_UP)
def flood_of_bad_updates(agent: Agent) -> None:
    agent.begin_run("before ")
    _pour(agent, agent.update({"sessionUpdate": "usage_update", "used": "x", "size": []}), agent.repetitions(MILLION))
    agent.finish_run("after")


@behaviour("a million requests, while it reads the answers", "answers each")
def flood_of_requests(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    answered = 0
    for batch in _batches(agent.repetitions(MILLION)):
        requests = [agent.request("rogue/question", {"sessionId": agent.session}) for _ in range(batch)]
        agent.send(*requests)
        answered += sum("error" in agent.answer_to(request["id"]) for request in requests)
        agent.answers.clear()
    agent.say(f"{answered} answered")
    agent.end_run()


@behaviour(
    "a million requests, and it reads no answer",
    "reads no more than it can answer; ends the agent after its time limit",
)
def flood_of_requests_unread(agent: Agent) -> None:
    agent.begin_run("before")
    for batch in _batches(agent.repetitions(MILLION)):
        agent.send(*(agent.request("rogue/question", {"sessionId": agent.session}) for _ in range(batch)))
    agent.end_run()


@behaviour("a million requests that it cancels at once, and it reads no answer", "the same")
def flood_of_cancelled_requests(agent: Agent) -> None:
    agent.begin_run("before")
    for batch in _batches(agent.repetitions(MILLION)):
        for _ in range(batch):
            request = agent.request("rogue/question", {"sessionId": agent.session})
            agent.send(request, {"method": "$/cancel_request", "params": {"requestId": request["id"]}})
    agent.end_run()


def _batches(count: int) -> Iterator[int]:
    # Small ones: what is asked in one, and what is answered to it, fit into the pipes.
    for _ in range(count // 200):
        yield 200
    if count % 200:
        yield count % 200


@behaviour("endless chunks; ignores everything", "ends the agent after the grace of the cancel")
def endless_updates(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    while True:
        agent.write(line(agent.chunk("flood ")) * BATCH_LINES)


@behaviour("endless large chunks (1 MB each); ignores everything", "the same, in bounded memory")
def endless_large_updates(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    while True:
        agent.say("x" * MILLION)


@behaviour("endless stderr, beside a good run", "drains it, and keeps the last lines")
def endless_stderr(agent: Agent) -> None:
    agent.wait_for("session/prompt")
    if os.fork() == 0:
        while True:
            write_all(2, b"still here\n" * BATCH_LINES)
    agent.finish_run("fine")
