"""The tool calls of a Claude session, from call to result, and the plan that some of them write.

A result may come before its call in the file, and then waits for it. Calls of the plan's tools are reported as the
plan, and as calls if they fail or are about a task that is not in this plan, because another agent made it.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import msgspec

from dragoman.translate.claude import tools
from dragoman.translate.claude.records import ABSENT, Block, Record, TaskNews, decode_blocks
from dragoman.translate.claude.tools import Input, Output, PlanTask
from dragoman.translate.frames import SessionFrames
from dragoman.translate.scratch import Scratch, SpillingMap
from dragoman.wire.vocabulary import Plan as PlanUpdate
from dragoman.wire.vocabulary import PlanEntry, SessionToolCallUpdate, ToolCall, ToolCallStatus

# The result of `TaskCreate` in older versions, which have no structure for it.
_CREATED = re.compile(r"Task #(\S+) created successfully: (.+)")


class _Entry(msgspec.Struct, frozen=True):
    subject: str
    status: str = "pending"
    active_form: str | None = None


class Plan:
    def __init__(self) -> None:
        self._todos: tuple[_Entry, ...] | None = None
        self._tasks: dict[str, _Entry] = {}

    def entries(self) -> tuple[PlanEntry, ...]:
        entries = self._todos if self._todos is not None else tuple(self._tasks.values())
        return tuple(
            PlanEntry(content=_plan_text(entry), priority="medium", status=_plan_status(entry.status))
            for entry in entries
        )

    def apply(self, name: str, arguments: Input, output: Output, result_text: str) -> bool:
        """Apply a successful call. Return False if the plan does not show it: it is about another agent's task."""
        if name == "TodoWrite":
            self._todos = tuple(
                _Entry(
                    str(todo.get("content", "")),
                    str(todo.get("status", "pending")),
                    _text_or_none(todo.get("activeForm")),
                )
                for todo in arguments.todos
            )
            return True
        self._todos = None
        match name:
            case "TaskCreate":
                return self._create_task(arguments, output.task or _task_in(result_text))
            case "TaskUpdate":
                return self._update_task(arguments)
            case "TaskList" if output.tasks is not None:
                self._tasks = {
                    task.id: _Entry(task.subject, task.status, self._active_form_of(task.id)) for task in output.tasks
                }
            case "TaskGet":
                return (arguments.task_id or "") in self._tasks
            case _:
                pass
        return True

    def _create_task(self, arguments: Input, task: PlanTask | None) -> bool:
        if task is None or not task.id:
            return False
        self._tasks[task.id] = _Entry(arguments.subject or task.subject, "pending", arguments.active_form)
        return True

    def _update_task(self, arguments: Input) -> bool:
        if arguments.task_id is None:
            return False
        entry = self._tasks.get(arguments.task_id)
        if arguments.status == "deleted":
            return self._tasks.pop(arguments.task_id, None) is not None
        subject = arguments.subject or (entry.subject if entry else "")
        if not subject:
            return False
        before = entry or _Entry(subject)
        self._tasks[arguments.task_id] = _Entry(
            subject, arguments.status or before.status, arguments.active_form or before.active_form
        )
        return True

    def _active_form_of(self, task_id: str) -> str | None:
        entry = self._tasks.get(task_id)
        return entry.active_form if entry is not None else None


def _plan_text(entry: _Entry) -> str:
    return entry.active_form if entry.status == "in_progress" and entry.active_form else entry.subject


def _plan_status(status: str) -> Literal["pending", "in_progress", "completed"]:
    match status:
        case "in_progress" | "completed":
            return status
        case _:
            return "pending"


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _task_in(result_text: str) -> PlanTask | None:
    match = _CREATED.match(result_text.strip())
    return PlanTask(match[1], match[2]) if match else None


# Shared by all calls that have their result.
_NO_INPUT: Final = tools.Input()
_NO_META: Final[dict[str, Any]] = {}


class Call(msgspec.Struct, gc=False):
    id: str  # of the tool call: Claude's own, unless an earlier call has that
    name: str
    raw_input: msgspec.Raw
    input: tools.Input
    meta: dict[str, Any]
    is_reported: bool = False  # as a tool call
    has_progress: bool = False  # and progress was reported
    is_given_up: bool = False  # the run was interrupted before there was a result
    description: str | None = None

    def release(self) -> None:
        """Drop the input, which keeps a whole line of the file in memory. Call it when the call has its result."""
        self.raw_input = ABSENT
        self.description = self.input.description
        self.input = _NO_INPUT
        self.meta = _NO_META


class Calls:
    """The tool calls of one session."""

    def __init__(self, frames: SessionFrames, cwd: str, scratch: Scratch) -> None:
        self._frames = frames
        self._cwd = cwd
        # By Claude's id: calls without a result, and those whose id an earlier call has.
        self._calls: dict[str, Call] = {}
        self._ended: SpillingMap[str] = SpillingMap(scratch)  # the others: the name of the tool; empty if not reported
        self._descriptions: SpillingMap[str] = SpillingMap(scratch)  # of calls whose tasks may report later
        self._open_calls: dict[str, Call] = {}
        self._early_results: dict[str, tuple[float, Block, Record]] = {}  # results whose calls have not come
        self._tasks: dict[str, str] = {}  # background tasks and sub-agents, to Claude's id of the call
        self._plan = Plan()

    def add_call(self, at: float, block: Block, meta: dict[str, Any]) -> Output | None:
        """Add a call. Return the output of its tool if the result came before it."""
        # A repeated id means another call: published transcripts have ids blacked out.
        call_id = f"{block.id}:{meta['native'].get('uuid')}" if self._has_call(block.id) else block.id
        call = Call(call_id, block.name, block.input, tools.read_input(block.input), meta)
        self._calls[block.id] = self._open_calls[block.id] = call
        if call.name not in tools.PLAN_TOOLS:
            self._report_call(at, call)
        early = self._early_results.pop(block.id, None)
        return self.add_result(max(at, early[0]), *early[1:], meta) if early is not None else None

    def add_result(self, at: float, block: Block, record: Record, meta: dict[str, Any]) -> Output | None:
        """Add a result. Return None if its call has not come."""
        call = self._open_calls.pop(block.tool_use_id, None)
        if call is None:
            if not self._has_call(block.tool_use_id):
                self._early_results[block.tool_use_id] = (at, block, record)
            return None
        output = tools.read_output(call.name, record.tool_use_result)
        for task_id in (output.agent_id, output.background_task_id):
            if task_id is not None:
                self._tasks[task_id] = block.tool_use_id
        if call.name in tools.PLAN_TOOLS and not block.is_error and self._apply_to_plan(call, block, output):
            meta = {**meta, "native": {**meta["native"], "toolUseId": call.id, "tool": call.name}}
            self._frames.update(at, PlanUpdate(entries=self._plan.entries(), meta=meta))
        else:
            if not call.is_reported:
                self._report_call(at, call)
            self._frames.update(at, _finished(call, block, tools.display_result(call.name, block, output), meta))
        call.release()
        may_have_news = call.name in tools.AGENT_TOOLS or output.agent_id or output.background_task_id
        description = call.description if may_have_news else None
        if call.id == block.tool_use_id:
            del self._calls[call.id]
            self._ended.put(call.id, call.name if call.is_reported else "")
            if description:
                self._descriptions.put(call.id, description)
        return output

    def _apply_to_plan(self, call: Call, block: Block, output: Output) -> bool:
        """Return False if the plan does not show the call."""
        result_text = "".join(part.text for part in decode_blocks(block.content))
        return self._plan.apply(call.name, call.input, output, result_text)

    def _has_call(self, native_id: str) -> bool:
        return native_id in self._calls or native_id in self._ended

    def agent_with(self, prompt: str) -> tuple[str, tools.Input] | None:
        """Return the id and input of the open call that started a sub-agent with this prompt."""
        for call in self._open_calls.values():
            fits = call.name in tools.AGENT_TOOLS and (call.input.prompt or "").strip() == prompt.strip()
            if fits and not call.is_given_up:
                return call.id, call.input
        return None

    def description_of(self, native_id: str) -> str | None:
        """Return the description that the model gave a call."""
        call = self._calls.get(native_id)
        if call is not None:
            return call.description or call.input.description
        return self._descriptions.get(native_id)

    def report_progress(self, at: float, native_id: str | None, meta: dict[str, Any]) -> None:
        """Report that a call is in progress, once."""
        call = self._open_calls.get(native_id or "")
        if call is not None and call.is_reported and not call.has_progress:
            call.has_progress = True
            self._frames.update(at, SessionToolCallUpdate(tool_call_id=call.id, status="in_progress", meta=meta))

    def report_task(self, at: float, task: TaskNews, meta: dict[str, Any]) -> str | None:
        """Report the end of a background task. Return the id of its call; None if that is not known."""
        call = self._reported_call(
            task.tool_use_id if self._has_call(task.tool_use_id) else self._tasks.get(task.id, "")
        )
        if call is None or not task.status:
            return None
        call_id, tool = call
        text = task.result or task.summary
        self._frames.update(
            at,
            SessionToolCallUpdate(
                tool_call_id=call_id,
                status="completed" if task.status == "completed" else "failed",
                content=(tools.text(text),) if text else None,
                meta={**meta, "claudeCode": {"toolName": tool}},
            ),
        )
        return call_id

    def _reported_call(self, native_id: str) -> tuple[str, str] | None:
        """Return the id and the tool of a call if it was reported."""
        call = self._calls.get(native_id)
        if call is not None:
            return (call.id, call.name) if call.is_reported else None
        tool = self._ended.get(native_id)
        return (native_id, tool) if tool else None

    def interrupted(self, at: float, meta: dict[str, Any]) -> None:
        """Report calls without a result as failed. A result that follows a line or two later still counts."""
        for call in self._open_calls.values():
            if call.is_given_up:
                continue
            call.is_given_up = True
            if not call.is_reported:
                self._report_call(at, call)
            self._frames.update(at, SessionToolCallUpdate(tool_call_id=call.id, status="failed", meta=meta))

    def finish(self, at: float) -> None:
        """Report calls that waited for their result, and results without a call. Of these, only an edit shows its
        tool."""
        for call in self._open_calls.values():
            if not call.is_reported:
                self._report_call(at, call)
        for result_at, block, record in self._early_results.values():
            output = tools.read_output("Edit", record.tool_use_result)
            display = tools.display_result("Edit" if output.structured_patch else "", block, output)
            self._frames.update(
                result_at,
                SessionToolCallUpdate(
                    tool_call_id=block.tool_use_id,
                    status=_status(block),
                    content=display.content,
                    locations=display.locations,
                    raw_output=_raw_output(block),
                ),
            )
        self._early_results = {}

    def _report_call(self, at: float, call: Call) -> None:
        call.is_reported = True
        display = tools.display(call.name, call.input, self._cwd)
        update = ToolCall(
            tool_call_id=call.id,
            title=display.title,
            name=call.name,
            kind=display.kind,
            status="pending",
            content=display.content,
            locations=display.locations,
            raw_input=call.raw_input,
            meta={**call.meta, "claudeCode": {"toolName": call.name}},
        )
        self._frames.update(at, update)


def _finished(call: Call, block: Block, display: tools.Result, meta: dict[str, Any]) -> SessionToolCallUpdate:
    if display.extras:
        meta = {**meta, "native": {**meta["native"], **display.extras}}
    return SessionToolCallUpdate(
        tool_call_id=call.id,
        status=_status(block),
        title=display.title,
        content=display.content,
        locations=display.locations,
        raw_output=_raw_output(block),
        meta={**meta, "claudeCode": {"toolName": call.name}},
    )


def _status(block: Block) -> ToolCallStatus:
    return "failed" if block.is_error else "completed"


def _raw_output(block: Block) -> msgspec.Raw | None:
    return block.content if block.content != ABSENT else None
