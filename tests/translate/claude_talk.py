"""Hand-made transcripts of Claude Code, and what becomes of a transcript: frames, folds, and the journal's rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import msgspec

from dragoman.journal.entry import Entry, direction_of, read_message
from dragoman.record.fold import SessionFold
from dragoman.record.routing import ConnectionReader
from dragoman.translate.claude.translator import ClaudeTranslator
from dragoman.translate.translator import Frame
from dragoman.wire.messages import Notification, Reply, Request, Unknown, Update

SESSION = "11111111-2222-3333-4444-555555555555"
BEGAN = datetime(2026, 3, 1, 10, tzinfo=UTC).timestamp()  # the first line is a second later
FOLDER = "/home/ada/proj"


class Transcript:
    """Lines as Claude Code writes them, each a second after the one before."""

    def __init__(self, **common: Any) -> None:
        self.lines: list[bytes] = []
        self._common = common

    def add(self, type_: str, **fields: Any) -> str:
        """A record of any type; its uuid."""
        number = len(self.lines) + 1
        uuid = str(fields.setdefault("uuid", f"uuid-{number}"))
        parent = f"uuid-{number - 1}" if number > 1 else None
        common = {
            "parentUuid": parent,
            "isSidechain": False,
            "cwd": FOLDER,
            "sessionId": SESSION,
            "version": "2.1.200",
            "timestamp": f"2026-03-01T10:{number // 60:02}:{number % 60:02}.000Z",
        }
        self.lines.append(msgspec.json.encode({"type": type_, **common, **self._common, **fields}))
        return uuid

    def bare(self, type_: str, **fields: Any) -> None:
        """A record without a uuid and a time, as titles and modes are."""
        self.lines.append(msgspec.json.encode({"type": type_, "sessionId": SESSION, **fields}))

    def user(self, content: Any, **fields: Any) -> str:
        return self.add("user", message={"role": "user", "content": content}, **fields)

    def say(self, *blocks: dict[str, Any], id: str = "msg_1", stop: str | None = None, **fields: Any) -> str:
        usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100}
        message = {"id": id, "role": "assistant", "model": "claude-opus-5", "content": blocks, "stop_reason": stop}
        message["usage"] = fields.pop("usage", usage)
        message["model"] = fields.pop("model", "claude-opus-5")
        return self.add("assistant", message=message, **fields)

    def text(self, words: str, *, id: str = "msg_1", stop: str | None = "end_turn", **fields: Any) -> str:
        return self.say({"type": "text", "text": words}, id=id, stop=stop, **fields)

    def call(
        self, tool: str, input: dict[str, Any], call_id: str = "toolu_1", *, id: str = "msg_1", **fields: Any
    ) -> str:
        block = {"type": "tool_use", "id": call_id, "name": tool, "input": input}
        return self.say(block, id=id, stop="tool_use", **fields)

    def result(
        self, content: Any = "done", output: Any = None, call_id: str = "toolu_1", *, error: bool = False, **fields: Any
    ) -> str:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        if error:
            block["is_error"] = True
        return self.user([block], **({"toolUseResult": output} if output is not None else {}), **fields)

    # -- what becomes of it

    def frames(self, name: str = f"{SESSION}.jsonl", sidecar: bytes = b"", *, finish: bool = True) -> list[Frame]:
        return translated(self.lines, name, sidecar, finish=finish)

    def fold(self, session_id: str = SESSION) -> SessionFold:
        return folds(self.frames())[session_id]


def translated(
    lines: Sequence[bytes], name: str = f"{SESSION}.jsonl", sidecar: bytes = b"", *, finish: bool = True
) -> list[Frame]:
    translator = ClaudeTranslator(PurePath(name), sidecar)
    frames: list[Frame] = []
    position = 0
    for line in lines:
        frames.extend(translator.feed(line, position))
        position += len(line) + 1
    return [*frames, *translator.finish()] if finish else frames


def folds(frames: Sequence[Frame]) -> dict[str, SessionFold]:
    """Fold the frames by session, as a live connection would; check that each frame is read as its type."""
    conversation = ConnectionReader()
    found: dict[str, SessionFold] = {}
    for position, frame in enumerate(frames):
        assert b"\n" not in frame.line
        (heard,) = conversation.read(frame.direction, frame.line)
        message = heard.message
        assert isinstance(message, Update | Request | Reply | Notification), message
        assert not (isinstance(message, Update) and isinstance(message.update, Unknown)), frame.line
        assert heard.session_id in (frame.session_id, None)
        _as_the_journal_reads_it(frame)
        fold = found.setdefault(frame.session_id, SessionFold())
        fold.apply(position, frame.at, frame.direction, message)
    return found


def _as_the_journal_reads_it(frame: Frame) -> None:
    entry = Entry("c", "s", 1, frame.at, "import", frame.kind, frame.line)
    assert direction_of("import", read_message(entry)) == frame.direction, frame


def updates(frames: Sequence[Frame], kind: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(frame.line)["params"]["update"] for frame in frames if frame.kind == kind]


def natives(frames: Sequence[Frame]) -> list[dict[str, Any]]:
    return [msgspec.json.decode(frame.line)["params"] for frame in frames if frame.kind == "_native/claude"]
