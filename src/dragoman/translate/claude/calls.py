"""The tool calls of a Claude session, from call to result, in whatever order these stand.

A result may stand before its call, and is held until the call comes. Calls of the plan's tools are told as the plan;
those that fail are told as calls, or nobody would learn of it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dragoman.translate import frames
from dragoman.translate.claude import results, tools
from dragoman.translate.claude.plan import Plan
from dragoman.translate.claude.records import ABSENT, Block, Record, blocks
from dragoman.translate.claude.words import Task
from dragoman.translate.scratch import Scratch, SpillingMap
from dragoman.translate.translator import Frame
from dragoman.wire.vocabulary import Plan as PlanUpdate
from dragoman.wire.vocabulary import SessionToolCallUpdate, ToolCall, ToolCallStatus

# Of calls that have their result: one object for all of them.
_NO_INPUT: Final = tools.Input()
_NO_META: Final[dict[str, Any]] = {}


class Call(msgspec.Struct, gc=False):
    id: str  # the tool call's; Claude's own, but where that came again
    name: str
    raw_input: msgspec.Raw
    input: tools.Input
    meta: dict[str, Any]
    told: bool = False  # as a tool call
    under_way: bool = False
    given_up: bool = False  # the run was interrupted before there was a result
    description: str | None = None

    def forget(self) -> None:
        """It has its result. What it was given keeps a whole line of the file in memory, and nobody asks again."""
        self.raw_input = ABSENT
        self.description = self.input.description
        self.input = _NO_INPUT
        self.meta = _NO_META


class Calls:
    """What is to be told goes to `out`."""

    def __init__(self, session_id: str, cwd: str, out: list[Frame], scratch: Scratch) -> None:
        self._session_id = session_id
        self._cwd = cwd
        self._out = out
        # By Claude's id: calls without a result, and those whose id came again.
        self._calls: dict[str, Call] = {}
        self._ended: SpillingMap[str] = SpillingMap(scratch)  # the others: the name of the tool; empty if not reported
        self._descriptions: SpillingMap[str] = SpillingMap(scratch)  # of those that may have news later
        self._open: dict[str, Call] = {}
        self._held: dict[str, tuple[float, Block, Record]] = {}  # results whose calls have not come
        self._tasks: dict[str, str] = {}  # background tasks and sub-agents, to Claude's id of the call
        self._plan = Plan()

    def called(self, at: float, block: Block, meta: dict[str, Any]) -> results.Output | None:
        """A call. What its tool gave, where the result stood before it."""
        # An id that comes again is another call: published transcripts have ids blacked out.
        call_id = f"{block.id}:{meta['native'].get('uuid')}" if self._knows(block.id) else block.id
        call = Call(call_id, block.name, block.input, tools.read_input(block.input), meta)
        self._calls[block.id] = self._open[block.id] = call
        if call.name not in tools.PLAN_TOOLS:
            self._tell(at, call)
        held = self._held.pop(block.id, None)
        return self.answered(max(at, held[0]), *held[1:], meta) if held is not None else None

    def answered(self, at: float, block: Block, record: Record, meta: dict[str, Any]) -> results.Output | None:
        """A result. None where its call has not come."""
        call = self._open.pop(block.tool_use_id, None)
        if call is None:
            if not self._knows(block.tool_use_id):
                self._held[block.tool_use_id] = (at, block, record)
            return None
        output = results.read_output(call.name, record.tool_use_result)
        for task_id in (output.agent_id, output.background_task_id):
            if task_id is not None:
                self._tasks[task_id] = block.tool_use_id
        if call.name in tools.PLAN_TOOLS and not block.is_error:
            words = "".join(part.text for part in blocks(block.content))
            self._plan.done(call.name, call.input, output, words)
            meta = {**meta, "native": {**meta["native"], "toolUseId": call.id, "tool": call.name}}
            self._update(at, PlanUpdate(entries=self._plan.entries(), meta=meta))
        else:
            if not call.told:
                self._tell(at, call)
            self._update(at, _finished(call, block, results.shown(call.name, block, output), meta))
        call.forget()
        may_have_news = call.name in tools.AGENT_TOOLS or output.agent_id or output.background_task_id
        description = call.description if may_have_news else None
        if call.id == block.tool_use_id:
            del self._calls[call.id]
            self._ended.put(call.id, call.name if call.told else "")
            if description:
                self._descriptions.put(call.id, description)
        return output

    def _knows(self, native_id: str) -> bool:
        return native_id in self._calls or native_id in self._ended

    def agent_with(self, prompt: str) -> tuple[str, tools.Input] | None:
        """The unanswered call that began a sub-agent with this prompt."""
        for call in self._open.values():
            fits = call.name in tools.AGENT_TOOLS and (call.input.prompt or "").strip() == prompt.strip()
            if fits and not call.given_up:
                return call.id, call.input
        return None

    def description_of(self, native_id: str) -> str | None:
        """What a call was said to be for."""
        call = self._calls.get(native_id)
        if call is not None:
            return call.description or call.input.description
        return self._descriptions.get(native_id)

    def under_way(self, at: float, native_id: str | None, meta: dict[str, Any]) -> None:
        """There was progress: said once, and only of a call that is told."""
        call = self._open.get(native_id or "")
        if call is not None and call.told and not call.under_way:
            call.under_way = True
            self._update(at, SessionToolCallUpdate(tool_call_id=call.id, status="in_progress", meta=meta))

    def news(self, at: float, task: Task, meta: dict[str, Any]) -> str | None:
        """A background task ended. The id of its call, where that is known here."""
        call = self._told(task.tool_use_id if self._knows(task.tool_use_id) else self._tasks.get(task.id, ""))
        if call is None or not task.status:
            return None
        call_id, tool = call
        said = task.result or task.summary
        self._update(
            at,
            SessionToolCallUpdate(
                tool_call_id=call_id,
                status="completed" if task.status == "completed" else "failed",
                content=(tools.text(said),) if said else None,
                meta={**meta, "claudeCode": {"toolName": tool}},
            ),
        )
        return call_id

    def _told(self, native_id: str) -> tuple[str, str] | None:
        """The id and the tool of a call, where it is told."""
        call = self._calls.get(native_id)
        if call is not None:
            return (call.id, call.name) if call.told else None
        tool = self._ended.get(native_id)
        return (native_id, tool) if tool else None

    def interrupted(self, at: float, meta: dict[str, Any]) -> None:
        """What has no result will hardly have one; where it stands a line or two further down, it counts."""
        for call in self._open.values():
            if call.given_up:
                continue
            call.given_up = True
            if not call.told:
                self._tell(at, call)
            self._update(at, SessionToolCallUpdate(tool_call_id=call.id, status="failed", meta=meta))

    def finish(self, at: float) -> None:
        """Calls that were to be told by their result, and results without a call: only an edit tells what it was."""
        for call in self._open.values():
            if not call.told:
                self._tell(at, call)
        for came, block, record in self._held.values():
            output = results.read_output("Edit", record.tool_use_result)
            shown = results.shown("Edit" if output.structured_patch else "", block, output)
            self._update(
                came,
                SessionToolCallUpdate(
                    tool_call_id=block.tool_use_id,
                    status=_status(block),
                    content=shown.content,
                    locations=shown.locations,
                    raw_output=_raw_output(block),
                ),
            )
        self._held = {}

    def _tell(self, at: float, call: Call) -> None:
        call.told = True
        shown = tools.shown(call.name, call.input, self._cwd)
        said = ToolCall(
            tool_call_id=call.id,
            title=shown.title,
            name=call.name,
            kind=shown.kind,
            status="pending",
            content=shown.content,
            locations=shown.locations,
            raw_input=call.raw_input,
            meta={**call.meta, "claudeCode": {"toolName": call.name}},
        )
        self._update(at, said)

    def _update(self, at: float, said: ToolCall | SessionToolCallUpdate | PlanUpdate) -> None:
        self._out.append(frames.update(self._session_id, at, said))


def _finished(call: Call, block: Block, shown: results.Result, meta: dict[str, Any]) -> SessionToolCallUpdate:
    if shown.extras:
        meta = {**meta, "native": {**meta["native"], **shown.extras}}
    return SessionToolCallUpdate(
        tool_call_id=call.id,
        status=_status(block),
        title=shown.title,
        content=shown.content,
        locations=shown.locations,
        raw_output=_raw_output(block),
        meta={**meta, "claudeCode": {"toolName": call.name}},
    )


def _status(block: Block) -> ToolCallStatus:
    return "failed" if block.is_error else "completed"


def _raw_output(block: Block) -> msgspec.Raw | None:
    return block.content if block.content != ABSENT else None
