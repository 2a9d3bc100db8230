"""One session of Claude Code, or of a sub-agent: records in, frames out.

The order of the file is the order of the conversation. Times and the tree of `parentUuid` do not change it: both go
back and forth because of the way in which the file is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from dragoman.translate.claude.calls import Calls
from dragoman.translate.claude.records import (
    Block,
    Message,
    Record,
    TaskNews,
    UserText,
    command_meta,
    decode_blocks,
    decode_message,
    decode_text,
    global_id,
    join_user_texts,
    native_meta,
    parse_user_text,
)
from dragoman.translate.claude.session_state import STOPS, Runs, Settings, api_error
from dragoman.translate.claude.tools import block_text
from dragoman.translate.frames import SessionFrames
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
    Notice,
    NoticeSeverity,
    ResourceLink,
    RunningStateUpdate,
    StateUpdate,
    SubagentUpdate,
    TextContent,
    UserMessageChunk,
)

# The name of the model in messages that Claude Code itself wrote.
SYNTHETIC: Final = "<synthetic>"

# Blocks of a message that are not reported: they have no text.
_SILENT_BLOCKS: Final = frozenset({"redacted_thinking", "connector_text"})

# Called with the time when the turn of a sub-agent has ended.
OnTurnEnd: TypeAlias = Callable[[float], None]

_CALL_TYPES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


class Session:
    """Appends the frames of one session to `out`. No method raises for the content of a record."""

    def __init__(
        self, session_id: str, at: float, record: Record, meta: dict[str, Any], out: list[Frame], scratch: Scratch
    ) -> None:
        self.id = session_id
        self.frames = SessionFrames(session_id, out)
        cwd = record.cwd or ""
        self.runs = Runs(self.frames)
        self.calls = Calls(self.frames, cwd, scratch)
        self.settings = Settings(self.frames)
        self._reported_states: SpillingMap[str] = SpillingMap(scratch)  # of sub-agents, by their ids
        self._sub_agents: dict[str, tuple[str, OnTurnEnd]] = {}  # running ones within the file, by their calls
        self._command: tuple[float, Record, str] | None = None  # a slash command without an answer
        self._is_output_hidden = False  # the output of the last slash command is not reported
        self._injected: Record | None = None  # the last record in the user's role that the user did not write
        self._message_id = ""  # of the model's last message
        self._is_prompt_last = False  # neither the model nor a tool has answered the last prompt
        self._open_calls: set[str] = set()  # calls of the active run without a result
        self._compaction: str | None = None
        self.frames.open(at, cwd, meta)

    # -- the model

    def assistant(self, at: float, record: Record) -> Sequence[Block]:
        """Add a line of a message. Return its blocks of unknown types."""
        message = decode_message(record.message)
        content = decode_blocks(message.content)
        self._is_prompt_last = False
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
            self.runs.add_tokens(message_id, global_id(record, self.id), message.model, message.usage)
            self.settings.usage(at, message.model, message.usage, native_meta(record))
        self._stop(at, message, content)
        return unknown

    def _emit_block(self, at: float, record: Record, message_id: str, block: Block) -> bool:
        match block.type:
            case "text":
                if block.text:
                    content = TextContent(text=block.text)
                    self.frames.update(
                        at, AgentMessageChunk(content=content, message_id=message_id, meta=native_meta(record))
                    )
            case "thinking":
                # Thoughts of newer models are hidden: only a signature is left.
                if block.thinking:
                    content = TextContent(text=block.thinking)
                    self.frames.update(
                        at, AgentThoughtChunk(content=content, message_id=message_id, meta=native_meta(record))
                    )
            case kind if kind in _CALL_TYPES:
                self._open_calls.add(block.id)
                self.calls.add_call(at, block, native_meta(record))
            case kind if kind.endswith("_tool_result"):
                self._open_calls.discard(block.tool_use_id)
                self.calls.add_result(at, block, record, native_meta(record))
            case "fallback":
                title = f"The answer comes from {_model(block.to)} in place of {_model(block.from_)}"
                self.frames.update(at, Notice(severity="info", title=title, meta=native_meta(record)))
            case kind:
                return kind in _SILENT_BLOCKS
        return True

    def _stop(self, at: float, message: Message, content: Sequence[Block]) -> None:
        last = content[-1].type if content else ""
        stopped = STOPS.get(message.stop_reason or "")
        if stopped is not None and last == "text":
            # A message that stops by itself ends with text; thoughts are on lines of their own before it.
            self.runs.end(at, stopped)
        elif stopped is None and message.stop_reason is None and last == "text":
            # Older versions have no stop reason. If nothing follows, this was the last text.
            self.runs.progress(at, "end_turn")
        else:
            self.runs.progress(at, stopped)

    def _synthetic(self, at: float, record: Record, content: Sequence[Block]) -> None:
        """Add a message that Claude Code itself wrote: the model's provider refused, or no answer was needed."""
        text = "\n".join(block.text for block in content if block.text)
        if not record.is_api_error_message:
            if text and text != "No response requested.":
                self.frames.update(at, Notice(severity="info", title=text, meta=native_meta(record)))
            return
        self.frames.update(at, Notice(severity="error", title=text or "API error", meta=native_meta(record)))
        self.runs.fail(at, api_error(text, decode_text(record.error)))

    def _begin_unprompted_run(self, at: float, record: Record) -> None:
        """Begin a run without a prompt: a slash command started it, or a notification of a background task."""
        self._open_calls.clear()
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
            texts = [block for block in content if block.type != "tool_result"]
            if results and prompt_of(record, texts):
                # Sent with an answer to a permission request: the run was not stopped.
                self.runs.progress(at, "end_turn")
            self._handle_user_text(at, record, texts, rewound_to)

    def _result(self, at: float, block: Block, record: Record) -> None:
        output = self.calls.add_result(at, block, record, native_meta(record))
        self._is_prompt_last = False
        self._open_calls.discard(block.tool_use_id)
        self.runs.progress(at, None)
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
        parsed = join_user_texts([parse_user_text(block.text) for block in content if block.type == "text"])
        if parsed.interrupted:
            self._interrupted(at, record)
        if parsed.notice:
            self.report(at, record, "warning", parsed.notice)
            self._injected = record
        if parsed.stopped:
            self.runs.end(at, "cancelled")
        for task in parsed.tasks:
            self._handle_task(at, record, task)
        if parsed.command:
            self.runs.settle()
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
            self.runs.give_up()  # by going back, the user gave up the answer
        self.runs.settle()
        meta = native_meta(record)
        meta["native"] |= {key: value for key, value in extras.items() if value is not None}
        self.runs.begin(at, record.uuid or "", prompt, meta)
        self._is_prompt_last = True
        self._open_calls.clear()

    def attach(self, at: float, record: Record, link: ResourceLink) -> None:
        """Add a file, folder or resource that the user named in the last prompt (`@README.md`).

        After a compaction Claude Code attaches files by itself: these do not follow a prompt.
        """
        if self._is_prompt_last and self.runs.is_running:
            meta = native_meta(record)
            meta["native"]["attachment"] = True
            self.frames.update(at, UserMessageChunk(content=link, message_id=record.uuid, meta=meta))

    def report(self, at: float, record: Record, severity: NoticeSeverity, text: str, title: str = "") -> None:
        """Report words of Claude Code itself. Without a title, the first line of the text is the title."""
        if not title:
            title, _, text = text.strip().partition("\n")
        text = text.strip()
        notice = Notice(severity=severity, title=title, description=text or None, meta=native_meta(record))
        self.frames.update(at, notice)

    def handle_queued(self, at: float, record: Record, content: Sequence[Block]) -> None:
        """Add a text that the user typed during a run, and that has no record of its own."""
        for block in content:
            for task in parse_user_text(block.text).tasks:
                self._handle_task(at, record, task)
        prompt = prompt_of(record, content)
        if not prompt:
            self._injected = record
        elif self.runs.is_running:
            self.runs.touch(at)
            for piece in prompt:
                self.frames.update(
                    at, UserMessageChunk(content=piece, message_id=record.uuid, meta=native_meta(record))
                )
        else:
            self._begin_prompt(at, record, prompt, {})

    def handle_local_command(self, at: float, record: Record, text: str) -> None:
        """Add a command of the user that Claude Code carried out itself, or its output.

        It may come during a run, which then continues: it has no answer of the model.
        """
        self._handle_local(at, record, parse_user_text(text))
        self._flush_command()

    def _handle_local(self, at: float, record: Record, parsed: UserText) -> bool:
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
            chunk = UserMessageChunk if parsed.shell else AgentMessageChunk
            content = TextContent(text=f"!{parsed.shell}" if parsed.shell else parsed.output)
            self.frames.update(at, chunk(content=content, message_id=record.uuid, meta=meta))
        return bool(parsed.command or parsed.output or parsed.shell)

    def _flush_command(self) -> None:
        """Report a slash command that the model did not answer as a message of the user."""
        if self._command is None:
            return
        at, record, text = self._command
        self._command = None
        self.frames.update(
            at, UserMessageChunk(content=TextContent(text=text), message_id=record.uuid, meta=command_meta(record))
        )

    def _interrupted(self, at: float, record: Record) -> None:
        self.calls.interrupted(at, native_meta(record))
        self.runs.end(at, "cancelled")

    # -- sub-agents, background tasks, compaction

    def report_sub_agent(self, at: float, agent_id: str, tool_use_id: str, state: StateUpdate) -> None:
        """Report a sub-agent when it first appears and when its state changes."""
        kind = str(type(state).__struct_config__.tag)
        if self._reported_states.get(agent_id) == kind:
            return
        self._reported_states.put(agent_id, kind)
        meta = {"claudeCode": {"parentToolUseId": tool_use_id}}
        title = self.calls.description_of(tool_use_id) or msgspec.UNSET
        self.frames.update(at, SubagentUpdate(session_id=agent_id, title=title, state=state, meta=meta))

    def link_sub_agent(self, at: float, tool_use_id: str, sub_agent_id: str, end_turn: OnTurnEnd) -> None:
        """Report a sub-agent whose records are in this file. It runs until its call has a result; then `end_turn` is
        called."""
        self._sub_agents[tool_use_id] = (sub_agent_id, end_turn)
        self.report_sub_agent(at, sub_agent_id, tool_use_id, RunningStateUpdate())

    def _handle_task(self, at: float, record: Record, task: TaskNews) -> None:
        call_id = self.calls.report_task(at, task, native_meta(record))
        if call_id is not None and task.id in self._reported_states:
            self.report_sub_agent(at, task.id, call_id, IdleStateUpdate())

    def report_compaction(self, at: float, record: Record) -> None:
        self._compaction = record.uuid or ""
        meta = native_meta(record)
        meta["native"]["compact"] = record.compact_metadata
        self.frames.update(at, CompactionUpdate(compaction_id=self._compaction, status="completed", meta=meta))

    def _summary(self, at: float, record: Record, content: Sequence[Block]) -> None:
        if self._compaction is None:
            self._compaction = record.uuid or ""
            self.frames.update(
                at, CompactionUpdate(compaction_id=self._compaction, status="completed", meta=native_meta(record))
            )
        for block in content:
            if block.type == "text" and block.text:
                text = TextContent(text=block.text)
                chunk = CompactionSummaryChunk(compaction_id=self._compaction, content=text, meta=native_meta(record))
                self.frames.update(at, chunk)
        self._compaction = None

    # -- the end

    def end_turn(self, at: float) -> None:
        """End the run, because Claude Code recorded the end of the turn."""
        self.runs.end_turn(at)

    def on_stop_hooks(self, at: float) -> None:
        """End the run after its stop hooks. If a hook made the model go on, a run without a prompt follows.

        While a call has no result, the hooks are those of a sub-agent.
        """
        if self.runs.would_end or not self._open_calls:
            self.runs.end_turn(at)

    def finish(self, at: float) -> None:
        self._flush_command()
        self.calls.finish(at)
        self.runs.settle()


def _model(value: Any) -> str:
    return str(value.get("model", "another model")) if isinstance(value, dict) else str(value or "another model")


def prompt_of(record: Record, content: Sequence[Block]) -> list[ContentBlock]:
    """Return the user's own text and attachments; empty if there are none."""
    prompt: list[ContentBlock] = []
    for block in content:
        if block.type != "text":
            prompt.append(_attachment_block(record, block))
        elif (text := parse_user_text(block.text).prompt).strip():
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
