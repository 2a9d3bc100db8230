"""Recordings made by hand, and a client that talks to a player without a process and without a clock."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.agents.replay.playback import PlaybackOptions
from dragoman.agents.replay.player import Player
from dragoman.agents.replay.recording import read_recording

CWD = "/home/ada/project"


class Tape:
    """A recording, frame by frame; a second lies between each and the next."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._ids = 0

    def put(self, direction: str, frame: dict[str, Any], **more: object) -> None:
        line = {"dir": direction, "ts": float(len(self.lines)), "frame": {"jsonrpc": "2.0", **frame}, **more}
        self.lines.append(msgspec.json.encode(line))

    def ask(self, method: str, **params: object) -> int:
        self._ids += 1
        self.put("out", {"id": self._ids, "method": method, "params": params})
        return self._ids

    def answer(self, request_id: int | str, result: object) -> None:
        self.put("in", {"id": request_id, "result": result})

    def refuse(self, request_id: int | str, code: int, message: str = "no") -> None:
        self.put("in", {"id": request_id, "error": {"code": code, "message": message}})

    def greet(self, **result: object) -> None:
        self.answer(self.ask("initialize", protocolVersion=1), {"protocolVersion": 1, **result})

    def open(self, session: str = "s1", cwd: str = CWD, **result: object) -> None:
        self.answer(self.ask("session/new", cwd=cwd, mcpServers=[]), {"sessionId": session, **result})

    def prompt(self, text: str, session: str = "s1") -> int:
        return self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def say(self, text: str, session: str = "s1") -> None:
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        self.put("in", {"method": "session/update", "params": {"sessionId": session, "update": update}})

    def want(self, request_id: int | str, method: str, session: str = "s1", **params: object) -> None:
        """Add a request of the agent."""
        self.put("in", {"id": request_id, "method": method, "params": {"sessionId": session, **params}})

    def give(self, request_id: int | str, result: object) -> None:
        """Add an answer of the client."""
        self.put("out", {"id": request_id, "result": result})

    def cancel(self, session: str = "s1") -> None:
        self.put("out", {"method": "session/cancel", "params": {"sessionId": session}})

    def run(self, prompt: str, answer: str, session: str = "s1") -> None:
        request_id = self.prompt(prompt, session)
        self.say(answer, session)
        self.answer(request_id, {"stopReason": "end_turn"})


def talk() -> Tape:
    """Record one session with two runs."""
    tape = Tape()
    tape.greet(agentInfo={"name": "someone", "version": "1"})
    tape.open()
    tape.run("hello", "Hi.")
    tape.run("and now?", "Bye.")
    return tape


class Client:
    """A client of the player; each method returns the frames that are due after it."""

    def __init__(self, tape: Tape, *, strict: bool = True, real: bool = False, connection: int = 1) -> None:
        self.player = Player(
            read_recording(tape.lines), PlaybackOptions(strict=strict, real_time=real), connection=connection
        )
        self.now = 1000.0
        self._ids = 100

    def later(self, seconds: float) -> list[Any]:
        self.now += seconds
        return [msgspec.json.decode(line) for line in self.player.step(self.now)]

    def send(self, frame: dict[str, Any]) -> list[Any]:
        self.player.receive(msgspec.json.encode({"jsonrpc": "2.0", **frame}))
        return self.later(0.0)

    def ask(self, method: str, **params: object) -> list[Any]:
        self._ids += 1
        return self.send({"id": self._ids, "method": method, "params": params})

    def prompt(self, text: str, session: str = "s1") -> list[Any]:
        return self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def give(self, request_id: int | str, result: object) -> list[Any]:
        return self.send({"id": request_id, "result": result})

    def cancel(self, session: str = "s1") -> list[Any]:
        return self.send({"method": "session/cancel", "params": {"sessionId": session}})

    def open(self, cwd: str = CWD) -> Client:
        self.ask("initialize", protocolVersion=1)
        self.ask("session/new", cwd=cwd, mcpServers=[])
        return self


def texts(frames: list[Any]) -> list[str]:
    return [frame["params"]["update"]["content"]["text"] for frame in frames if frame.get("method") == "session/update"]


def ends(frames: list[Any]) -> list[Any]:
    """Return how requests ended: the stop reason, or the error code."""
    return [
        frame["error"]["code"] if "error" in frame else frame["result"].get("stopReason")
        for frame in frames
        if "method" not in frame
    ]


def error_in(frames: list[Any]) -> str:
    [message] = (frame["error"]["message"] for frame in frames if "error" in frame)
    return str(message)
