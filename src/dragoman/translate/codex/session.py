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
from dragoman.translate.codex.runs import Runs
from dragoman.translate.codex.settings import Settings
from dragoman.translate.codex.where import Where
from dragoman.translate.codex.words import Words
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
_SILENT_ITEMS: Final = frozenset(
    {"compaction", "context_compaction", "compaction_summary", "compaction_trigger", "ghost_snapshot", "other"}
    | {"additional_tools"}
)
_SILENT_EVENTS: Final = frozenset({"dynamic_tool_call_request", "thread_goal_updated", "guardian_assessment"})
# Events of what is going on: of its end another one tells, or an item.
_IN_BETWEEN: Final = ("_begin", "_delta")
_SILENT_TURN_ITEMS: Final = frozenset({"HookPrompt", "Sleep", "clock.sleep"})

# The source of a command that the user ran, and not the model: it has a turn, but neither a prompt nor an answer.
_USERS_OWN: Final = msgspec.Raw(b'"user_shell"')


class Session:
    """What is to be told goes to `out`, in order. Each method tells whether it knows the kind."""

    def __init__(
        self,
        session_id: str,
        where: Where,
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
        self.words = Words(session_id, self.runs, out, scratch)
        self.calls = Calls(session_id, out, scratch)
        self.settings = Settings()
        self._agents = Agents(session_id, out)
        self._compaction: set[str] = set()  # the records that told of the last one
        request_id = f"{session_id}:new"
        asked = NewSessionRequest(cwd=cwd, mcp_servers=(), meta=meta)
        out.append(frames.new_session(session_id, where.at, request_id, asked))
        opened = NewSessionResponse(session_id=session_id)
        out.append(frames.answer(session_id, where.at, request_id, "session/new", opened))

    # -- the model's history

    def item(self, where: Where, item: records.Payload) -> bool:
        match item.type:
            case "message" | "":
                if item.role == "assistant":
                    self._message(where, item)
                elif item.role == "user":
                    self.words.in_users_place(where, item)
                else:
                    return bool(item.type)
            case "reasoning":
                self.words.reasoning(where, item.id, records.texts(item.summary), records.texts(item.content))
            case "function_call" | "custom_tool_call":
                shown = tools.shown(item.name, item.namespace, item.arguments, item.input, self._cwd)
                self._called(where, item.call_id, shown)
            case "local_shell_call":
                shown = tools.shown("local_shell", None, item.action, "", self._cwd)
                self._called(where, item.call_id or item.id, shown)
            case "tool_search_call":
                self._called(where, item.call_id, tools.shown("tool_search", None, item.arguments, "", self._cwd))
            case "tool_search_output":
                self.calls.answered(where, item.call_id or "", outputs.Result())
            case "function_call_output" | "custom_tool_call_output":
                result = outputs.read(item.output)
                if item.call_id is None:
                    self._brought(where, item.id, item, result)
                    return True
                self._agents.answered(where, item.call_id, result.text)
                self.calls.answered(where, item.call_id, result)
            case "web_search_call":
                self.words.heard(where, words=False)
                self.calls.searched(where, "item", item.id, "", item.action)
            case "image_generation_call":
                ends.image(self.calls, where, item.id, item)
            case "agent_message":
                self.words.letter(where, item)
            case kind:
                return kind in _SILENT_ITEMS
        return True

    def _message(self, where: Where, item: records.Payload) -> None:
        parts = records.texts(item.content)
        letter = prompts.letter_in(parts[0]) if len(parts) == 1 else None
        if letter is not None:
            self.words.letter(where, letter)
        else:
            self.words.message(where, item.id, parts, item.phase)

    def _brought(self, where: Where, call_id: str | None, told: ends.Told, result: outputs.Result) -> None:
        """What a tool tells, without having been called. Newer files tell it by two records with one id."""
        name = ".".join(filter(None, (told.namespace, told.name)))
        shown = tools.Shown(name=name, title=name or "Notification")
        self.calls.brought(where, call_id or f"{self.id}:{where.position}", shown, result)

    def _called(self, where: Where, call_id: str | None, shown: tools.Shown) -> None:
        self.words.heard(where, words=False)
        self._agents.called(call_id or "", shown.name)
        self.calls.called(where, call_id or f"{self.id}:{where.position}", shown)

    # -- events

    def event(self, where: Where, event: records.Payload) -> bool:
        match event.type:
            case "token_count":
                if event.info is not None:
                    self.runs.counted(where, event.info)
            case "user_message":
                if event.kind not in prompts.INJECTED_KINDS:
                    self.words.prompt(where, prompts.of_message(event.message, event.images, event.local_images))
            case "agent_message":
                self.words.spoken.event(where, event.message)
            case "agent_reasoning" | "agent_reasoning_raw_content":
                self.words.thought_event(where, event.text)
            case "task_started" | "turn_started":
                self.runs.turn_started(where)
            case "task_complete" | "turn_complete":
                self._turn_over(where)
                error = records.read(event.error, _Error, _Error())
                if error.message and not self.runs.broken:
                    self._trouble(where, "error", error.message, error.codex_error_info)
                self.runs.turn_ended(where, self.settings.model)
            case "turn_aborted":
                self.calls.aborted(where)
                self._turn_over(where)
                self.runs.in_turn = False
                self.runs.end(where, "cancelled", self.settings.model)
            case "item_completed":
                return event.item is not None and self._completed(where, event.item)
            case "exec_command_end":
                self._command_ended(where, event.call_id, event)
            case "patch_apply_end":
                ends.patch(self.calls, where, event.call_id, event, self._cwd)
            case "mcp_tool_call_end":
                ends.mcp(self.calls, where, event.call_id, event.invocation, event.result)
            case "dynamic_tool_call_response":
                ends.dynamic(self.calls, where, event.call_id or event.dynamic_call_id, event)
            case "web_search_end":
                self.calls.searched(where, "event", event.call_id, event.query, event.action)
            case "image_generation_end":
                ends.image(self.calls, where, event.call_id, event)
            case "view_image_tool_call":
                pass
            case "context_compacted":
                self.compacted(where, "event")
            case "thread_name_updated":
                if event.thread_name:
                    self.runs.text_path(where, event.thread_name)
            case "thread_settings_applied":
                self._set(where, self.settings.applied(event.thread_settings))
            case "error" | "stream_error" | "warning" | "guardian_warning":
                self._trouble(where, event.type, event.message, event.codex_error_info)
            case "entered_review_mode":
                self._review(where, event.user_facing_hint)
            case "exited_review_mode":
                self.words.review_over()
            case "thread_rolled_back":
                self._notice(where, f"The last {event.num_turns or 1} turns were taken back")
            case "undo_completed":
                self._notice(where, event.message or ("Undone" if event.success else "Could not be undone"))
            case kind:
                return kind in _SILENT_EVENTS or kind.endswith(_IN_BETWEEN) or self._agents.event(where, event)
        return True

    def _turn_over(self, where: Where) -> None:
        self.words.asked()
        self.words.turn_over()
        self.calls.turn_ended(where)
        self._compaction.clear()

    def _trouble(self, where: Where, kind: str, message: str, info: msgspec.Raw) -> None:
        told = records.plain(info)
        severity: NoticeSeverity = "error" if kind == "error" else "warning"
        self._tell(where, Notice(severity=severity, title=message or "Error", meta=where.meta(codexErrorInfo=told)))
        if kind == "error":
            self.runs.broke(message, told)

    def _review(self, where: Where, hint: str | None) -> None:
        self.words.reviewing = ""
        self._notice(where, f"Review of {hint}" if hint else "Review")

    def _notice(self, where: Where, title: str) -> None:
        self._tell(where, Notice(severity="info", title=title, meta=where.meta()))

    # -- what an event or an item tells of a call's end

    def _completed(self, where: Where, item: records.Item) -> bool:
        match item.kind if item.type == "Extension" else item.type:
            case "UserMessage":
                self.words.prompt(where, prompts.of_parts(records.parts(item.content)))
            case "AgentMessage":
                self.words.message(where, item.id, records.texts(item.content), item.phase)
            case "Reasoning":
                self.words.reasoning(where, item.id, records.texts(item.summary_text), records.texts(item.raw_content))
            case "CommandExecution":
                self._command_ended(where, item.id, item)
            case "FileChange":
                ends.patch(self.calls, where, item.id, item, self._cwd)
            case "McpToolCall":
                ends.mcp_item(self.calls, where, item)
            case "FunctionCallOutput":
                self._brought(where, item.id, item, outputs.read(item.output))
            case "DynamicToolCall":
                ends.dynamic(self.calls, where, item.id, item)
            case "WebSearch" | "web.search":
                self.words.heard(where, words=False)
                self.calls.searched(where, "event", item.id, item.query, item.action)
            case "ImageView":
                self.calls.at_once(where, item.id, tools.image_view(item.path, self._cwd))
            case "ImageGeneration" | "image_gen.generation":
                ends.image(self.calls, where, item.id, item)
            case "Plan":
                plan = PlanMarkdown(plan_id=item.id or f"{self.id}:{where.position}", content=item.text)
                self._tell(where, PlanUpdate(plan=plan, meta=where.meta()))
            case "ContextCompaction":
                self.compacted(where, "item")
            case "CollabAgentToolCall":
                self._agents.states(where, item.agents_states)
            case "SubAgentActivity":
                self._agents.activity(where, item.agent_thread_id, item.agent_path, item.kind)
            case "EnteredReviewMode":
                self._review(where, item.user_facing_hint)
            case "ExitedReviewMode":
                self.words.review_over()
            case kind:
                return kind in _SILENT_TURN_ITEMS
        return True

    def _command_ended(self, where: Where, call_id: str | None, told: ends.Told) -> None:
        if told.source == _USERS_OWN:
            self.words.heard(where, words=False)
        ends.command(self.calls, where, call_id, told)

    # -- the rest

    def turn_context(self, where: Where, context: records.Payload) -> None:
        self._cwd = context.cwd or self._cwd
        self._set(where, self.settings.turn(context))

    def compacted(self, where: Where, by: str, summary: str = "") -> None:
        """Told by up to three records, each of its own kind; once here. The first of them has the summary, where the
        model that was asked for it gave one to read."""
        if self._compaction and by not in self._compaction:
            self._compaction.add(by)
            return
        self._compaction = {by}
        update = CompactionUpdate(
            compaction_id=f"{self.id}:{where.position}",
            status="completed",
            summary=(TextContent(text=summary),) if summary else msgspec.UNSET,
            meta=where.meta(),
        )
        self._tell(where, update)

    def taken_back(self, where: Where) -> None:
        """This file goes on from the midst of another of the thread, which tells how it began."""
        self.runs.keep_title()
        self._notice(where, "The thread was taken back to an earlier turn")

    def copied_turn_over(self, where: Where) -> None:
        """A turn of the parent's: its end is nothing that happened here."""
        self._turn_over(where)

    def finish(self, where: Where) -> None:
        self._turn_over(where)
        self.runs.settle(where)

    def _set(self, where: Where, update: SessionUpdate | None) -> None:
        if update is not None:
            self._tell(where, update)

    def _tell(self, where: Where, update: SessionUpdate) -> None:
        self._out.append(frames.update(self.id, where.at, update))


class _Error(msgspec.Struct, frozen=True, gc=False):
    """What a turn ended with."""

    message: str = ""
    codex_error_info: msgspec.Raw = records.ABSENT
