"""The polite half of the rogue agent: it hears, speaks, shakes hands, opens sessions and answers prompts.

Synchronous and unbuffered, so that a behaviour says exactly which bytes are written, and when.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

Json: TypeAlias = Any  # what JSON can hold; the wrong shapes are the point here
Frame: TypeAlias = dict[str, Json]

READ_SIZE = 64 * 1024


class Agent:
    """One client, over stdin and stdout."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count
        self.session = ""  # of the last prompt
        self.prompt: Json = None  # the id of the prompt without an answer
        self.cancelled = False  # that prompt
        self.answers: dict[Json, Frame] = {}  # to our own requests, by id
        self._sessions = 0
        self._next_id = 1000  # far from the client's ids, which most begin at 0 or 1
        self._unread = b""
        # Exactly these bytes, all of them, however long that takes. A behaviour may put its own way in its place.
        self.write: Callable[[bytes], None] = partial(write_all, 1)

    def many(self, usual: int) -> int:
        """Return the number of repetitions, for behaviours that repeat something."""
        return usual if self.count is None else self.count

    # -- hearing

    def hear(self) -> Frame | None:
        """The client's next frame; None when it has closed our stdin."""
        while b"\n" not in self._unread:
            data = os.read(0, READ_SIZE)
            if not data:
                return None
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        frame: Frame = json.loads(line)
        return frame

    def until(self, method: str) -> Frame:
        """Polite until this comes, which is left unanswered. The process ends where the client ends first."""
        while (frame := self.hear()) is not None:
            if frame.get("method") == method:
                self._note(frame)
                return frame
            self.be_polite(frame)
        sys.exit(0)

    def answer_to(self, request_id: Json) -> Frame:
        """Polite until the client has answered this request of ours; but for a cancel, which waits for the same."""
        while request_id not in self.answers:
            frame = self.hear()
            if frame is None:
                sys.exit(0)
            if frame.get("method") == "session/cancel":
                self._note(frame)
            else:
                self.be_polite(frame)
        return self.answers[request_id]

    def serve(self) -> None:
        """Polite until the client closes our stdin."""
        while (frame := self.hear()) is not None:
            self.be_polite(frame)

    def be_polite(self, frame: Frame) -> None:
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
                self.end_turn()
            case "session/cancel":
                if self.prompt is not None:
                    self.end_turn()
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

    # -- what a polite agent says

    def handshake(self) -> Frame:
        return {
            "protocolVersion": 1,
            "agentInfo": {"name": "rogue", "version": "1"},
            "agentCapabilities": {"sessionCapabilities": {"list": {}}},
        }

    def new_session(self) -> str:
        self._sessions += 1
        return f"rogue-{self._sessions}"

    # -- speaking

    def send(self, *frames: Frame) -> None:
        """Whole lines, in one piece."""
        self.write(b"".join(line(frame) for frame in frames))

    def answer(self, request: Frame, result: Json) -> None:
        self.send({"id": request["id"], "result": result})

    def refuse(self, request: Frame, code: int, message: str) -> None:
        self.send({"id": request["id"], "error": {"code": code, "message": message}})

    def update(self, update: Json) -> Frame:
        """The frame of an update of this session."""
        return {"method": "session/update", "params": {"sessionId": self.session, "update": update}}

    def chunk(self, text: str) -> Frame:
        return self.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})

    def say(self, text: str) -> None:
        self.send(self.chunk(text))

    def end_turn(self, stop_reason: str | None = None) -> None:
        self.send(self.turn_ended(stop_reason))

    def turn_ended(self, stop_reason: str | None = None) -> Frame:
        """The answer to the prompt, `end_turn` or `cancelled`; from here on there is none to answer."""
        prompt, self.prompt = self.prompt, None
        return {"id": prompt, "result": {"stopReason": stop_reason or ("cancelled" if self.cancelled else "end_turn")}}

    def request(self, method: str, params: Json) -> Frame:
        """The frame of a request of ours, with an id that was not used before."""
        self._next_id += 1
        return {"id": self._next_id, "method": method, "params": params}

    def ask(self, method: str, params: Json) -> Json:
        """Sends a request; returns its id, for `answer_to`."""
        frame = self.request(method, params)
        self.send(frame)
        return frame["id"]


def line(frame: Frame) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n"


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
