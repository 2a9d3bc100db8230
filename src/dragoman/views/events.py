"""Events: what a Python program iterates over.

run.started               RunStarted             the prompt was sent
assistant.delta           AssistantDelta         a piece of the agent's words
assistant.reasoning.delta ReasoningDelta         a piece of its thoughts
assistant.message         AssistantMessage       a message is complete: its whole text
assistant.reasoning.message ReasoningMessage     the same for a thought
tool.call                 ToolCall               the first sight of a tool call
tool.result               ToolResult             it completed or failed
plan.updated              PlanUpdated            the whole plan as it now is
usage.updated             UsageUpdated           tokens, context, cost: what was reported
permission.requested      PermissionRequested    the agent asks whether it may
permission.resolved       PermissionResolved     and this was the answer, by whom and why
provider.event            ProviderEvent          whatever no other event carries without loss
run.completed             RunCompleted           success, cancelled or error; always the last of a run
error                     Error                  what went wrong, in a run or between runs

Every event has the time, the session's id, the run's id (None between runs) and `raw`: the agent's own
update, as it was said, or None where no single frame stands behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from dragoman.record import facts, rows
from dragoman.wire import lenient
from dragoman.wire.messages import UNREADABLE
from dragoman.wire.vocabulary import ContentBlock, PermissionOption, ToolCallContent, ToolCallLocation


class _RawParams(msgspec.Struct, frozen=True):
    update: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _RawFrame(msgspec.Struct, frozen=True):
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class EventBase(msgspec.Struct, frozen=True, gc=False):
    """What all events have. `line` is the frame behind it, verbatim."""

    type: ClassVar[str] = ""

    time: float
    session_id: str
    run_id: str | None
    line: bytes | None

    @property
    def raw(self) -> Any:
        """The update (or the request's params, or the answer) as the agent said it, unknown fields and all."""
        found = raw_of(self.line)
        return None if found is None else lenient.decode(found, Any)


class RunStarted(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "run.started"


class AssistantDelta(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "assistant.delta"
    text: str
    message_id: str


class ReasoningDelta(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "assistant.reasoning.delta"
    text: str
    message_id: str


class AssistantMessage(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "assistant.message"
    text: str
    message_id: str
    blocks: tuple[ContentBlock, ...] = ()


class ReasoningMessage(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "assistant.reasoning.message"
    text: str
    message_id: str
    blocks: tuple[ContentBlock, ...] = ()


class _ToolEvent(EventBase, frozen=True, gc=False):
    tool_call_id: str
    title: str
    name: str | None
    kind: str
    status: str
    content: tuple[ToolCallContent, ...]
    locations: tuple[ToolCallLocation, ...]
    input: Any
    output: Any
    parent_id: str | None


class ToolCall(_ToolEvent, frozen=True, gc=False):
    type: ClassVar[str] = "tool.call"


class ToolResult(_ToolEvent, frozen=True, gc=False):
    type: ClassVar[str] = "tool.result"

    @property
    def is_error(self) -> bool:
        return self.status == "failed"


class PlanUpdated(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "plan.updated"
    entries: tuple[rows.PlanEntry, ...]
    plan_id: str | None = None
    markdown: str | None = None
    uri: str | None = None
    removed: bool = False


class UsageUpdated(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "usage.updated"
    usage: rows.Usage


class PermissionRequested(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "permission.requested"
    permission_id: str
    tool_call_id: str
    title: str
    kind: str
    input: Any
    content: tuple[ToolCallContent, ...]
    locations: tuple[ToolCallLocation, ...]
    options: tuple[PermissionOption, ...]


class PermissionResolved(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "permission.resolved"
    permission_id: str
    tool_call_id: str
    outcome: str
    option_id: str | None
    option_kind: str | None
    decided_by: str | None
    reason: str | None


class ProviderEvent(EventBase, frozen=True, gc=False):
    """`kind` is the update's own name (`available_commands_update`, `current_mode_update`, …) or method."""

    type: ClassVar[str] = "provider.event"
    kind: str


class Error(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "error"
    message: str
    category: str
    kind: str
    guidance: str = ""


class RunCompleted(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "run.completed"
    status: Literal["success", "cancelled", "error"]
    stop_reason: str | None
    text: str
    usage: rows.Usage | None
    duration: float
    reason: str | None = None


Event: TypeAlias = (
    RunStarted
    | AssistantDelta
    | ReasoningDelta
    | AssistantMessage
    | ReasoningMessage
    | ToolCall
    | ToolResult
    | PlanUpdated
    | UsageUpdated
    | PermissionRequested
    | PermissionResolved
    | ProviderEvent
    | RunCompleted
    | Error
)


def event_of(fact: facts.Fact, time: float, session_id: str, run_id: str | None, line: bytes | None) -> Event | None:
    """The event that tells a fact; None for the end of a run, which the run itself tells, last of all, and
    for what another event tells."""
    if type(fact) is facts.TextAdded:  # ahead of the match: most facts are this one
        message = fact.message
        if message.kind == "assistant":
            return AssistantDelta(time, session_id, run_id, line, fact.text, message.id)
        if message.kind == "thought":
            return ReasoningDelta(time, session_id, run_id, line, fact.text, message.id)
        return ProviderEvent(time, session_id, run_id, line, "user_message_chunk")
    match fact:
        case facts.TextAdded():
            return None
        case facts.BlockAdded(message=message):
            return ProviderEvent(time, session_id, run_id, line, _CHUNK_KINDS[message.kind])
        case facts.MessageEnded(message=message):
            return _message_event(message, time, session_id, run_id)
        case facts.ToolCallSeen(tool_call=call):
            return ToolCall(time, session_id, run_id, line, *_tool_fields(call))
        case facts.ToolCallChanged(kind="session/request_permission"):
            return None  # the permission.requested that follows has all of it
        case facts.ToolCallChanged(kind=kind):
            return ProviderEvent(time, session_id, run_id, line, kind)
        case facts.ToolCallEnded(tool_call=call):
            return ToolResult(time, session_id, run_id, line, *_tool_fields(call))
        case facts.PlanChanged(plan=plan, removed=removed):
            fields = (plan.entries, plan.plan_id, plan.markdown, plan.uri, removed)
            return PlanUpdated(time, session_id, run_id, line, *fields)
        case facts.UsageChanged(usage=usage):
            return UsageUpdated(time, session_id, run_id, line, usage)
        case facts.PermissionRequested(permission=permission):
            return _permission_event(permission, time, session_id, run_id, line)
        case facts.PermissionResolved(permission=permission):
            return PermissionResolved(
                time,
                session_id,
                run_id,
                line,
                permission.id,
                permission.tool_call.tool_call_id,
                permission.outcome,
                permission.option_id,
                permission.option_kind,
                permission.decided_by,
                permission.reason,
            )
        case facts.SettingsChanged(kind=kind) | facts.OtherUpdate(kind=kind):
            return ProviderEvent(time, session_id, run_id, line, kind)
        case facts.RunStarted():
            return RunStarted(time, session_id, run_id, line)
        case facts.RunEnded():
            return None


_CHUNK_KINDS: dict[rows.MessageKind, str] = {
    "user": "user_message_chunk",
    "assistant": "agent_message_chunk",
    "thought": "agent_thought_chunk",
}


def _message_event(message: rows.Message, time: float, session_id: str, run_id: str | None) -> Event | None:
    # The frame at hand is the one that came after the message, so there is no raw to give.
    if message.kind == "assistant":
        return AssistantMessage(time, session_id, run_id, None, message.text, message.id, tuple(message.blocks))
    if message.kind == "thought":
        return ReasoningMessage(time, session_id, run_id, None, message.text, message.id, tuple(message.blocks))
    return None


def _tool_fields(
    call: rows.ToolCall,
) -> tuple[
    str,
    str,
    str | None,
    str,
    str,
    tuple[ToolCallContent, ...],
    tuple[ToolCallLocation, ...],
    Any,
    Any,
    str | None,
]:
    return (
        call.tool_call_id,
        call.title,
        call.name,
        call.kind,
        call.status,
        call.content,
        call.locations,
        call.raw_input,
        call.raw_output,
        call.parent_id,
    )


def _permission_event(
    permission: rows.Permission, time: float, session_id: str, run_id: str | None, line: bytes | None
) -> PermissionRequested:
    call = permission.tool_call
    return PermissionRequested(
        time,
        session_id,
        run_id,
        line,
        permission.id,
        call.tool_call_id,
        call.title,
        call.kind,
        call.raw_input,
        call.content,
        call.locations,
        permission.options,
    )


_frame = msgspec.json.Decoder(_RawFrame)
_params = msgspec.json.Decoder(_RawParams)


def raw_of(line: bytes | None) -> msgspec.Raw | None:
    """The part of a frame that says something: its update, else its params, else its result or error."""
    if line is None:
        return None
    try:
        frame = _frame.decode(line.decode())  # as text: what is passed on unread must be UTF-8 all the same
        if isinstance(frame.params, msgspec.Raw):
            update = _params.decode(frame.params).update
            return update if isinstance(update, msgspec.Raw) else frame.params
    except UNREADABLE:
        # A line that had to be repaired: the text of it is the best there is.
        return msgspec.Raw(msgspec.json.encode(line.decode("utf-8", errors="replace")))
    for part in (frame.result, frame.error):
        if isinstance(part, msgspec.Raw):
            return part
    return None


def to_json(event: Event) -> bytes:
    """One line of JSON: `type`, the event's own fields, and `raw` as the agent said it."""
    fields: dict[str, Any] = {"type": event.type}
    for name in event.__struct_fields__:
        if name != "line":
            fields[name] = getattr(event, name)
    fields["raw"] = raw_of(event.line)
    return msgspec.json.encode(fields)


def texts(messages: Iterable[rows.Message]) -> str:
    """All that was said, a blank line between messages."""
    return "\n\n".join(text for text in (message.text.strip("\n") for message in messages) if text)
