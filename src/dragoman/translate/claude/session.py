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
from dragoman.translate.claude.records import (
    Block,
    Message,
    Record,
    command_meta,
    decode_blocks,
    decode_message,
    decode_text,
    native_meta,
)
from dragoman.translate.claude.results import block_text
from dragoman.translate.claude.session_state import STOPS, Runs, Settings, api_error
from dragoman.translate.scratch import Scratch, SpillingMap
from dragoman.translate.translator import Frame
from dragoman.wire.vocabulary import (
    AgentMessageChunk,
    AgentThoughtChunk,
    BlobResourceContents,
    CompactionSummaryChunk,
    CompactionUpdate,
    ContentBlock,
    EmbeddedResource,
    IdleStateUpdate,
    ImageContent,
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
OnTurnEnd: TypeAlias = Callable[[float], None]

_CALL_TYPES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


class Session:
    """The frames of one session, in order, to `out`. No method raises for the content of a record."""

    def __init__(
        self, session_id: str, at: float, record: Record, meta: dict[str, Any], out: list[Frame], scratch: Scratch
    ) -> None:
        self.id = session_id
        self._out = out
        cwd = record.cwd or ""
        self.runs = Runs(session_id, out)
        self.calls = Calls(session_id, cwd, out, scratch)
        self.settings = Settings(session_id, out)
        self._reported_states: SpillingMap[str] = SpillingMap(
            scratch
        )  # sub-agents by id: the state that was last reported
        self._sub_agents: dict[str, tuple[str, OnTurnEnd]] = {}  # sub-agents within the file that go on, by their calls
        self._command: tuple[float, Record, str] | None = None  # a slash command that nothing has answered
        self._is_output_hidden = False  # the output of a slash command that was not told
        self._injected: Record | None = None  # what was last put in the place of the user's words
        self._message_id = ""  # of the model's last message
        self._is_thinking_last = False  # the model's last line is a thought, and nothing has followed
        self._compaction: str | None = None
        request_id = f"{session_id}:new"
        request = NewSessionRequest(cwd=cwd, mcp_servers=(), meta=meta)
        out.append(frames.new_session(session_id, at, request_id, request))
        out.append(frames.answer(session_id, at, request_id, "session/new", NewSessionResponse(session_id=session_id)))

    # -- the model

    def assistant(self, at: float, record: Record) -> Sequence[Block]:
        """A line of a message. The pieces of it that nobody knows."""
        message = decode_message(record.message)
        content = decode_blocks(message.content)
        if record.is_api_error_message or message.model == SYNTHETIC:
            self._synthetic(at, record, content)
            return ()
        message_id = message.id or record.uuid or ""
        if not self.runs.is_running and message_id != self._message_id:
            self._begin_unprompted_run(at, record)
        self._message_id = message_id
        self.settings.model(at, message.model)
        unknown = [block for block in content if not self._emit_block(at, record, message_id, block)]
        if message.usage is not None:
            self.runs.add_tokens(message_id, message.model, message.usage)
            self.settings.usage(at, message.model, message.usage, native_meta(record))
        self._stop(at, message, content)
        return unknown

    def _emit_block(self, at: float, record: Record, message_id: str, block: Block) -> bool:
        match block.type:
            case "text":
                if block.text:
                    content = TextContent(text=block.text)
                    self.emit(at, AgentMessageChunk(content=content, message_id=message_id, meta=native_meta(record)))
            case "thinking":
                # Newer models keep their thoughts to themselves: only a signature is left.
                if block.thinking:
                    content = TextContent(text=block.thinking)
                    self.emit(at, AgentThoughtChunk(content=content, message_id=message_id, meta=native_meta(record)))
            case kind if kind in _CALL_TYPES:
                self.calls.add_call(at, block, native_meta(record))
            case kind if kind.endswith("_tool_result"):
                self.calls.add_result(at, block, record, native_meta(record))
            case "fallback":
                title = f"The answer comes from {_model(block.to)} in place of {_model(block.from_)}"
                self.emit(at, Notice(severity="info", title=title, meta=native_meta(record)))
            case kind:
                return kind in _SILENT_BLOCKS
        return True

    def _stop(self, at: float, message: Message, content: Sequence[Block]) -> None:
        last = content[-1].type if content else ""
        self._is_thinking_last = last == "thinking"
        stopped = STOPS.get(message.stop_reason or "")
        if stopped is not None and last == "text":
            # A message that stops by itself ends with words; thoughts stand before them, on lines of their own.
            self.runs.end(at, stopped)
        elif stopped is None and message.stop_reason is None and last == "text":
            self.runs.progress("end_turn")  # older versions do not tell; if nothing follows, it was the last word
        else:
            self.runs.progress(stopped)

    def _synthetic(self, at: float, record: Record, content: Sequence[Block]) -> None:
        """Claude Code speaks in the model's place: the model's provider refused, or nothing was to be said."""
        spoken = "\n".join(block.text for block in content if block.text)
        if not record.is_api_error_message:
            if spoken and spoken != "No response requested.":
                self.emit(at, Notice(severity="info", title=spoken, meta=native_meta(record)))
            return
        self.emit(at, Notice(severity="error", title=spoken or "API error", meta=native_meta(record)))
        self.runs.fail(at, api_error(spoken, decode_text(record.error)))

    def _begin_unprompted_run(self, at: float, record: Record) -> None:
        """The model speaks though nobody asked: a slash command had it do so, or a background task had news."""
        if self._command is not None:
            command_at, command, text = self._command
            self._command = None
            self.runs.begin(command_at, command.uuid or "", (TextContent(text=text),), command_meta(command))
            return
        meta = native_meta(record)
        if (injected := self._injected) is not None:
            kind = (injected.origin.kind if injected.origin else "") or "injected"
            meta["native"] |= {"origin": kind, "prompt": injected.message}
        self.runs.begin(at, f"unasked:{record.uuid or ''}", (), meta)

    # -- the user

    def user(self, at: float, record: Record, *, rewound_to: str | None = None) -> None:
        content = decode_blocks(decode_message(record.message).content)
        self._is_thinking_last = False
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
                self.runs.progress("end_turn")  # said along with a permission: the model was not stopped, but steered
            self._handle_user_text(at, record, spoken, rewound_to)

    def _result(self, at: float, block: Block, record: Record) -> None:
        output = self.calls.add_result(at, block, record, native_meta(record))
        self.runs.progress(None)
        if output is not None and output.agent_id is not None:
            is_running = output.status in ("async_launched", "running")
            self.report_sub_agent(
                at, output.agent_id, block.tool_use_id, RunningStateUpdate() if is_running else IdleStateUpdate()
            )
        if (sub_agent := self._sub_agents.pop(block.tool_use_id, None)) is not None:
            sub_agent_id, end_turn = sub_agent
            end_turn(at)
            self.report_sub_agent(at, sub_agent_id, block.tool_use_id, IdleStateUpdate())

    def _handle_user_text(self, at: float, record: Record, content: Sequence[Block], rewound_to: str | None) -> None:
        parsed = words.join([words.parse(block.text) for block in content if block.type == "text"])
        if parsed.interrupted:
            self._interrupted(at, record)
        for task in parsed.tasks:
            self._handle_task(at, record, task)
        if parsed.command:
            self.runs.settle(at)
        prompt = prompt_of(record, content)
        if prompt:
            self._begin_prompt(at, record, prompt, {"rewoundTo": rewound_to, "origin": parsed.injected or None})
        elif not self._handle_local(at, record, parsed) and parsed.injected:
            self._injected = record

    def _begin_prompt(
        self, at: float, record: Record, prompt: Sequence[ContentBlock], extras: dict[str, str | None]
    ) -> None:
        self._flush_command()
        self._injected = None
        self._is_output_hidden = False
        if extras.get("rewoundTo") is not None and not self.runs.would_end:
            self.runs.end(at, "cancelled")  # whoever goes back does not wait for the answer
        self.runs.settle(at)
        meta = native_meta(record)
        meta["native"] |= {key: value for key, value in extras.items() if value is not None}
        self.runs.begin(at, record.uuid or "", prompt, meta)

    def handle_queued(self, at: float, record: Record, content: Sequence[Block]) -> None:
        """Words that were typed while the model was at work, and have no record of the user's."""
        for block in content:
            for task in words.parse(block.text).tasks:
                self._handle_task(at, record, task)
        prompt = prompt_of(record, content)
        if not prompt:
            self._injected = record
        elif self.runs.is_running:
            for piece in prompt:
                self.emit(at, UserMessageChunk(content=piece, message_id=record.uuid, meta=native_meta(record)))
        else:
            self._begin_prompt(at, record, prompt, {})

    def handle_local_command(self, at: float, record: Record, text: str) -> None:
        """A command of the user's that Claude Code carried out itself, or what it printed.

        It may come while the model is at work, which then goes on: no answer of the model's belongs to it.
        """
        self._handle_local(at, record, words.parse(text))
        self._flush_command()

    def _handle_local(self, at: float, record: Record, parsed: words.UserText) -> bool:
        if parsed.command or parsed.hidden:
            self._is_output_hidden = parsed.hidden
        elif self._is_output_hidden and parsed.output:
            self._is_output_hidden = False
            return True
        if parsed.command:
            self._flush_command()
            self._command = (at, record, parsed.command)
        elif parsed.output or parsed.shell:
            self._flush_command()
            meta = native_meta(record)
            meta["native"]["local"] = True
            text = f"```console\n$ {parsed.shell}\n```" if parsed.shell else parsed.output
            self.emit(at, AgentMessageChunk(content=TextContent(text=text), message_id=record.uuid, meta=meta))
        return bool(parsed.command or parsed.output or parsed.shell)

    def _flush_command(self) -> None:
        """A slash command that the model did not answer: no run, but someone typed it."""
        if self._command is None:
            return
        at, record, text = self._command
        self._command = None
        self.emit(
            at, UserMessageChunk(content=TextContent(text=text), message_id=record.uuid, meta=command_meta(record))
        )

    def _interrupted(self, at: float, record: Record) -> None:
        self.calls.interrupted(at, native_meta(record))
        self.runs.end(at, "cancelled")

    # -- sub-agents, background tasks, compaction

    def report_sub_agent(self, at: float, agent_id: str, tool_use_id: str, state: StateUpdate) -> None:
        """A sub-agent is known, or its state changed: said when it is news."""
        kind = str(type(state).__struct_config__.tag)
        if self._reported_states.get(agent_id) == kind:
            return
        self._reported_states.put(agent_id, kind)
        meta = {"claudeCode": {"parentToolUseId": tool_use_id}}
        title = self.calls.description_of(tool_use_id) or msgspec.UNSET
        self.emit(at, SubagentUpdate(session_id=agent_id, title=title, state=state, meta=meta))

    def link_sub_agent(self, at: float, tool_use_id: str, sub_agent_id: str, end_turn: OnTurnEnd) -> None:
        """A sub-agent whose records stand between ours: it goes on until the call has its result. `over` tells it."""
        self._sub_agents[tool_use_id] = (sub_agent_id, end_turn)
        self.report_sub_agent(at, sub_agent_id, tool_use_id, RunningStateUpdate())

    def _handle_task(self, at: float, record: Record, task: words.Task) -> None:
        call_id = self.calls.report_task(at, task, native_meta(record))
        if call_id is not None and task.id in self._reported_states:
            self.report_sub_agent(at, task.id, call_id, IdleStateUpdate())

    def report_compaction(self, at: float, record: Record) -> None:
        self._compaction = record.uuid or ""
        meta = native_meta(record)
        meta["native"]["compact"] = record.compact_metadata
        self.emit(at, CompactionUpdate(compaction_id=self._compaction, status="completed", meta=meta))

    def _summary(self, at: float, record: Record, content: Sequence[Block]) -> None:
        if self._compaction is None:
            self._compaction = record.uuid or ""
            self.emit(
                at, CompactionUpdate(compaction_id=self._compaction, status="completed", meta=native_meta(record))
            )
        for block in content:
            if block.type == "text" and block.text:
                text = TextContent(text=block.text)
                chunk = CompactionSummaryChunk(compaction_id=self._compaction, content=text, meta=native_meta(record))
                self.emit(at, chunk)
        self._compaction = None

    # -- the end

    def end_turn(self, at: float) -> None:
        """Claude Code says that the turn is over."""
        if not self.runs.would_end:
            self.runs.progress("end_turn")
        self.runs.settle(at)

    def on_stop_hook(self, at: float) -> None:
        """The model stopped, and hooks were asked whether it may; where they said no, it goes on as unasked."""
        if self.runs.would_end or self._is_thinking_last:
            self.end_turn(at)

    def finish(self, at: float) -> None:
        self._flush_command()
        self.calls.finish(at)
        self.runs.settle(at)

    def emit(self, at: float, update: SessionUpdate) -> None:
        self._out.append(frames.update(self.id, at, update))


def _model(value: Any) -> str:
    return str(value.get("model", "another model")) if isinstance(value, dict) else str(value or "another model")


def prompt_of(record: Record, content: Sequence[Block]) -> list[ContentBlock]:
    """The user's own text and attachments; empty if there are none."""
    prompt: list[ContentBlock] = []
    for block in content:
        if block.type != "text":
            prompt.append(_attachment_block(record, block))
        elif (text := words.parse(block.text).prompt).strip():
            prompt.append(TextContent(text=text))
    return prompt


def _attachment_block(record: Record, block: Block) -> ContentBlock:
    source = block.source
    if source is not None and source.type == "base64":
        if block.type == "image":
            return ImageContent(data=source.data, mime_type=source.media_type)
        uri = f"claude:{record.uuid}/{block.title or block.type}"
        return EmbeddedResource(resource=BlobResourceContents(uri=uri, mime_type=source.media_type, blob=source.data))
    return TextContent(text=block_text(block))
