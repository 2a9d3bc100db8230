"""Rows: what a session's frames amount to. Typed records that the fold keeps, and anyone may read.

Row ids derive from positions in the conversation, so that folding it again gives the same rows. A
figure that the agent did not report is None, never zero.
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
    ElicitationSchema,
    PermissionOption,
    ToolCallContent,
    ToolCallLocation,
)

RunStatus: TypeAlias = Literal["running", "success", "cancelled", "error", "interrupted"]
MessageKind: TypeAlias = Literal["user", "assistant", "thought"]


class Message(msgspec.Struct, kw_only=True):
    """A message, from the first chunk to the last; `ended` once nothing more can join it."""

    id: str
    kind: MessageKind
    run_id: str | None
    message_id: str | None  # the agent's own id, where it gives one
    time: float
    replayed: bool
    body: GrowingText
    blocks: list[ContentBlock] = []  # what is not text: images, audio, resources
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
    output: str | None = None  # the end of what a command of the agent's own wrote, where it tells that
    truncated: bool = False  # it wrote more than `output` has
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
    cost: Cost | None = None


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided on something that the agent asked of us, by whom and why; each None where nobody noted it."""

    decision: str | None = None  # allow, deny or cancelled
    decided_by: str | None = None  # rule, person, callback, default, timeout, cancel, agent
    reason: str | None = None
    rule: str | None = None  # the rule that answered, as it reads
    layer: str | None = None  # where that rule stands
    remembered: tuple[str, ...] = ()  # ids of the rules that were made of the answer


class Permission(Decided, frozen=True, kw_only=True):
    """A question whether the agent may: its own, or ours about a file to write or a command to run for it."""

    id: str
    request_id: RequestId
    run_id: str | None
    time: float
    options: tuple[PermissionOption, ...]
    origin: str = "agent"  # or files, terminals: then we ask, and there is no tool call
    tool_call_row: str | None = None  # the row's id
    tool_call_id: str | None = None  # the agent's
    title: str = ""
    kind: str = "other"
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None
    outcome: Literal["pending", "selected", "cancelled", "failed"] = "pending"
    option_id: str | None = None
    resolved_time: float | None = None

    @property
    def option_kind(self) -> str | None:
        """The kind of the chosen option: allow_once, allow_always, reject_once, reject_always."""
        return next((option.kind for option in self.options if option.option_id == self.option_id), None)


class FileCall(Decided, frozen=True, kw_only=True):
    """A file that the agent read or wrote through us (`fs/*`), or wanted to."""

    id: str
    request_id: RequestId
    run_id: str | None
    time: float
    operation: Literal["read", "write"]
    path: str  # as it resolved, where the host noted that; else as the agent named it
    line: int | None = None  # of a read: from which line on, counted from 1
    limit: int | None = None  # and how many
    status: Literal["pending", "done", "failed", "denied", "cancelled"] = "pending"
    size: int | None = None  # bytes of the text that was read, or is to be written
    diff: Diff | None = None  # of a write; None where a text is too large to keep, or the old one is not known
    old_size: int | None = None  # bytes of the text that is replaced; None for a new file, or where it is no text
    old_sha256: str | None = None  # of the old text, where it is too large to keep
    error: str | None = None  # what the agent was told, where it failed
    ended_time: float | None = None


class Terminal(Decided, frozen=True, kw_only=True):
    """A command that the agent ran through us (`terminal/*`), or wanted to.

    `status`: running until it ended by itself (exited), by `terminal/kill` (killed) or by `terminal/release`
    (released). One that never ran is denied, cancelled, or failed to start.
    """

    id: str
    request_id: RequestId
    run_id: str | None
    time: float
    command: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env: tuple[str, ...] = ()  # names alone: values may be secrets
    terminal_id: str | None = None  # as the agent and its tool calls know it, once it runs
    status: Literal["pending", "running", "exited", "killed", "released", "denied", "cancelled", "failed"] = "pending"
    exit_code: int | None = None
    signal: str | None = None
    output: str | None = None  # the end of what it wrote, as noted when it ended
    output_bytes: int | None = None  # of all that it wrote
    truncated: bool = False  # it wrote more than `output` has
    error: str | None = None  # what the agent was told, where it did not start
    ended_time: float | None = None

    @property
    def ended(self) -> bool:
        return self.status in ("exited", "killed", "released")


class Question(Decided, frozen=True, kw_only=True):
    """What the agent asked the user (`elicitation/create`): a form to fill in, or an address to visit."""

    id: str
    request_id: RequestId
    run_id: str | None
    time: float
    mode: str  # form or url
    message: str
    tool_call_id: str | None = None  # the agent's, where a tool asks
    schema: ElicitationSchema | None = None  # of a form
    url: str | None = None
    elicitation_id: str | None = None
    action: str = "pending"  # accept, decline or cancel; failed where it was answered by an error
    content: dict[str, ElicitationContentValue] | None = None  # what the user filled in
    answered_time: float | None = None
    completed_time: float | None = None  # when the agent said that what happens at the address is done


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the agent tells of itself: a notice, or that it compacts what it remembers of the conversation."""

    id: str
    run_id: str | None
    time: float
    kind: Literal["notice", "compaction"]
    title: str
    severity: str = "info"  # info, warning, error, or the agent's own word
    text: str | None = None  # more of it; of a compaction its summary, or why it failed
    status: str | None = None  # of a compaction: in_progress, completed, failed, cancelled
    ended_time: float | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    time: float
    position: int = 0  # of the frame that began it: orders it among the session's other rows
    status: RunStatus = "running"
    stop_reason: str | None = None
    error: RpcError | None = None
    reason: str | None = None  # why it was cut, where the agent did not say
    cancel_requested: bool = False
    usage: Usage | None = None
    ended_time: float | None = None


class Choice(msgspec.Struct, frozen=True):
    value: str
    name: str
    description: str | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Something a session can be switched between: a mode, a model, or any option the agent offers.

    `source` tells how it is switched: by config option, or by the older `modes` and `models`.
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
