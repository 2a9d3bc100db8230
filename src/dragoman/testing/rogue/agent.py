"""The well-behaved half of the rogue agent: it answers the handshake, opens sessions and answers prompts.

Synchronous and unbuffered, so that a behaviour controls exactly which bytes are written, and when.

A behaviour is a function of the agent, registered by its name. Most begin with a well-behaved handshake
(`agent.wait_for("session/prompt")`), and when the function returns the agent behaves well again, so that a test can see
whether the session still works.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

Json: TypeAlias = Any  # any JSON value
Frame: TypeAlias = dict[str, Json]

READ_BYTES = 64 * 1024


class Agent:
    """An agent for one client, on stdin and stdout."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count
        self.session = ""  # of the last prompt
        self.prompt: Json = None  # the id of the prompt without an answer
        self.cancelled = False  # that prompt
        self.answers: dict[Json, Frame] = {}  # to our own requests, by id
        self._sessions = 0
        self._next_id = 1000  # far from the client's ids, which usually begin at 0 or 1
        self._unread = b""
        # Writes exactly these bytes, all of them. A behaviour may replace it.
        self.write: Callable[[bytes], None] = partial(write_all, 1)

    def repetitions(self, default: int) -> int:
        """Return the number of repetitions, for behaviours that repeat something."""
        return default if self.count is None else self.count

    # -- reading

    def read_frame(self) -> Frame | None:
        """Return the client's next frame; None when it has closed our stdin."""
        while b"\n" not in self._unread:
            data = os.read(0, READ_BYTES)
            if not data:
                return None
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        frame: Frame = json.loads(line)
        return frame

    def wait_for(self, method: str) -> Frame:
        """Behave well until this method comes; it is left unanswered. Exit if the client ends first."""
        while (frame := self.read_frame()) is not None:
            if frame.get("method") == method:
                self._note(frame)
                return frame
            self.behave(frame)
        sys.exit(0)

    def answer_to(self, request_id: Json) -> Frame:
        """Behave well until the client has answered this request; a cancel is only noted."""
        while request_id not in self.answers:
            frame = self.read_frame()
            if frame is None:
                sys.exit(0)
            if frame.get("method") == "session/cancel":
                self._note(frame)
            else:
                self.behave(frame)
        return self.answers[request_id]

    def serve(self) -> None:
        """Behave well until the client closes our stdin."""
        while (frame := self.read_frame()) is not None:
            self.behave(frame)

    def behave(self, frame: Frame) -> None:
        self._note(frame)
        match frame.get("method"):
            case None:
                self.answers[frame.get("id")] = frame
            case "initialize":
                self.answer(frame, self.handshake())
            case "session/new":
                self.answer(frame, {"sessionId": self.new_session()})
            case "session/prompt":
                self.say("fine")
                self.end_run()
            case "session/cancel":
                if self.prompt is not None:
                    self.end_run()
            case "session/list":
                self.answer(frame, {"sessions": []})
            case method if "id" in frame:
                self.refuse(frame, -32601, f"{method} is not offered")
            case _:
                pass

    def _note(self, frame: Frame) -> None:
        if frame.get("method") == "session/prompt":
            self.session = frame["params"]["sessionId"]
            self.prompt = frame["id"]
            self.cancelled = False
        elif frame.get("method") == "session/cancel":
            self.cancelled = True

    # -- answers of a well-behaved agent

    def handshake(self) -> Frame:
        return {
            "protocolVersion": 1,
            "agentInfo": {"name": "rogue", "version": "1"},
            "agentCapabilities": {"sessionCapabilities": {"list": {}}},
        }

    def new_session(self) -> str:
        self._sessions += 1
        return f"rogue-{self._sessions}"

    # -- writing

    def begin_run(self, text: str) -> Frame:
        """Behave well until a prompt comes, say this, and return the prompt's request."""
        request = self.wait_for("session/prompt")
        self.say(text)
        return request

    def finish_run(self, *texts: str) -> None:
        """Say these texts and answer the prompt, in one write."""
        self.send(*map(self.chunk, texts), self.run_ended())

    def send(self, *frames: Frame) -> None:
        """Write whole lines, in one piece."""
        self.write(b"".join(line(frame) for frame in frames))

    def answer(self, request: Frame, result: Json) -> None:
        self.send({"id": request["id"], "result": result})

    def refuse(self, request: Frame, code: int, message: str) -> None:
        self.send({"id": request["id"], "error": {"code": code, "message": message}})

    def update(self, update: Json) -> Frame:
        """Return the frame of an update of this session."""
        return {"method": "session/update", "params": {"sessionId": self.session, "update": update}}

    def chunk(self, text: str) -> Frame:
        return self.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})

    def say(self, text: str) -> None:
        self.send(self.chunk(text))

    def end_run(self, stop_reason: str | None = None) -> None:
        self.send(self.run_ended(stop_reason))

    def run_ended(self, stop_reason: str | None = None) -> Frame:
        """Return the answer to the prompt, `end_turn` or `cancelled`; from now on no prompt is open."""
        prompt, self.prompt = self.prompt, None
        return {"id": prompt, "result": {"stopReason": stop_reason or ("cancelled" if self.cancelled else "end_turn")}}

    def request(self, method: str, params: Json) -> Frame:
        """Return the frame of a request to the client, with a new id."""
        self._next_id += 1
        return {"id": self._next_id, "method": method, "params": params}

    def ask(self, method: str, params: Json) -> Json:
        """Send a request; return its id, for `answer_to`."""
        frame = self.request(method, params)
        self.send(frame)
        return frame["id"]


def line(frame: Frame) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n"


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


Play = Callable[[Agent], None]

# In the order in which they are listed; the names of the modules are the groups.
GROUPS = ("lines", "rpc", "updates", "prompts", "process")


@dataclass(frozen=True)
class Behaviour:
    """`does` is what it does; `good` is what a good client does. One line each."""

    name: str
    group: str
    does: str
    good: str
    play: Play


_behaviours: dict[str, Behaviour] = {}


def register(name: str, does: str, good: str, play: Play) -> None:
    """Register a behaviour that no function of its name plays."""
    if name in _behaviours:
        raise ValueError(f"there are two behaviours named {name}")
    _behaviours[name] = Behaviour(name, play.__module__.rpartition(".")[2], does, good, play)


def behaviour(does: str, good: str) -> Callable[[Play], Play]:
    """Register the function as the behaviour of its name."""

    def named(play: Play) -> Play:
        register(play.__name__, does, good, play)
        return play

    return named


def behaviours() -> dict[str, Behaviour]:
    """Return all behaviours by name, in the order of the list."""
    for group in GROUPS:
        import_module(f"dragoman.testing.rogue.{group}")
    return dict(sorted(_behaviours.items(), key=lambda item: GROUPS.index(item[1].group)))


def table() -> str:
    """Return all behaviours as Markdown, one table for each group."""
    lines: list[str] = []
    for group in GROUPS:
        lines += [
            f"### {group}",
            "",
            "| behaviour | what it does | what a good client does |",
            "| --- | --- | --- |",
        ]
        lines += [
            f"| `{each.name}` | {each.does} | {each.good} |" for each in behaviours().values() if each.group == group
        ]
        lines.append("")
    return "\n".join(lines)
