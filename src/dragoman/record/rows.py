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


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    request_id: RequestId
    run_id: str | None
    time: float
    tool_call: ToolCall
    options: tuple[PermissionOption, ...]
    outcome: Literal["pending", "selected", "cancelled", "failed"] = "pending"
    option_id: str | None = None
    decided_by: str | None = None  # "access", "callback", "user", "cancel", …
    reason: str | None = None
    resolved_time: float | None = None

    @property
    def option_kind(self) -> str | None:
        """The kind of the chosen option: allow_once, allow_always, reject_once, reject_always."""
        return next((option.kind for option in self.options if option.option_id == self.option_id), None)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    time: float
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
