"""One Codex thread: records in, frames out.

Most things are recorded twice, as an event and in the model's history (`response_item`). Prompts are taken from events
(`user_message`, the item `UserMessage`), because injected context has the user's role too in the model's history.
Everything else is taken from the model's history, and events add what it lacks.

Sub-agents have a thread and a file of their own; `Agents` reports them as far as this file mentions them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dragoman.translate.codex import records, tools
from dragoman.translate.codex.calls import CallEvent, Calls
from dragoman.translate.codex.commands import CallOutput, read_output
from dragoman.translate.codex.messages import INJECTED_KINDS, Messages, agent_message_in
from dragoman.translate.codex.records import RecordRef, content_blocks, prompt_blocks
from dragoman.translate.codex.session_state import Runs, Settings
from dragoman.translate.frames import SessionFrames
from dragoman.translate.scratch import Scratch
from dragoman.translate.translator import Frame
from dragoman.wire.vocabulary import (
    CompactionUpdate,
    IdleStateUpdate,
    Notice,
    NoticeSeverity,
    PlanMarkdown,
    PlanUpdate,
    RunningStateUpdate,
    SessionUpdate,
    StateUpdate,
    SubagentUpdate,
    TextContent,
)

# Known kinds that are not reported: copies, and records for Codex itself.
_IGNORED_ITEMS: Final = frozenset(
    {"compaction", "context_compaction", "compaction_summary", "compaction_trigger", "ghost_snapshot", "other"}
    | {"additional_tools"}
)
_IGNORED_EVENTS: Final = frozenset({"dynamic_tool_call_request", "thread_goal_updated", "guardian_assessment"})
# Events of progress; another event or an item reports the end.
_PROGRESS_SUFFIXES: Final = ("_begin", "_delta")
_IGNORED_TURN_ITEMS: Final = frozenset({"HookPrompt", "Sleep", "clock.sleep"})

# Events that belong to the run that is active. The others may come between runs, before the next prompt.
_RUN_EVENTS: Final = frozenset(
    {"agent_message", "agent_reasoning", "agent_reasoning_raw_content", "error", "stream_error", "exited_review_mode"}
)
_RUN_EVENT_SUFFIX: Final = "_end"

# The source of a command that the user ran: it has a turn, but neither a prompt nor an answer.
_USER_SHELL: Final = msgspec.Raw(b'"user_shell"')


class Session:
    """Appends the frames of one thread to `out`. `item` and `event` return False for a kind that they do not know."""

    def __init__(
        self,
        session_id: str,
        ref: RecordRef,
        cwd: str,
        meta: dict[str, Any],
        name: str | None,
        out: list[Frame],
        scratch: Scratch,
    ) -> None:
        self.id = session_id
        self._cwd = cwd
        self._frames = SessionFrames(session_id, out)
        self.runs = Runs(self._frames, name)
        self.messages = Messages(self._frames, self.runs, scratch)
        self.calls = Calls(self._frames, scratch)
        self.settings = Settings()
        self._agents = Agents(self._frames)
        self._compaction: set[str] = set()  # kinds of the records that have reported the last one
        self._frames.open(ref.at, cwd, meta)

    # -- the model's history

    def item(self, ref: RecordRef, item: records.Payload) -> bool:
        if item.role not in ("user", "developer"):
            self.runs.touch(ref)
        match item.type:
            case "message" | "":
                if item.role == "assistant":
                    self._message(ref, item)
                elif item.role == "user":
                    self.messages.user_item(ref, item)
                else:
                    return bool(item.type)
            case "reasoning":
                self.messages.reasoning(ref, item.id, records.texts(item.summary), records.texts(item.content))
            case "function_call" | "custom_tool_call":
                display = tools.display(item.name, item.namespace, item.arguments, item.input, self._cwd)
                self._add_call(ref, item.call_id, display)
            case "local_shell_call":
                display = tools.display("local_shell", None, item.action, "", self._cwd)
                self._add_call(ref, item.call_id or item.id, display)
            case "tool_search_call":
                self._add_call(ref, item.call_id, tools.display("tool_search", None, item.arguments, "", self._cwd))
            case "tool_search_output":
                self.calls.add_output(ref, item.call_id or "", CallOutput())
            case "function_call_output" | "custom_tool_call_output":
                result = read_output(item.output)
                if item.call_id is None:
                    self._unrequested_output(ref, item.id, item, result)
                    return True
                self._agents.add_output(ref, item.call_id, result.text)
                self.calls.add_output(ref, item.call_id, result)
            case "web_search_call":
                self.messages.progress(ref, is_text=False)
                self.calls.add_search(ref, "item", item.id, "", item.action)
            case "image_generation_call":
                self.calls.add_image(ref, item.id, item)
            case "agent_message":
                self.messages.agent_message(ref, item)
            case kind:
                return kind in _IGNORED_ITEMS
        return True

    def _message(self, ref: RecordRef, item: records.Payload) -> None:
        parts = records.texts(item.content)
        agent_message = agent_message_in(parts[0]) if len(parts) == 1 else None
        if agent_message is not None:
            self.messages.agent_message(ref, agent_message)
        else:
            self.messages.message(ref, item.id, parts, item.phase)

    def _unrequested_output(self, ref: RecordRef, call_id: str | None, event: CallEvent, result: CallOutput) -> None:
        """Add an output that no call asked for. Newer files have two records with one id for it."""
        name = ".".join(filter(None, (event.namespace, event.name)))
        display = tools.ToolDisplay(name=name, title=name or "Notification")
        self.calls.add_unrequested(ref, call_id or f"{self.id}:{ref.offset}", display, result)

    def _add_call(self, ref: RecordRef, call_id: str | None, display: tools.ToolDisplay) -> None:
        self.messages.progress(ref, is_text=False)
        self._agents.add_call(call_id or "", display.name)
        self.calls.add_call(ref, call_id or f"{self.id}:{ref.offset}", display)

    # -- events

    def event(self, ref: RecordRef, event: records.Payload) -> bool:
        if event.type in _RUN_EVENTS or event.type.endswith(_RUN_EVENT_SUFFIX):
            self.runs.touch(ref)
        match event.type:
            case "token_count":
                if event.info is not None:
                    self.runs.count_tokens(ref, event.info)
            case "user_message":
                if event.kind not in INJECTED_KINDS:
                    self.messages.prompt(ref, prompt_blocks(event.message, event.images, event.local_images))
            case "agent_message":
                self.messages.message_echoes.event(ref, event.message)
            case "agent_reasoning" | "agent_reasoning_raw_content":
                self.messages.thought_event(ref, event.text)
            case "task_started" | "turn_started":
                self.runs.start_turn(ref)
            case "task_complete" | "turn_complete":
                self._end_turn(ref)
                error = records.read(event.error, _Error, _Error())
                if error.message and not self.runs.has_error:
                    self._report_error(ref, "error", error.message, error.codex_error_info)
                self.runs.end_turn(ref, self.settings.model)
            case "turn_aborted":
                self.calls.abort(ref)
                self._end_turn(ref)
                self.runs.in_turn = False
                self.runs.end(ref, "cancelled", self.settings.model)
            case "item_completed":
                return event.item is not None and self._handle_item(ref, event.item)
            case "exec_command_end":
                self._command_ended(ref, event.call_id, event)
            case "patch_apply_end":
                self.calls.end_patch(ref, event.call_id, event, self._cwd)
            case "mcp_tool_call_end":
                self.calls.end_mcp_event(ref, event)
            case "dynamic_tool_call_response":
                self.calls.end_dynamic_tool(ref, event.call_id or event.dynamic_call_id, event)
            case "web_search_end":
                self.calls.add_search(ref, "event", event.call_id, event.query, event.action)
            case "image_generation_end":
                self.calls.add_image(ref, event.call_id, event)
            case "view_image_tool_call":
                pass
            case "context_compacted":
                self.report_compaction(ref, "event")
            case "thread_name_updated":
                if event.thread_name:
                    self.runs.rename(ref, event.thread_name)
            case "thread_settings_applied":
                self._emit_if_changed(ref, self.settings.applied(event.thread_settings))
            case "error" | "stream_error" | "warning" | "guardian_warning":
                self._report_error(ref, event.type, event.message, event.codex_error_info)
            case "entered_review_mode":
                self._review(ref, event.user_facing_hint)
            case "exited_review_mode":
                self.messages.end_review()
            case "thread_rolled_back":
                self._notice(ref, f"The last {event.num_turns or 1} turns were rolled back")
            case "undo_completed":
                self._notice(ref, event.message or ("Undone" if event.success else "Could not be undone"))
            case kind:
                return kind in _IGNORED_EVENTS or kind.endswith(_PROGRESS_SUFFIXES) or self._agents.event(ref, event)
        return True

    def _end_turn(self, ref: RecordRef) -> None:
        self.messages.flush_assumed_prompt()
        self.messages.end_turn()
        self.calls.end_turn(ref)
        self._compaction.clear()

    def _report_error(self, ref: RecordRef, kind: str, message: str, info: msgspec.Raw) -> None:
        details = records.plain(info)
        severity: NoticeSeverity = "error" if kind == "error" else "warning"
        self._frames.update(
            ref.at, Notice(severity=severity, title=message or "Error", meta=ref.meta(codexErrorInfo=details))
        )
        if kind == "error":
            self.runs.set_error(message, details)

    def _review(self, ref: RecordRef, hint: str | None) -> None:
        self.messages.reviewing = ""
        self._notice(ref, f"Review of {hint}" if hint else "Review")

    def _notice(self, ref: RecordRef, title: str) -> None:
        self._frames.update(ref.at, Notice(severity="info", title=title, meta=ref.meta()))

    # -- items

    def _handle_item(self, ref: RecordRef, item: records.Item) -> bool:
        if item.type != "UserMessage":
            self.runs.touch(ref)
        match item.kind if item.type == "Extension" else item.type:
            case "UserMessage":
                self.messages.prompt(ref, content_blocks(records.parts(item.content)))
            case "AgentMessage":
                self.messages.message(ref, item.id, records.texts(item.content), item.phase)
            case "Reasoning":
                self.messages.reasoning(ref, item.id, records.texts(item.summary_text), records.texts(item.raw_content))
            case "CommandExecution":
                self._command_ended(ref, item.id, item)
            case "FileChange":
                self.calls.end_patch(ref, item.id, item, self._cwd)
            case "McpToolCall":
                self.calls.end_mcp_item(ref, item)
            case "FunctionCallOutput":
                self._unrequested_output(ref, item.id, item, read_output(item.output))
            case "DynamicToolCall":
                self.calls.end_dynamic_tool(ref, item.id, item)
            case "WebSearch" | "web.search":
                self.messages.progress(ref, is_text=False)
                self.calls.add_search(ref, "event", item.id, item.query, item.action)
            case "ImageView":
                self.calls.add_finished(ref, item.id, tools.image_view(item.path, self._cwd))
            case "ImageGeneration" | "image_gen.generation":
                self.calls.add_image(ref, item.id, item)
            case "Plan":
                plan = PlanMarkdown(plan_id=item.id or f"{self.id}:{ref.offset}", content=item.text)
                self._frames.update(ref.at, PlanUpdate(plan=plan, meta=ref.meta()))
            case "ContextCompaction":
                self.report_compaction(ref, "item")
            case "CollabAgentToolCall":
                self._agents.states(ref, item.agents_states)
            case "SubAgentActivity":
                self._agents.activity(ref, item.agent_thread_id, item.agent_path, item.kind)
            case "EnteredReviewMode":
                self._review(ref, item.user_facing_hint)
            case "ExitedReviewMode":
                self.messages.end_review()
            case kind:
                return kind in _IGNORED_TURN_ITEMS
        return True

    def _command_ended(self, ref: RecordRef, call_id: str | None, event: CallEvent) -> None:
        if event.source == _USER_SHELL:
            self.messages.progress(ref, is_text=False)
        self.calls.end_command(ref, call_id, event)

    # -- the rest

    def turn_context(self, ref: RecordRef, context: records.Payload) -> None:
        self._cwd = context.cwd or self._cwd
        self._emit_if_changed(ref, self.settings.turn(context))

    def report_compaction(self, ref: RecordRef, by: str, summary: str = "") -> None:
        """Report a compaction once, though up to three records of different kinds have it. The first record has the
        summary, unless that is encrypted."""
        if self._compaction and by not in self._compaction:
            self._compaction.add(by)
            return
        self._compaction = {by}
        update = CompactionUpdate(
            compaction_id=f"{self.id}:{ref.offset}",
            status="completed",
            summary=(TextContent(text=summary),) if summary else msgspec.UNSET,
            meta=ref.meta(),
        )
        self._frames.update(ref.at, update)

    def report_rollback(self, ref: RecordRef) -> None:
        """Report that this file continues another file of the thread, from an earlier turn."""
        self.runs.keep_title()
        self._notice(ref, "The thread was rolled back to an earlier turn")

    def end_copied_turn(self, ref: RecordRef) -> None:
        """End a turn of the parent thread; it was no run of this one."""
        self._end_turn(ref)

    def finish(self, ref: RecordRef) -> None:
        self._end_turn(ref)
        self.runs.settle()

    def _emit_if_changed(self, ref: RecordRef, update: SessionUpdate | None) -> None:
        if update is not None:
            self._frames.update(ref.at, update)


class _Error(msgspec.Struct, frozen=True, gc=False):
    """The error that ended a turn."""

    message: str = ""
    codex_error_info: msgspec.Raw = records.ABSENT


_START_KINDS: Final = frozenset({"started", "interacted", "spawned"})
# Tools whose outputs name the threads of sub-agents.
_AGENT_TOOLS: Final = frozenset({"spawn_agent", "wait", "wait_agent"})
# Final states without a last message; `completed` and `failed` have one.
_DONE_STATES: Final = frozenset({"interrupted", "shutdown", "not_found"})


class _AgentOutput(msgspec.Struct, frozen=True, gc=False):
    """The output of a call: the agent that was spawned, or the states of those that were waited for."""

    agent_id: str = ""
    nickname: str | None = None
    status: msgspec.Raw = records.ABSENT


class _Status(msgspec.Struct, frozen=True, gc=False):
    thread_id: str = ""
    agent_nickname: str | None = None
    status: msgspec.Raw = records.ABSENT


class Agents:
    """Reports each sub-agent to `out` when it first appears and when its state changes."""

    def __init__(self, frames: SessionFrames) -> None:
        self._frames = frames
        self._states: dict[str, str] = {}
        self._agent_calls: set[str] = set()  # calls whose outputs name sub-agents

    def add_call(self, call_id: str, name: str) -> None:
        if name in _AGENT_TOOLS:
            self._agent_calls.add(call_id)

    def add_output(self, ref: RecordRef, call_id: str, text: str) -> None:
        if call_id not in self._agent_calls:
            return
        self._agent_calls.discard(call_id)
        output = records.read(text.encode("utf-8", "replace"), _AgentOutput, _AgentOutput())
        if output.agent_id:
            self._emit(ref, output.agent_id, output.nickname, None, RunningStateUpdate(), call_id)
        self.states(ref, output.status)

    def states(self, ref: RecordRef, raw: msgspec.Raw) -> None:
        """Report the sub-agents that are done, from their states by thread."""
        for thread_id, state in records.read(raw, dict[str, msgspec.Raw], {}).items():
            if _is_done(state):
                self._emit(ref, thread_id, None, None, IdleStateUpdate(), None)

    def event(self, ref: RecordRef, event: records.Payload) -> bool:
        """Handle an event of a sub-agent; return False for any other."""
        match event.type:
            case "collab_agent_spawn_end":
                if event.new_thread_id:
                    name, task = event.new_agent_nickname, event.prompt
                    self._emit(ref, event.new_thread_id, name, task, RunningStateUpdate(), event.call_id)
            case "collab_agent_interaction_end" | "collab_resume_end":
                if event.receiver_thread_id:
                    name = event.receiver_agent_nickname
                    self._emit(ref, event.receiver_thread_id, name, None, RunningStateUpdate(), event.call_id)
            case "collab_close_end":
                if event.receiver_thread_id:
                    name = event.receiver_agent_nickname
                    self._emit(ref, event.receiver_thread_id, name, None, IdleStateUpdate(), event.call_id)
            case "collab_waiting_end":
                for agent in records.read(event.agent_statuses, list[_Status], []):
                    if _is_done(agent.status):
                        self._emit(ref, agent.thread_id, agent.agent_nickname, None, IdleStateUpdate(), None)
            case "sub_agent_activity":
                self.activity(ref, event.agent_thread_id, event.agent_path or "", event.kind)
            case _:
                return False
        return True

    def activity(self, ref: RecordRef, thread_id: str, path: str, kind: str) -> None:
        state: StateUpdate = RunningStateUpdate() if kind in _START_KINDS else IdleStateUpdate()
        name = path.rstrip("/").rpartition("/")[2] or None
        if thread_id:
            self._emit(ref, thread_id, name, None, state, None)

    def _emit(
        self,
        ref: RecordRef,
        thread_id: str,
        name: str | None,
        task: str | None,
        state: StateUpdate,
        call_id: str | None,
    ) -> None:
        kind = str(type(state).__struct_config__.tag)
        if self._states.get(thread_id) == kind:
            return
        self._states[thread_id] = kind
        meta = ref.meta()
        if call_id is not None:
            meta["codex"] = {"parentToolUseId": call_id}
        update = SubagentUpdate(
            session_id=thread_id,
            title=name if name is not None else msgspec.UNSET,
            description=task if task is not None else msgspec.UNSET,
            state=state,
            meta=meta,
        )
        self._frames.update(ref.at, update)


def _is_done(state: msgspec.Raw) -> bool:
    value = records.plain(state)
    return isinstance(value, dict) or (isinstance(value, str) and value in _DONE_STATES)
