"""Facts: what a frame changed, as the fold saw it. Views turn them into events, messages, pages.

A fact carries the row it speaks of, as it is after the change.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dragoman.record import notes, rows


class RunStarted(msgspec.Struct, frozen=True, gc=False):
    run: rows.Run


class TextAdded(msgspec.Struct, frozen=True, gc=False):
    message: rows.Message
    text: str


class BlockAdded(msgspec.Struct, frozen=True, gc=False):
    """A message got something that is not text."""

    message: rows.Message


class MessageEnded(msgspec.Struct, frozen=True, gc=False):
    message: rows.Message


class ToolCallSeen(msgspec.Struct, frozen=True, gc=False):
    """The first sight of a tool call, in whatever frame that was."""

    tool_call: rows.ToolCall


class ToolCallChanged(msgspec.Struct, frozen=True, gc=False):
    """`kind` is the update, or the method, that said so."""

    tool_call: rows.ToolCall
    kind: str = "tool_call_update"


class ToolCallEnded(msgspec.Struct, frozen=True, gc=False):
    """It completed or failed; said once a tool call."""

    tool_call: rows.ToolCall


class PlanChanged(msgspec.Struct, frozen=True, gc=False):
    plan: rows.Plan
    removed: bool = False


class UsageChanged(msgspec.Struct, frozen=True, gc=False):
    usage: rows.Usage


class PermissionRequested(msgspec.Struct, frozen=True, gc=False):
    permission: rows.Permission


class PermissionResolved(msgspec.Struct, frozen=True, gc=False):
    permission: rows.Permission


class FileCallChanged(msgspec.Struct, frozen=True, gc=False):
    """It was asked for, or the host noted more of it. It has no answer yet."""

    file_call: rows.FileCall


class FileCallEnded(msgspec.Struct, frozen=True, gc=False):
    """It was done, or the agent was told why not; said once a call."""

    file_call: rows.FileCall


class TerminalChanged(msgspec.Struct, frozen=True, gc=False):
    """It was asked for, or more is known of it; neither a beginning nor an end."""

    terminal: rows.Terminal


class TerminalStarted(msgspec.Struct, frozen=True, gc=False):
    terminal: rows.Terminal


class TerminalRefused(msgspec.Struct, frozen=True, gc=False):
    """The command was not run."""

    terminal: rows.Terminal


class TerminalExited(msgspec.Struct, frozen=True, gc=False):
    """The command ended, by itself or not; said once a terminal."""

    terminal: rows.Terminal


class QuestionAsked(msgspec.Struct, frozen=True, gc=False):
    question: rows.Question


class QuestionAnswered(msgspec.Struct, frozen=True, gc=False):
    question: rows.Question


class QuestionCompleted(msgspec.Struct, frozen=True, gc=False):
    """What was to happen at the address has happened, says the agent."""

    question: rows.Question


class NoticeChanged(msgspec.Struct, frozen=True, gc=False):
    """A notice came, or a compaction began or ended. `kind` is the update that said so."""

    notice: rows.Notice
    kind: str


class SettingsChanged(msgspec.Struct, frozen=True, gc=False):
    """Commands, modes, options, the title or sub-agents are now others. `kind` is the update that said so."""

    kind: str


class HistoryDiffers(msgspec.Struct, frozen=True, gc=False):
    """What the agent told again is not what is kept."""

    differs: notes.HistoryDiffers


class OtherUpdate(msgspec.Struct, frozen=True, gc=False):
    """Something that is kept and passed on, and changes no row."""

    kind: str


class RunEnded(msgspec.Struct, frozen=True, gc=False):
    run: rows.Run


class RunPaid(msgspec.Struct, frozen=True, gc=False):
    """The agent told after the end of the run what it has cost."""

    run: rows.Run


Fact: TypeAlias = (
    RunStarted
    | TextAdded
    | BlockAdded
    | MessageEnded
    | ToolCallSeen
    | ToolCallChanged
    | ToolCallEnded
    | PlanChanged
    | UsageChanged
    | PermissionRequested
    | PermissionResolved
    | FileCallChanged
    | FileCallEnded
    | TerminalChanged
    | TerminalStarted
    | TerminalRefused
    | TerminalExited
    | QuestionAsked
    | QuestionAnswered
    | QuestionCompleted
    | NoticeChanged
    | SettingsChanged
    | HistoryDiffers
    | OtherUpdate
    | RunEnded
    | RunPaid
)
