"""`Tape`: a conversation of one session, written frame by frame, and what it amounts to.

Nothing runs here: it is for tests of what is derived from frames. Positions and times count the frames, so that the
same tape folds to the same rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from dragoman.record import notes
from dragoman.record.facts import Fact
from dragoman.record.fold import Direction, SessionFold
from dragoman.record.routing import ConnectionReader
from dragoman.testing.scripted import OPTIONS, Params
from dragoman.wire.messages import Message, RequestId

SESSION = "session-1"


class Tape:
    """`fold` is the fold so far; every call returns the facts of its frame."""

    def __init__(self) -> None:
        self.fold = SessionFold()
        self.frames: list[tuple[Direction, Message]] = []
        self.facts: list[Fact] = []
        self._conversation = ConnectionReader()
        self._ids = itertools.count()

    # -- what the agent says

    def update(self, kind: str, /, **fields: object) -> Sequence[Fact]:
        params = {"sessionId": SESSION, "update": {"sessionUpdate": kind, **fields}}
        return self._add_frame("in", {"method": "session/update", "params": params})

    def say(self, text: str, **fields: object) -> Sequence[Fact]:
        return self.update("agent_message_chunk", content={"type": "text", "text": text}, **fields)

    def think(self, text: str, **fields: object) -> Sequence[Fact]:
        return self.update("agent_thought_chunk", content={"type": "text", "text": text}, **fields)

    def user(self, text: str, **fields: object) -> Sequence[Fact]:
        return self.update("user_message_chunk", content={"type": "text", "text": text}, **fields)

    def tool(self, tool_call_id: str, **fields: object) -> Sequence[Fact]:
        return self.update("tool_call", **{"toolCallId": tool_call_id, "title": "a tool", **fields})

    def tool_update(self, tool_call_id: str, **fields: object) -> Sequence[Fact]:
        return self.update("tool_call_update", toolCallId=tool_call_id, **fields)

    def permission(self, request_id: RequestId, tool_call_id: str = "t", **tool_call: object) -> Sequence[Fact]:
        call = {"toolCallId": tool_call_id, **tool_call}
        params = {"sessionId": SESSION, "toolCall": call, "options": OPTIONS}
        return self._add_frame("in", {"id": request_id, "method": "session/request_permission", "params": params})

    def request(self, request_id: RequestId, method: str, /, **params: object) -> Sequence[Fact]:
        """Anything that the agent asks of us."""
        return self._add_frame("in", {"id": request_id, "method": method, "params": {"sessionId": SESSION, **params}})

    def notify(self, method: str, /, **params: object) -> Sequence[Fact]:
        """Any other notification of the agent's."""
        return self._add_frame("in", {"method": method, "params": params})

    def answer(self, request_id: RequestId, result: object) -> Sequence[Fact]:
        return self._add_frame("in", {"id": request_id, "result": result})

    def refuse(self, request_id: RequestId, code: int, message: str = "") -> Sequence[Fact]:
        return self._add_frame("in", {"id": request_id, "error": {"code": code, "message": message}})

    def end(self, request_id: RequestId, stop_reason: str = "end_turn", **result: object) -> Sequence[Fact]:
        return self.answer(request_id, {"stopReason": stop_reason, **result})

    # -- what we say

    def ask(self, method: str, /, **params: object) -> RequestId:
        """Any request of ours; its id."""
        request_id = next(self._ids)
        self._add_frame("out", {"id": request_id, "method": method, "params": {"sessionId": SESSION, **params}})
        return request_id

    def prompt(self, text: str = "go") -> RequestId:
        return self.ask("session/prompt", prompt=[{"type": "text", "text": text}])

    def cancel(self) -> Sequence[Fact]:
        return self._add_frame("out", {"method": "session/cancel", "params": {"sessionId": SESSION}})

    def decide(self, request_id: RequestId, option_id: str | None) -> Sequence[Fact]:
        """Our answer to a permission request; None is `cancelled`."""
        outcome = {"outcome": "cancelled"} if option_id is None else {"outcome": "selected", "optionId": option_id}
        return self._add_frame("out", {"id": request_id, "result": {"outcome": outcome}})

    def reply(self, request_id: RequestId, result: object = None) -> Sequence[Fact]:
        """Our answer to any other request of the agent's."""
        return self._add_frame("out", {"id": request_id, "result": result})

    def deny(self, request_id: RequestId, code: int = -32001, message: str = "no") -> Sequence[Fact]:
        """Our answer is an error."""
        return self._add_frame("out", {"id": request_id, "error": {"code": code, "message": message}})

    def note(self, note: notes.Note) -> Sequence[Fact]:
        return self._apply("host", notes.write(note))

    def reconnect(self) -> None:
        """From here on another connection carries the session: the ids of requests start again."""
        self._conversation = ConnectionReader()

    # -- what it amounts to

    def played_again(self) -> SessionFold:
        """The same frames through a fresh fold."""
        fold = SessionFold()
        for position, (direction, message) in enumerate(self.frames, start=1):
            fold.apply(position, float(position), direction, message)
        return fold

    def _add_frame(self, direction: Direction, frame: Params) -> Sequence[Fact]:
        assert direction != "host"
        line = msgspec.json.encode({"jsonrpc": "2.0", **frame})
        facts: list[Fact] = []
        for heard in self._conversation.read(direction, line):
            facts.extend(self._apply(direction, heard.message))
        return facts

    def _apply(self, direction: Direction, message: Message) -> Sequence[Fact]:
        self.frames.append((direction, message))
        position = len(self.frames)
        facts = self.fold.apply(position, float(position), direction, message)
        self.facts.extend(facts)
        return facts


def rows_of(fold: SessionFold) -> dict[str, Any]:
    """All rows as plain values, for comparison."""
    return {
        "messages": [
            (m.id, m.kind, m.run_id, m.message_id, m.time, m.replayed, m.text, m.blocks, m.ended) for m in fold.messages
        ],
        "tool_calls": list(fold.tool_calls),
        "plans": fold.plans,
        "commands": fold.commands,
        "settings": fold.settings,
        "usage": fold.usage,
        "title": fold.title,
        "permissions": fold.permissions,
        "files": fold.files,
        "terminals": fold.terminals,
        "questions": fold.questions,
        "runs": fold.runs,
        "sub_agents": fold.sub_agents,
    }
