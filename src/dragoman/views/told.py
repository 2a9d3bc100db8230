"""How facts are told: the event for each of them."""

from __future__ import annotations

from typing import Any, TypeAlias, TypedDict

from dragoman.record import facts, rows
from dragoman.views import events
from dragoman.wire.vocabulary import ToolCallContent, ToolCallLocation

# Time, session, run and frame: what every event begins with.
_Head: TypeAlias = tuple[float, str, str | None, bytes | None]


def event_of(
    fact: facts.Fact, time: float, session_id: str, run_id: str | None, line: bytes | None
) -> events.Event | None:
    """The event that tells a fact; None for the end of a run, which the run itself tells, last of all, and
    for what another event tells."""
    if type(fact) is facts.TextAdded:  # ahead of the match: most facts are this one
        message = fact.message
        if message.kind == "assistant":
            return events.AssistantDelta(time, session_id, run_id, line, fact.text, message.id)
        if message.kind == "thought":
            return events.ReasoningDelta(time, session_id, run_id, line, fact.text, message.id)
        return events.ProviderEvent(time, session_id, run_id, line, "user_message_chunk")
    head = (time, session_id, run_id, line)
    match fact:
        case facts.TextAdded():
            return None
        case facts.BlockAdded(message=message):
            return events.ProviderEvent(*head, _CHUNK_KINDS[message.kind])
        case facts.MessageEnded(message=message):
            return _message_event(message, time, session_id, run_id)
        case facts.ToolCallSeen(tool_call=call):
            return events.ToolCall(time, session_id, run_id, line, *_tool_fields(call))
        case facts.ToolCallChanged(kind="session/request_permission"):
            return None  # the permission.requested that follows has all of it
        case facts.ToolCallChanged(kind=kind):
            return events.ProviderEvent(*head, kind)
        case facts.ToolCallEnded(tool_call=call):
            return events.ToolResult(time, session_id, run_id, line, *_tool_fields(call))
        case facts.PlanChanged(plan=plan, removed=removed):
            fields = (plan.entries, plan.plan_id, plan.markdown, plan.uri, removed)
            return events.PlanUpdated(time, session_id, run_id, line, *fields)
        case facts.UsageChanged(usage=usage):
            return events.UsageUpdated(*head, usage)
        case facts.PermissionRequested() | facts.PermissionResolved():
            return _permission_event(fact, head)
        # A read's answer is the file itself: what is told of files and commands stands for the frames about them.
        case facts.FileCallEnded(file_call=file_call):
            return _file_event(file_call, (time, session_id, run_id, None))
        case facts.TerminalStarted() | facts.TerminalRefused() | facts.TerminalExited():
            return _terminal_event(fact, (time, session_id, run_id, None))
        case facts.QuestionAsked() | facts.QuestionAnswered() | facts.QuestionCompleted():
            return _question_event(fact, head)
        case facts.FileCallChanged() | facts.TerminalChanged():
            return None  # what becomes of it is told at its end
        case facts.SettingsChanged(kind=kind) | facts.NoticeChanged(kind=kind) | facts.OtherUpdate(kind=kind):
            return events.ProviderEvent(*head, kind)
        case facts.HistoryDiffers(differs=differs):
            return events.HistoryDiffers(time, session_id, run_id, None, differs.differences, differs.count)
        case facts.RunStarted():
            return events.RunStarted(*head)
        case facts.RunEnded() | facts.RunPaid():
            return None


_CHUNK_KINDS: dict[rows.MessageKind, str] = {
    "user": "user_message_chunk",
    "assistant": "agent_message_chunk",
    "thought": "agent_thought_chunk",
}


def _message_event(message: rows.Message, time: float, session_id: str, run_id: str | None) -> events.Event | None:
    # The frame at hand is the one that came after the message, so there is no raw to give.
    if message.kind == "assistant":
        return events.AssistantMessage(time, session_id, run_id, None, message.text, message.id, tuple(message.blocks))
    if message.kind == "thought":
        return events.ReasoningMessage(time, session_id, run_id, None, message.text, message.id, tuple(message.blocks))
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


def _permission_event(fact: facts.PermissionRequested | facts.PermissionResolved, head: _Head) -> events.Event:
    row = fact.permission
    if row.origin != "agent":
        head = (*head[:3], None)  # a note of ours
    if isinstance(fact, facts.PermissionRequested):
        return events.PermissionRequested(
            *head,
            row.id,
            row.tool_call_id,
            row.title,
            row.kind,
            row.raw_input,
            row.content,
            row.locations,
            row.options,
            row.origin,
        )
    return events.PermissionResolved(
        *head,
        row.id,
        row.tool_call_id,
        row.outcome,
        row.option_id,
        row.option_kind,
        row.origin,
        **_decided(row),
    )


def _file_event(row: rows.FileCall, head: _Head) -> events.Event:
    what = (row.id, row.path, row.status)
    if row.operation == "read":
        return events.FileRead(*head, *what, row.line, row.limit, row.size, row.error, **_decided(row))
    return events.FileWritten(*head, *what, row.diff, row.size, row.old_size, row.error, **_decided(row))


def _terminal_event(
    fact: facts.TerminalStarted | facts.TerminalRefused | facts.TerminalExited, head: _Head
) -> events.Event:
    row = fact.terminal
    wanted = (row.command, row.args, row.cwd, row.env)
    match fact:
        case facts.TerminalStarted():
            return events.TerminalStarted(*head, row.terminal_id or "", *wanted, **_decided(row))
        case facts.TerminalRefused():
            return events.TerminalRefused(*head, row.id, *wanted, row.status, row.error, **_decided(row))
        case facts.TerminalExited():
            return events.TerminalExited(
                *head,
                row.terminal_id or "",
                row.command,
                row.args,
                row.status,
                row.exit_code,
                row.signal,
                row.output,
                row.output_bytes,
                row.truncated,
            )


def _question_event(
    fact: facts.QuestionAsked | facts.QuestionAnswered | facts.QuestionCompleted, head: _Head
) -> events.Event:
    row = fact.question
    match fact:
        case facts.QuestionAsked():
            return events.QuestionAsked(*head, row.id, row.message, row.mode, row.schema, row.url, row.tool_call_id)
        case facts.QuestionAnswered():
            return events.QuestionAnswered(*head, row.id, row.action, row.content, **_decided(row))
        case facts.QuestionCompleted():
            return events.QuestionCompleted(*head, row.id, row.url)


class _Said(TypedDict):
    decision: str | None
    decided_by: str | None
    reason: str | None
    rule: str | None
    layer: str | None
    remembered: tuple[str, ...]


def _decided(row: rows.Decided) -> _Said:
    return {
        "decision": row.decision,
        "decided_by": row.decided_by,
        "reason": row.reason,
        "rule": row.rule,
        "layer": row.layer,
        "remembered": row.remembered,
    }
