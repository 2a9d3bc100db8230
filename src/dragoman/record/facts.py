"""Facts: the changes that a frame made to the rows of a session. Events, pages and stored rows derive from them.

A fact carries the changed row, as it is after the change.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dragoman.record import notes, rows
from dragoman.wire.dialect import MessageTokens


class RunStarted(msgspec.Struct, frozen=True, gc=False):
    run: rows.Run


class TextAdded(msgspec.Struct, frozen=True, gc=False):
    message: rows.Message
    text: str


class BlockAdded(msgspec.Struct, frozen=True, gc=False):
    """A message got content that is not text."""

    message: rows.Message


class MessageEnded(msgspec.Struct, frozen=True, gc=False):
    message: rows.Message


class ToolCallSeen(msgspec.Struct, frozen=True, gc=False):
    """A tool call was named for the first time, in whatever frame."""

    tool_call: rows.ToolCall


class ToolCallChanged(msgspec.Struct, frozen=True, gc=False):
    """A tool call changed. `kind` is the update, or the method, that said so."""

    tool_call: rows.ToolCall
    kind: str = "tool_call_update"


class ToolCallEnded(msgspec.Struct, frozen=True, gc=False):
    """A tool call completed or failed; once per tool call."""

    tool_call: rows.ToolCall


class PlanChanged(msgspec.Struct, frozen=True, gc=False):
    plan: rows.Plan
    removed: bool = False


class UsageChanged(msgspec.Struct, frozen=True, gc=False):
    usage: rows.Usage


class PermissionRequested(msgspec.Struct, frozen=True, gc=False):
    permission: rows.Permission


class PermissionChanged(msgspec.Struct, frozen=True, gc=False):
    """The host recorded more about a permission. It has no answer yet."""

    permission: rows.Permission


class PermissionResolved(msgspec.Struct, frozen=True, gc=False):
    permission: rows.Permission


class FileCallChanged(msgspec.Struct, frozen=True, gc=False):
    """The agent requested a file, or the host recorded more about it. The request has no answer yet."""

    file_call: rows.FileCall


class FileCallEnded(msgspec.Struct, frozen=True, gc=False):
    """A file request was answered, by success or by an error; once per request."""

    file_call: rows.FileCall


class TerminalChanged(msgspec.Struct, frozen=True, gc=False):
    """The agent requested a command, or more is known about it; neither its start nor its end."""

    terminal: rows.Terminal


class TerminalStarted(msgspec.Struct, frozen=True, gc=False):
    terminal: rows.Terminal


class TerminalRefused(msgspec.Struct, frozen=True, gc=False):
    """A command was not run."""

    terminal: rows.Terminal


class TerminalExited(msgspec.Struct, frozen=True, gc=False):
    """A command ended, by itself or not; once per terminal."""

    terminal: rows.Terminal


class QuestionAsked(msgspec.Struct, frozen=True, gc=False):
    question: rows.Question


class QuestionAnswered(msgspec.Struct, frozen=True, gc=False):
    question: rows.Question


class QuestionCompleted(msgspec.Struct, frozen=True, gc=False):
    """The agent said that the visit of the question's URL is complete."""

    question: rows.Question


class NoticeChanged(msgspec.Struct, frozen=True, gc=False):
    """The agent sent a notice, or began or ended a compaction. `kind` is the update that said so."""

    notice: rows.Notice
    kind: str


class SettingsChanged(msgspec.Struct, frozen=True, gc=False):
    """Commands, modes, options, the title or sub-agents changed. `kind` is the update that said so."""

    kind: str


class HistoryDiffers(msgspec.Struct, frozen=True, gc=False):
    """The history that the agent replayed differs from the journal."""

    differs: notes.HistoryDiffers


class CheckpointFailed(msgspec.Struct, frozen=True, gc=False):
    """The workspace before or after a run could not be recorded."""

    notice: rows.Notice
    failed: notes.CheckpointFailed


class Rewound(msgspec.Struct, frozen=True, gc=False):
    """The files of the workspace were brought back to an earlier checkpoint."""

    notice: rows.Notice
    rewound: notes.Rewound


class GitActionDone(msgspec.Struct, frozen=True, gc=False):
    """A person committed, pushed or opened a pull request from the session."""

    notice: rows.Notice
    done: notes.GitAction


class OtherUpdate(msgspec.Struct, frozen=True, gc=False):
    """A frame that is recorded and passed on, and changes no row."""

    kind: str


class RunEnded(msgspec.Struct, frozen=True, gc=False):
    run: rows.Run
    messages: tuple[MessageTokens, ...] = ()  # with their tokens, where a transcript has them


class RunCostChanged(msgspec.Struct, frozen=True, gc=False):
    """The agent reported the cost of a run after its end."""

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
    | PermissionChanged
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
    | CheckpointFailed
    | Rewound
    | GitActionDone
    | OtherUpdate
    | RunEnded
    | RunCostChanged
)
