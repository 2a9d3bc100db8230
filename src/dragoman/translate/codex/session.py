"""One Codex thread: records in, frames out.

Most things are told twice. Here prompts are taken from events (`user_message`, the item `UserMessage`), for in the
model's history the user's place is also that of injected context; everything else is taken from the model's history
(`response_item`), and events add what it lacks.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dragoman.translate import frames
from dragoman.translate.codex import ends, outputs, prompts, records, tools
from dragoman.translate.codex.agents import Agents
from dragoman.translate.codex.calls import Calls
from dragoman.translate.codex.messages import Messages
from dragoman.translate.codex.records import RecordRef
from dragoman.translate.codex.session_state import Runs, Settings
from dragoman.translate.scratch import Scratch
from dragoman.translate.translator import Frame
from dragoman.wire.vocabulary import (
    CompactionUpdate,
    NewSessionRequest,
    NewSessionResponse,
    Notice,
    NoticeSeverity,
    PlanMarkdown,
    PlanUpdate,
    SessionUpdate,
    TextContent,
)

# Kinds that are known, and of which there is nothing to tell: copies, and what is of use to the program alone.
_IGNORED_ITEMS: Final = frozenset(
    {"compaction", "context_compaction", "compaction_summary", "compaction_trigger", "ghost_snapshot", "other"}
    | {"additional_tools"}
)
_IGNORED_EVENTS: Final = frozenset({"dynamic_tool_call_request", "thread_goal_updated", "guardian_assessment"})
# Events of what is going on: of its end another one tells, or an item.
_PROGRESS_SUFFIXES: Final = ("_begin", "_delta")
_IGNORED_TURN_ITEMS: Final = frozenset({"HookPrompt", "Sleep", "clock.sleep"})

# The source of a command that the user ran, and not the model: it has a turn, but neither a prompt nor an answer.
_USER_SHELL: Final = msgspec.Raw(b'"user_shell"')


class Session:
    """The frames of one thread, in order, to `out`. Methods return False for a kind that they do not know."""

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
        self._out = out
        self.runs = Runs(session_id, out, name)
        self.messages = Messages(session_id, self.runs, out, scratch)
        self.calls = Calls(session_id, out, scratch)
        self.settings = Settings()
        self._agents = Agents(session_id, out)
        self._compaction: set[str] = set()  # the records that told of the last one
        request_id = f"{session_id}:new"
        request = NewSessionRequest(cwd=cwd, mcp_servers=(), meta=meta)
        out.append(frames.new_session(session_id, ref.at, request_id, request))
        opened = NewSessionResponse(session_id=session_id)
        out.append(frames.answer(session_id, ref.at, request_id, "session/new", opened))

    # -- the model's history

    def item(self, ref: RecordRef, item: records.Payload) -> bool:
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
                self.calls.add_output(ref, item.call_id or "", outputs.Result())
            case "function_call_output" | "custom_tool_call_output":
                result = outputs.read(item.output)
                if item.call_id is None:
                    self._unrequested_output(ref, item.id, item, result)
                    return True
                self._agents.add_output(ref, item.call_id, result.text)
                self.calls.add_output(ref, item.call_id, result)
            case "web_search_call":
                self.messages.progress(ref, words=False)
                self.calls.add_search(ref, "item", item.id, "", item.action)
            case "image_generation_call":
                ends.image(self.calls, ref, item.id, item)
            case "agent_message":
                self.messages.agent_message(ref, item)
            case kind:
                return kind in _IGNORED_ITEMS
        return True

    def _message(self, ref: RecordRef, item: records.Payload) -> None:
        parts = records.texts(item.content)
        agent_message = prompts.agent_message_in(parts[0]) if len(parts) == 1 else None
        if agent_message is not None:
            self.messages.agent_message(ref, agent_message)
        else:
            self.messages.message(ref, item.id, parts, item.phase)

    def _unrequested_output(
        self, ref: RecordRef, call_id: str | None, event: ends.CallEvent, result: outputs.Result
    ) -> None:
        """Add an output that no call asked for. Newer files have two records with one id for it."""
        name = ".".join(filter(None, (event.namespace, event.name)))
        display = tools.ToolDisplay(name=name, title=name or "Notification")
        self.calls.add_unrequested(ref, call_id or f"{self.id}:{ref.position}", display, result)

    def _add_call(self, ref: RecordRef, call_id: str | None, display: tools.ToolDisplay) -> None:
        self.messages.progress(ref, words=False)
        self._agents.add_call(call_id or "", display.name)
        self.calls.add_call(ref, call_id or f"{self.id}:{ref.position}", display)

    # -- events

    def event(self, ref: RecordRef, event: records.Payload) -> bool:
        match event.type:
            case "token_count":
                if event.info is not None:
                    self.runs.count_tokens(ref, event.info)
            case "user_message":
                if event.kind not in prompts.INJECTED_KINDS:
                    self.messages.prompt(ref, prompts.of_message(event.message, event.images, event.local_images))
            case "agent_message":
                self.messages.spoken.event(ref, event.message)
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
                ends.patch(self.calls, ref, event.call_id, event, self._cwd)
            case "mcp_tool_call_end":
                ends.mcp(self.calls, ref, event.call_id, event.invocation, event.result)
            case "dynamic_tool_call_response":
                ends.dynamic(self.calls, ref, event.call_id or event.dynamic_call_id, event)
            case "web_search_end":
                self.calls.add_search(ref, "event", event.call_id, event.query, event.action)
            case "image_generation_end":
                ends.image(self.calls, ref, event.call_id, event)
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
                self._notice(ref, f"The last {event.num_turns or 1} turns were taken back")
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
        self._emit(ref, Notice(severity=severity, title=message or "Error", meta=ref.meta(codexErrorInfo=details)))
        if kind == "error":
            self.runs.set_error(message, details)

    def _review(self, ref: RecordRef, hint: str | None) -> None:
        self.messages.reviewing = ""
        self._notice(ref, f"Review of {hint}" if hint else "Review")

    def _notice(self, ref: RecordRef, title: str) -> None:
        self._emit(ref, Notice(severity="info", title=title, meta=ref.meta()))

    # -- what an event or an item tells of a call's end

    def _handle_item(self, ref: RecordRef, item: records.Item) -> bool:
        match item.kind if item.type == "Extension" else item.type:
            case "UserMessage":
                self.messages.prompt(ref, prompts.of_parts(records.parts(item.content)))
            case "AgentMessage":
                self.messages.message(ref, item.id, records.texts(item.content), item.phase)
            case "Reasoning":
                self.messages.reasoning(ref, item.id, records.texts(item.summary_text), records.texts(item.raw_content))
            case "CommandExecution":
                self._command_ended(ref, item.id, item)
            case "FileChange":
                ends.patch(self.calls, ref, item.id, item, self._cwd)
            case "McpToolCall":
                ends.mcp_item(self.calls, ref, item)
            case "FunctionCallOutput":
                self._unrequested_output(ref, item.id, item, outputs.read(item.output))
            case "DynamicToolCall":
                ends.dynamic(self.calls, ref, item.id, item)
            case "WebSearch" | "web.search":
                self.messages.progress(ref, words=False)
                self.calls.add_search(ref, "event", item.id, item.query, item.action)
            case "ImageView":
                self.calls.add_finished(ref, item.id, tools.image_view(item.path, self._cwd))
            case "ImageGeneration" | "image_gen.generation":
                ends.image(self.calls, ref, item.id, item)
            case "Plan":
                plan = PlanMarkdown(plan_id=item.id or f"{self.id}:{ref.position}", content=item.text)
                self._emit(ref, PlanUpdate(plan=plan, meta=ref.meta()))
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

    def _command_ended(self, ref: RecordRef, call_id: str | None, event: ends.CallEvent) -> None:
        if event.source == _USER_SHELL:
            self.messages.progress(ref, words=False)
        ends.command(self.calls, ref, call_id, event)

    # -- the rest

    def turn_context(self, ref: RecordRef, context: records.Payload) -> None:
        self._cwd = context.cwd or self._cwd
        self._emit_if_changed(ref, self.settings.turn(context))

    def report_compaction(self, ref: RecordRef, by: str, summary: str = "") -> None:
        """Told by up to three records, each of its own kind; once here. The first of them has the summary, where the
        model that was asked for it gave one to read."""
        if self._compaction and by not in self._compaction:
            self._compaction.add(by)
            return
        self._compaction = {by}
        update = CompactionUpdate(
            compaction_id=f"{self.id}:{ref.position}",
            status="completed",
            summary=(TextContent(text=summary),) if summary else msgspec.UNSET,
            meta=ref.meta(),
        )
        self._emit(ref, update)

    def report_rollback(self, ref: RecordRef) -> None:
        """This file goes on from the midst of another of the thread, which tells how it began."""
        self.runs.keep_title()
        self._notice(ref, "The thread was taken back to an earlier turn")

    def end_copied_turn(self, ref: RecordRef) -> None:
        """A turn of the parent's: its end is nothing that happened here."""
        self._end_turn(ref)

    def finish(self, ref: RecordRef) -> None:
        self._end_turn(ref)
        self.runs.settle(ref)

    def _emit_if_changed(self, ref: RecordRef, update: SessionUpdate | None) -> None:
        if update is not None:
            self._emit(ref, update)

    def _emit(self, ref: RecordRef, update: SessionUpdate) -> None:
        self._out.append(frames.update(self.id, ref.at, update))


class _Error(msgspec.Struct, frozen=True, gc=False):
    """The error that ended a turn."""

    message: str = ""
    codex_error_info: msgspec.Raw = records.ABSENT
