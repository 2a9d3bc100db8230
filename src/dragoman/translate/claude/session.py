"""One session of Claude's: its own conversation, or a sub-agent's. Records in, frames out.

The order of the file is the order of the conversation: neither times nor the tree of `parentUuid` change it, for both
go back and forth by the way the file is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from dragoman.translate import frames
from dragoman.translate.claude import words
from dragoman.translate.claude.calls import Calls
from dragoman.translate.claude.prompts import commanded, native, prompt_of
from dragoman.translate.claude.records import Block, Record, Said, blocks, said, text_of
from dragoman.translate.claude.runs import STOPS, Runs, api_error
from dragoman.translate.claude.settings import Settings
from dragoman.translate.scratch import Scratch, SpillingMap
from dragoman.translate.translator import Frame
from dragoman.wire.vocabulary import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionSummaryChunk,
    CompactionUpdate,
    ContentBlock,
    IdleStateUpdate,
    NewSessionRequest,
    NewSessionResponse,
    Notice,
    RunningStateUpdate,
    SessionUpdate,
    StateUpdate,
    SubagentUpdate,
    TextContent,
    UserMessageChunk,
)

# The model's name in what Claude Code itself says in the model's place.
SYNTHETIC: Final = "<synthetic>"

# Pieces of a message that nothing is told of: they have no words.
_SILENT_BLOCKS: Final = frozenset({"redacted_thinking", "connector_text"})

# Tells a sub-agent that its turn is over, and when.
Over: TypeAlias = Callable[[float], None]

_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


class Session:
    """What is to be told goes to `out`, in order. Nothing here raises for what a record says."""

    def __init__(
        self, session_id: str, at: float, record: Record, meta: dict[str, Any], out: list[Frame], scratch: Scratch
    ) -> None:
        self.id = session_id
        self._out = out
        cwd = record.cwd or ""
        self.runs = Runs(session_id, out)
        self.calls = Calls(session_id, cwd, out, scratch)
        self.settings = Settings(session_id, out)
        self._agents: SpillingMap[str] = SpillingMap(scratch)  # sub-agents by id: the state that was last reported
        self._sides: dict[str, tuple[str, Over]] = {}  # sub-agents within the file that go on, by their calls
        self._command: tuple[float, Record, str] | None = None  # a slash command that nothing has answered
        self._hiding = False  # the output of a slash command that was not told
        self._injected: Record | None = None  # what was last put in the place of the user's words
        self._message_id = ""  # of the model's last message
        self._thought_last = False  # the model's last line is a thought, and nothing has followed
        self._compaction: str | None = None
        request_id = f"{session_id}:new"
        asked = NewSessionRequest(cwd=cwd, mcp_servers=(), meta=meta)
        out.append(frames.new_session(session_id, at, request_id, asked))
        out.append(frames.answer(session_id, at, request_id, "session/new", NewSessionResponse(session_id=session_id)))

    # -- the model

    def assistant(self, at: float, record: Record) -> Sequence[Block]:
        """A line of a message. The pieces of it that nobody knows."""
        message = said(record.message)
        content = blocks(message.content)
        if record.is_api_error_message or message.model == SYNTHETIC:
            self._synthetic(at, record, content)
            return ()
        message_id = message.id or record.uuid or ""
        if not self.runs.going_on and message_id != self._message_id:
            self._begin_unasked(at, record)
        self._message_id = message_id
        self.settings.model(at, message.model)
        unknown = [block for block in content if not self._piece(at, record, message_id, block)]
        if message.usage is not None:
            self.runs.spent(message_id, message.model, message.usage)
            self.settings.usage(at, message.model, message.usage, native(record))
        self._stop(at, message, content)
        return unknown

    def _piece(self, at: float, record: Record, message_id: str, block: Block) -> bool:
        match block.type:
            case "text":
                if block.text:
                    content = TextContent(text=block.text)
                    self.tell(at, AgentMessageChunk(content=content, message_id=message_id, meta=native(record)))
            case "thinking":
                # Newer models keep their thoughts to themselves: only a signature is left.
                if block.thinking:
                    content = TextContent(text=block.thinking)
                    self.tell(at, AgentThoughtChunk(content=content, message_id=message_id, meta=native(record)))
            case kind if kind in _CALLS:
                self.calls.called(at, block, native(record))
            case kind if kind.endswith("_tool_result"):
                self.calls.answered(at, block, record, native(record))
            case "fallback":
                title = f"The answer comes from {_model(block.to)} in place of {_model(block.from_)}"
                self.tell(at, Notice(severity="info", title=title, meta=native(record)))
            case kind:
                return kind in _SILENT_BLOCKS
        return True

    def _stop(self, at: float, message: Said, content: Sequence[Block]) -> None:
        last = content[-1].type if content else ""
        self._thought_last = last == "thinking"
        stopped = STOPS.get(message.stop_reason or "")
        if stopped is not None and last == "text":
            # A message that stops by itself ends with words; thoughts stand before them, on lines of their own.
            self.runs.end(at, stopped)
        elif stopped is None and message.stop_reason is None and last == "text":
            self.runs.heard("end_turn")  # older versions do not tell; if nothing follows, it was the last word
        else:
            self.runs.heard(stopped)

    def _synthetic(self, at: float, record: Record, content: Sequence[Block]) -> None:
        """Claude Code speaks in the model's place: the model's provider refused, or nothing was to be said."""
        spoken = "\n".join(block.text for block in content if block.text)
        if not record.is_api_error_message:
            if spoken and spoken != "No response requested.":
                self.tell(at, Notice(severity="info", title=spoken, meta=native(record)))
            return
        self.tell(at, Notice(severity="error", title=spoken or "API error", meta=native(record)))
        self.runs.fail(at, api_error(spoken, text_of(record.error)))

    def _begin_unasked(self, at: float, record: Record) -> None:
        """The model speaks though nobody asked: a slash command had it do so, or a background task had news."""
        if self._command is not None:
            asked_at, asked, text = self._command
            self._command = None
            self.runs.begin(asked_at, asked.uuid or "", (TextContent(text=text),), commanded(asked))
            return
        meta = native(record)
        if (injected := self._injected) is not None:
            kind = (injected.origin.kind if injected.origin else "") or "injected"
            meta["native"] |= {"origin": kind, "prompt": injected.message}
        self.runs.begin(at, f"unasked:{record.uuid or ''}", (), meta)

    # -- the user

    def user(self, at: float, record: Record, *, rewound_to: str | None = None) -> None:
        content = blocks(said(record.message).content)
        self._thought_last = False
        if record.permission_mode is not None:
            self.settings.mode(at, record.permission_mode)
        results = [block for block in content if block.type == "tool_result"]
        for block in results:
            self._result(at, block, record)
        if record.is_compact_summary:
            self._summary(at, record, content)
        elif record.is_meta:
            self._injected = record
        elif len(results) < len(content):
            spoken = [block for block in content if block.type != "tool_result"]
            if results and prompt_of(record, spoken):
                self.runs.heard("end_turn")  # said along with a permission: the model was not stopped, but steered
            self._spoken(at, record, spoken, rewound_to)

    def _result(self, at: float, block: Block, record: Record) -> None:
        output = self.calls.answered(at, block, record, native(record))
        self.runs.heard(None)
        if output is not None and output.agent_id is not None:
            going_on = output.status in ("async_launched", "running")
            self.agent(at, output.agent_id, block.tool_use_id, RunningStateUpdate() if going_on else IdleStateUpdate())
        if (side := self._sides.pop(block.tool_use_id, None)) is not None:
            side_id, over = side
            over(at)
            self.agent(at, side_id, block.tool_use_id, IdleStateUpdate())

    def _spoken(self, at: float, record: Record, content: Sequence[Block], rewound_to: str | None) -> None:
        heard = words.joined([words.read(block.text) for block in content if block.type == "text"])
        if heard.interrupted:
            self._interrupted(at, record)
        for task in heard.tasks:
            self._news(at, record, task)
        if heard.command:
            self.runs.settle(at)
        asked = prompt_of(record, content)
        if asked:
            self._asked(at, record, asked, {"rewoundTo": rewound_to, "origin": heard.injected or None})
        elif not self._done_here(at, record, heard) and heard.injected:
            self._injected = record

    def _asked(self, at: float, record: Record, prompt: Sequence[ContentBlock], extras: dict[str, str | None]) -> None:
        self._flush_command()
        self._injected = None
        self._hiding = False
        if extras.get("rewoundTo") is not None and not self.runs.would_end:
            self.runs.end(at, "cancelled")  # whoever goes back does not wait for the answer
        self.runs.settle(at)
        meta = native(record)
        meta["native"] |= {key: value for key, value in extras.items() if value is not None}
        self.runs.begin(at, record.uuid or "", prompt, meta)

    def queued(self, at: float, record: Record, content: Sequence[Block]) -> None:
        """Words that were typed while the model was at work, and have no record of the user's."""
        for block in content:
            for task in words.read(block.text).tasks:
                self._news(at, record, task)
        prompt = prompt_of(record, content)
        if not prompt:
            self._injected = record
        elif self.runs.going_on:
            for piece in prompt:
                self.tell(at, UserMessageChunk(content=piece, message_id=record.uuid, meta=native(record)))
        else:
            self._asked(at, record, prompt, {})

    def local(self, at: float, record: Record, text: str) -> None:
        """A command of the user's that Claude Code carried out itself, or what it printed.

        It may come while the model is at work, which then goes on: no answer of the model's belongs to it.
        """
        self._done_here(at, record, words.read(text))
        self._flush_command()

    def _done_here(self, at: float, record: Record, heard: words.Words) -> bool:
        if heard.command or heard.hidden:
            self._hiding = heard.hidden
        elif self._hiding and heard.output:
            self._hiding = False
            return True
        if heard.command:
            self._flush_command()
            self._command = (at, record, heard.command)
        elif heard.output or heard.shell:
            self._flush_command()
            meta = native(record)
            meta["native"]["local"] = True
            text = f"```console\n$ {heard.shell}\n```" if heard.shell else heard.output
            self.tell(at, AgentMessageChunk(content=TextContent(text=text), message_id=record.uuid, meta=meta))
        return bool(heard.command or heard.output or heard.shell)

    def _flush_command(self) -> None:
        """A slash command that the model did not answer: no run, but someone typed it."""
        if self._command is None:
            return
        at, record, text = self._command
        self._command = None
        self.tell(at, UserMessageChunk(content=TextContent(text=text), message_id=record.uuid, meta=commanded(record)))

    def _interrupted(self, at: float, record: Record) -> None:
        self.calls.interrupted(at, native(record))
        self.runs.end(at, "cancelled")

    # -- sub-agents, background tasks, compaction

    def agent(self, at: float, agent_id: str, tool_use_id: str, state: StateUpdate) -> None:
        """A sub-agent is known, or its state changed: said when it is news."""
        kind = str(type(state).__struct_config__.tag)
        if self._agents.get(agent_id) == kind:
            return
        self._agents.put(agent_id, kind)
        meta = {"claudeCode": {"parentToolUseId": tool_use_id}}
        title = self.calls.description_of(tool_use_id) or msgspec.UNSET
        self.tell(at, SubagentUpdate(session_id=agent_id, title=title, state=state, meta=meta))

    def begun_by(self, at: float, tool_use_id: str, side_id: str, over: Over) -> None:
        """A sub-agent whose records stand between ours: it goes on until the call has its result. `over` tells it."""
        self._sides[tool_use_id] = (side_id, over)
        self.agent(at, side_id, tool_use_id, RunningStateUpdate())

    def _news(self, at: float, record: Record, task: words.Task) -> None:
        call_id = self.calls.news(at, task, native(record))
        if call_id is not None and task.id in self._agents:
            self.agent(at, task.id, call_id, IdleStateUpdate())

    def compacted(self, at: float, record: Record) -> None:
        self._compaction = record.uuid or ""
        meta = native(record)
        meta["native"]["compact"] = record.compact_metadata
        self.tell(at, CompactionUpdate(compaction_id=self._compaction, status="completed", meta=meta))

    def _summary(self, at: float, record: Record, content: Sequence[Block]) -> None:
        if self._compaction is None:
            self._compaction = record.uuid or ""
            self.tell(at, CompactionUpdate(compaction_id=self._compaction, status="completed", meta=native(record)))
        for block in content:
            if block.type == "text" and block.text:
                text = TextContent(text=block.text)
                said = CompactionSummaryChunk(compaction_id=self._compaction, content=text, meta=native(record))
                self.tell(at, said)
        self._compaction = None

    # -- the end

    def over(self, at: float) -> None:
        """Claude Code says that the turn is over."""
        if not self.runs.would_end:
            self.runs.heard("end_turn")
        self.runs.settle(at)

    def stopping(self, at: float) -> None:
        """The model stopped, and hooks were asked whether it may; where they said no, it goes on as unasked."""
        if self.runs.would_end or self._thought_last:
            self.over(at)

    def finish(self, at: float) -> None:
        self._flush_command()
        self.calls.finish(at)
        self.runs.settle(at)

    def tell(self, at: float, update: SessionUpdate) -> None:
        self._out.append(frames.update(self.id, at, update))


def _model(value: Any) -> str:
    return str(value.get("model", "another model")) if isinstance(value, dict) else str(value or "another model")
