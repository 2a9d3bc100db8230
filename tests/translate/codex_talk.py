"""Hand-made transcripts of Codex, and what becomes of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from dragoman.record import rows
from dragoman.record.fold import SessionFold
from dragoman.translate.codex.translator import CodexTranslator
from dragoman.translate.translator import Frame
from translate.claude_talk import folds

THREAD = "019d7e36-577c-7d90-9f1c-a447ba2254b4"
PARENT = "019d7d08-46c9-7f73-affe-4e6ca9852d56"
OWN_TURN = "019d7e36-57aa-7373-b23c-bcf62344db6f"  # its time is after that of the thread
PARENTS_TURN = "019d7d08-f1d2-78a1-ae52-df8e21f9b394"
FOLDER = "/home/ada/proj"
NAME = f"rollout-2026-04-11T20-23-03-{THREAD}.jsonl"


class Transcript:
    """Lines as Codex writes them, each a second after the one before."""

    def __init__(self, *, begun: bool = True, **meta: Any) -> None:
        self.lines: list[bytes] = []
        if begun:
            self.began(**meta)

    def began(self, **meta: Any) -> None:
        common = {"id": THREAD, "timestamp": "2026-04-11T20:23:03.806Z", "cwd": FOLDER, "cli_version": "0.118.0"}
        self.add("session_meta", **{**common, **meta})

    def add(self, line_type: str, **payload: Any) -> None:
        """A record of any type."""
        self.line(type=line_type, payload=payload)

    def line(self, **fields: Any) -> None:
        number = len(self.lines)
        stamp = f"2026-04-11T20:{23 + number // 60:02}:{number % 60:02}.000Z"
        self.lines.append(msgspec.json.encode({"timestamp": stamp, **fields}))

    def event(self, event_type: str, **fields: Any) -> None:
        self.add("event_msg", type=event_type, **fields)

    def item(self, item_type: str, **fields: Any) -> None:
        self.add("response_item", type=item_type, **fields)

    def completed(self, item_type: str, **fields: Any) -> None:
        self.event("item_completed", item={"type": item_type, **fields})

    # -- messages

    def started(self, turn_id: str = OWN_TURN) -> None:
        self.event("task_started", turn_id=turn_id)

    def ended(self, **fields: Any) -> None:
        self.event("task_complete", **fields)

    def prompt(self, text: str, **fields: Any) -> None:
        """Add the event and its copy in the model's history, as legacy files have both."""
        self.item("message", role="user", content=[{"type": "input_text", "text": text}])
        self.event("user_message", message=text, **fields)

    def text(self, words: str, **fields: Any) -> None:
        self.event("agent_message", message=words)
        self.item("message", role="assistant", content=[{"type": "output_text", "text": words}], **fields)

    def thought(self, *parts: str, **fields: Any) -> None:
        for part in parts:
            self.event("agent_reasoning", text=part)
        self.item("reasoning", summary=[{"type": "summary_text", "text": part} for part in parts], **fields)

    def call(self, tool: str, arguments: dict[str, Any], call_id: str = "call_1", **fields: Any) -> None:
        encoded = msgspec.json.encode(arguments).decode()
        self.item("function_call", name=tool, arguments=encoded, call_id=call_id, **fields)

    def custom(self, tool: str, text: str, call_id: str = "call_1") -> None:
        self.item("custom_tool_call", name=tool, input=text, call_id=call_id, status="completed")

    def output(self, output: Any, call_id: str = "call_1") -> None:
        self.item("function_call_output", call_id=call_id, output=output)

    def tokens(self, total: int, last: int = 0) -> None:
        def count(tokens: int) -> dict[str, int]:
            half = tokens // 2
            return {"input_tokens": tokens - 10, "cached_input_tokens": half, "output_tokens": 10,
                    "reasoning_output_tokens": 4, "total_tokens": tokens}  # fmt: skip

        info = {"total_token_usage": count(total), "last_token_usage": count(last), "model_context_window": 1000}
        self.event("token_count", info=info)

    def run(self, prompt: str = "Go", answer: str = "Done.") -> None:
        """A whole turn of words."""
        self.started()
        self.prompt(prompt)
        self.text(answer)
        self.ended()

    # -- what becomes of it

    def frames(self, sidecar: bytes = b"", *, finish: bool = True) -> list[Frame]:
        return translated(self.lines, sidecar=sidecar, finish=finish)

    def fold(self) -> SessionFold:
        return folds(self.frames())[THREAD]

    def tool(self) -> rows.ToolCall:
        """The one tool call."""
        (call,) = self.fold().tool_calls
        return call


def translated(lines: Sequence[bytes], name: str = NAME, sidecar: bytes = b"", *, finish: bool = True) -> list[Frame]:
    translator = CodexTranslator(PurePath(name), sidecar)
    frames: list[Frame] = []
    position = 0
    for line in lines:
        frames.extend(translator.feed(line, position))
        position += len(line) + 1
    return [*frames, *translator.finish()] if finish else frames


def conversation_of(fold: SessionFold) -> list[tuple[str, str]]:
    return [(message.kind, message.text) for message in fold.messages]


def natives(frames: Sequence[Frame]) -> list[dict[str, Any]]:
    return [msgspec.json.decode(frame.line)["params"] for frame in frames if frame.kind == "_native/codex"]
