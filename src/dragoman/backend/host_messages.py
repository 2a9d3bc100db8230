"""What was done for the agent, as messages: files read and written, commands run. Pure.

The agent's requests themselves are told whole, as every frame is; these tell what became of them. No frame of the
agent's says it, so they come from events.

event                                type              metadata
file.read                            tool_use_summary  origin: files, kind: read, locations, size
file.written                         tool_use_summary  origin: files, kind: edit, locations; the diff in `content`
terminal.started                     tool_progress     origin: terminals, kind: execute, rawInput
terminal.exited                      tool_use_summary  the same with rawOutput; the end of the output in `content`
terminal.refused                     tool_use_summary  the same with rawInput, and is_error
question.answered                    status_change     origin: questions, action

All have a `toolCallId` of ours and a `title`, as an agent's tool calls have, and `decision`, `decided_by`, `reason` and
`rule` where something was decided. What failed or was refused has `is_error: true` and the `error` as the agent got it.
"""

from __future__ import annotations

import os
import shlex
from typing import Literal

import msgspec

from dragoman.backend.messages import Fields, Role
from dragoman.record import events


class HostMessage(msgspec.Struct, frozen=True):
    """All of a message but what counts and dates it."""

    type: Literal["tool_progress", "tool_use_summary", "status_change"]
    metadata: Fields
    content: tuple[Fields, ...] = ()
    role: Role = "tool"


class HostMessageView:
    """What is worth a message. While a tool call is under way, a file that was written and a command that ran are its
    doing, and it tells of them itself. Reads are told only where they were denied: agents look for files that may not
    be there. What else was refused or failed is always told."""

    def __init__(self) -> None:
        self._covered: set[str] = set()  # terminals that a tool call tells of

    def tell(self, event: events.Event, *, tool_at_work: bool) -> HostMessage | None:
        match event:
            case events.FileRead(status=status) if status != "denied":
                return None
            case events.FileWritten(status="done") if tool_at_work:
                return None
            case events.TerminalStarted(terminal_id=terminal_id) if tool_at_work:
                self._covered.add(terminal_id)
                return None
            case events.TerminalExited(terminal_id=terminal_id) if terminal_id in self._covered:
                self._covered.discard(terminal_id)
                return None
            case _:
                return message_from_event(event)


def message_from_event(event: events.Event) -> HostMessage | None:
    """The message that tells this event; None where a frame of the agent's tells it."""
    match event:
        case events.FileRead():
            location: Fields = {"path": event.path}
            if event.from_line is not None:
                location["line"] = event.from_line
            return _file(event, "read", f"Read {os.path.basename(event.path)}", location, ())
        case events.FileWritten(diff=diff):
            content = () if diff is None else (msgspec.to_builtins(diff),)
            return _file(event, "edit", f"Write {os.path.basename(event.path)}", {"path": event.path}, content)
        case events.TerminalStarted():
            metadata = {**_command(event), "status": "in_progress", "rawInput": _input(event)}
            return HostMessage("tool_progress", {**metadata, **_decided(event)})
        case events.TerminalRefused():
            metadata = {**_command(event), "status": "failed", "rawInput": _input(event)}
            return HostMessage(
                "tool_use_summary", {**metadata, "is_error": True, "error": event.error, **_decided(event)}
            )
        case events.TerminalExited():
            return _exited(event)
        case events.QuestionAnswered():
            metadata = {"origin": "questions", "questionId": event.question_id, "action": event.action}
            return HostMessage("status_change", {**metadata, **_decided(event)}, role="system")
        case _:
            return None


def _file(
    event: events.FileRead | events.FileWritten, kind: str, title: str, location: Fields, content: tuple[Fields, ...]
) -> HostMessage:
    done = event.status == "done"
    metadata: Fields = {
        "origin": "files",
        "toolCallId": event.file_id,
        "title": title,
        "kind": kind,
        "status": "completed" if done else "failed",
        "locations": [location],
        "size": event.size,
        **_decided(event),
    }
    if not done:
        metadata |= {"is_error": True, "error": event.error}
    return HostMessage("tool_use_summary", metadata, content)


def _exited(event: events.TerminalExited) -> HostMessage:
    output = {
        "exitCode": event.exit_code,
        "signal": event.signal,
        "ending": event.status,
        "bytes": event.output_bytes,
        "truncated": event.truncated,
    }
    metadata = {**_command(event), "status": "completed", "rawOutput": output}
    content = ({"type": "text", "text": event.output},) if event.output else ()
    return HostMessage("tool_use_summary", metadata, content)


def _command(event: events.TerminalStarted | events.TerminalRefused | events.TerminalExited) -> Fields:
    line = shlex.join((event.command, *event.args)) if event.args else event.command
    return {"origin": "terminals", "toolCallId": event.terminal_id, "title": line, "kind": "execute"}


def _input(event: events.TerminalStarted | events.TerminalRefused) -> Fields:
    return {"command": event.command, "args": list(event.args), "cwd": event.cwd, "env": list(event.env)}


def _decided(
    event: events.FileRead
    | events.FileWritten
    | events.TerminalStarted
    | events.TerminalRefused
    | events.QuestionAnswered,
) -> Fields:
    said = {
        "decision": event.decision,
        "decided_by": event.decided_by,
        "reason": event.reason,
        "rule": event.rule,
    }
    return {key: value for key, value in said.items() if value is not None}
