"""Rows: typed records that the fold derives from the frames of a session. For everyone to read.

Row ids derive from positions in the journal, so that folding the same frames again gives the same rows. A figure that
the agent did not report is None, never zero.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from dragoman.record.text import GrowingText
from dragoman.wire.messages import RequestId, RpcError
from dragoman.wire.vocabulary import (
    ContentBlock,
    Cost,
    Diff,
    ElicitationContentValue,
    PermissionOption,
    ToolCallContent,
    ToolCallLocation,
)

RunStatus: TypeAlias = Literal["running", "success", "cancelled", "error", "interrupted"]
MessageKind: TypeAlias = Literal["user", "assistant", "thought"]


class FrameContext(msgspec.Struct, frozen=True, gc=False):
    """The position and time of the frame that is being folded, and the run that it belongs to."""

    position: int
    time: float
    run_id: str | None

    def row_id(self, noun: str) -> str:
        """Return the id of a row that begins with this frame."""
        return f"{noun}-{self.position}"


class Message(msgspec.Struct, kw_only=True):
    """A message, from the first chunk to the last. `ended`: no more chunks can join it."""

    id: str
    kind: MessageKind
    run_id: str | None
    message_id: str | None  # the agent's own id, where it gives one
    time: float
    replayed: bool
    body: GrowingText
    blocks: list[ContentBlock] = []  # content that is not text: images, audio, resources
    ended: bool = False

    @property
    def text(self) -> str:
        return str(self.body)


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    tool_call_id: str  # the agent's; may be empty, or be used again in a later run
    run_id: str | None
    time: float
    replayed: bool
    title: str = ""
    name: str | None = None
    kind: str = "other"
    status: str = "pending"
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    parent_id: str | None = None  # the agent's id of the tool call whose sub-agent made this one
    ended_time: float | None = None
    output: str | None = None  # the end of the output of a command that the agent itself ran, where it reports it
    truncated: bool = False  # the command wrote more than `output` has
    exit_code: int | None = None
    signal: str | None = None

    @property
    def finished(self) -> bool:
        return self.status in ("completed", "failed")


class PlanEntry(msgspec.Struct, frozen=True):
    content: str
    priority: str
    status: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`plan_id` is None for the one plan of the stable protocol."""

    plan_id: str | None
    entries: tuple[PlanEntry, ...] = ()
    markdown: str | None = None
    uri: str | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Figures as the agent reported them, each None where it did not."""

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    thought_tokens: int | None = None
    total_tokens: int | None = None
    context_used: int | None = None
    context_size: int | None = None
    is_context_size_guessed: bool = False  # a transcript does not always have it
    cost: Cost | None = None


class DecidedRow(msgspec.Struct, frozen=True, kw_only=True):
    """The decision on a request of the agent, with who made it and why; each None where it was not recorded."""

    decision: str | None = None  # allow, deny or cancelled
    decided_by: str | None = None  # rule, person, callback, default, timeout, cancel, agent
    reason: str | None = None
    rule: str | None = None  # the text of the rule that decided
    layer: str | None = None  # the configuration layer of that rule
    remembered: tuple[str, ...] = ()  # ids of the rules that were made from the answer


class Permission(DecidedRow, frozen=True, kw_only=True):
    """A permission request: of the agent, or of the host about a file to write or a command to run for the agent."""

    id: str
    request_id: RequestId
    run_id: str | None
    time: float
    options: tuple[PermissionOption, ...]
    origin: str = "agent"  # or files, terminals: then the host asks, and there is no tool call
    tool_call_row: str | None = None  # the row's id
    tool_call_id: str | None = None  # the agent's
    title: str = ""
    kind: str = "other"
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None
    asked_because: str = ""  # why it needs an answer, whatever rules allow; empty where they could allow it
    outcome: Literal["pending", "selected", "cancelled", "failed"] = "pending"
    option_id: str | None = None
    resolved_time: float | None = None

    @property
    def option_kind(self) -> str | None:
        """The kind of the chosen option: allow_once, allow_always, reject_once, reject_always."""
        return next((option.kind for option in self.options if option.option_id == self.option_id), None)


class FileCall(DecidedRow, frozen=True, kw_only=True):
    """A file that the agent read or wrote through the host (`fs/*`), or asked to."""

    id: str
    request_id: RequestId
    run_id: str | None
    time: float
    operation: Literal["read", "write"]
    path: str  # the resolved path, where the host recorded it; else the path that the agent named
    line: int | None = None  # of a read: the first line, counted from 1
    limit: int | None = None  # of a read: the number of lines
    status: Literal["pending", "done", "failed", "denied", "cancelled"] = "pending"
    size: int | None = None  # bytes of the text that was read, or is to be written
    diff: Diff | None = None  # of a write; None where a text is too large to record, or the old one is not known
    old_size: int | None = None  # bytes of the replaced text; None for a new file, or where it is not text
    old_sha256: str | None = None  # of the old text, where it is too large to record
    error: str | None = None  # the error that the agent got
    ended_time: float | None = None


class Terminal(DecidedRow, frozen=True, kw_only=True):
    """A command that the agent ran through the host (`terminal/*`), or asked to.

    `status`: running until it ended by itself (exited), by `terminal/kill` or with its cancelled run (killed), or by
    `terminal/release` (released). One that never ran is denied, cancelled, or failed to start.
    """

    id: str
    request_id: RequestId
    run_id: str | None
    time: float
    command: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env: tuple[str, ...] = ()  # names alone: values may be secrets
    terminal_id: str | None = None  # the id that the agent and its tool calls use, once the command runs
    status: Literal["pending", "running", "exited", "killed", "released", "denied", "cancelled", "failed"] = "pending"
    exit_code: int | None = None
    signal: str | None = None
    output: str | None = None  # the end of the output, recorded when the command ended
    output_bytes: int | None = None  # the size of the whole output
    truncated: bool = False  # the command wrote more than `output` has
    error: str | None = None  # the error that the agent got, where the command did not start
    ended_time: float | None = None

    @property
    def ended(self) -> bool:
        return self.status in ("exited", "killed", "released")


class Question(DecidedRow, frozen=True, kw_only=True):
    """A question of the agent to the user (`elicitation/create`): a form to fill in, or a URL to visit."""

    id: str
    request_id: RequestId
    run_id: str | None
    time: float
    mode: str  # form or url
    message: str
    tool_call_id: str | None = None  # the agent's, where a tool asks
    schema: dict[str, Any] | None = None  # JSON Schema of a form, as the agent wrote it
    url: str | None = None
    elicitation_id: str | None = None
    action: str = "pending"  # accept, decline or cancel; failed where the answer was an error
    content: dict[str, ElicitationContentValue] | None = None  # the values that the user entered
    answered_time: float | None = None
    completed_time: float | None = None  # when the agent said that the visit of the URL is complete


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A notice of the agent about itself, or a compaction of its context."""

    id: str
    run_id: str | None
    time: float
    kind: Literal["notice", "compaction"]
    title: str
    severity: str = "info"  # info, warning, error, or the agent's own word
    text: str | None = None  # the description; of a compaction its summary or its error
    status: str | None = None  # of a compaction: in_progress, completed, failed, cancelled
    ended_time: float | None = None


class SentSkill(msgspec.Struct, frozen=True):
    """A skill whose whole text went with a prompt. `size` is in bytes."""

    name: str
    path: str
    size: int


class OmittedSkill(msgspec.Struct, frozen=True):
    """A skill that was to go with a prompt in full, and did not."""

    name: str
    reason: str


class PromptContext(msgspec.Struct, frozen=True, kw_only=True):
    """The text that went to the agent with a prompt beside the user's own. The frame of the prompt has the text itself.

    `folders` are those of the skills in the index, `listed` is their number. `workspace_skills` are the names of those,
    listed or in full, that are files of the workspace: whoever writes there writes into prompts. `template` is the path
    of the prompt template that the user's text called.
    """

    folders: tuple[str, ...] = ()
    listed: int = 0
    workspace_skills: tuple[str, ...] = ()
    skills: tuple[SentSkill, ...] = ()
    omitted: tuple[OmittedSkill, ...] = ()
    template: str | None = None
    has_custom_instructions: bool = False


class Run(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    time: float
    position: int = 0  # of the frame that began the run: orders it among the other rows of the session
    status: RunStatus = "running"
    stop_reason: str | None = None
    error: RpcError | None = None
    reason: str | None = None  # why the run was interrupted, where the agent did not end it
    cancel_requested: bool = False
    usage: Usage | None = None
    ended_time: float | None = None  # also None for a run that has ended, in a transcript without times
    context: PromptContext | None = None  # the text that went with the user's prompt: skills, custom instructions


class Choice(msgspec.Struct, frozen=True):
    value: str
    name: str
    description: str | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that a session can switch: a mode, a model, or any option that the agent offers.

    `source` says how it is switched: by a config option, or by the older `modes` and `models`.
    """

    id: str
    name: str
    category: str | None
    current: str | bool | None
    choices: tuple[Choice, ...] = ()
    source: Literal["option", "mode", "model"] = "option"


class Command(msgspec.Struct, frozen=True):
    """A slash command that the agent offers."""

    name: str
    description: str = ""
    hint: str | None = None


class SubAgent(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    title: str | None = None
    description: str | None = None
    state: str | None = None
