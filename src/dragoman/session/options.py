"""Keywords of the functions that open sessions, declared once and shared by all of them.

`open_session`, `run`, `evaluate`, `Hub.open_session` and `Client.open_session` all take `SessionOptions`; those that
start an agent in this process also take `LocalOptions`. `session_config` turns them into a `SessionConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from msgspec.structs import replace

from dragoman.config import Config
from dragoman.host.permission import OnPermission
from dragoman.host.policy.access import parse_access
from dragoman.host.policy.rules import PolicyRule
from dragoman.host.question.question import OnQuestion
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.handle import SessionHandle, config_of_handle
from dragoman.session.spec import Limits, OnEvent, SessionConfig, rules_of
from dragoman.wire.vocabulary import McpServer
from dragoman.workspace import Workspace


class SessionCallbackOptions(TypedDict, total=False):
    """Functions that a session calls."""

    on_permission: OnPermission | None  # answers a permission request that no rule answers
    on_question: OnQuestion | None  # answers a question of the agent
    on_event: OnEvent | None  # receives every event of the session, also between runs


class SessionOptions(SessionCallbackOptions, total=False):
    """Keywords of a session. A setting that is left out, or None, is the agent's own default."""

    cwd: str | Path  # the folder of the workspace; the current one by default
    additional: Sequence[str | Path]  # further folders of the workspace
    access: str | None  # what needs no question: "read-only", "ask", "edit-inside" or "full"; by default as configured
    rules: Sequence[PolicyRule]  # rules of this session, above those of the user and of the workspace
    network: bool | None  # whether commands may use the network
    web_search: bool | None  # whether the agent may search the web
    model: str | None
    mode: str | None
    reasoning_effort: str | None
    options: Mapping[str, str | bool] | None  # the agent's own config options, by id
    mcp_servers: Sequence[McpServer]  # MCP servers that the agent connects to
    system_prompt: str | None  # instructions that are added to the agent's system prompt


class ProcessOptions(TypedDict, total=False):
    """Keywords of an agent that this process starts."""

    env: Mapping[str, str | None] | None  # variables for the agent; None removes one
    headers: Mapping[str, str] | None  # HTTP headers for an agent at an address
    limits: Limits | None  # timeouts in seconds; by default as configured
    journal: bool | None  # whether the session is stored in the journal; by default as configured (on)
    on_diagnostic: Callable[[Diagnostic], None] | None  # receives notes about the agent's process and protocol


class LocalOptions(SessionOptions, ProcessOptions, total=False):
    """Keywords of `open_session` and `run`."""

    session_id: str | None  # our id of the session; a new one by default


class ResumeOptions(SessionCallbackOptions, ProcessOptions, total=False):
    """Keywords of `resume_session`."""

    rules: Sequence[PolicyRule]
    mcp_servers: Sequence[McpServer] | None  # servers that the snapshot left out because they may hold secrets
    how: Literal["resume", "load", "new"]  # as the agent can; by loading its history; with an agent that has none


class RunLimitOptions(TypedDict, total=False):
    """Keywords that limit a run."""

    deadline: float | None  # seconds from the moment the prompt is sent
    idle_limit: float | None  # seconds without a sign of life of the agent
    heartbeat: Callable[[], None] | None  # called on every update


class LocalRunOptions(LocalOptions, RunLimitOptions, total=False):
    """Keywords of `run`."""


class RunOptions(RunLimitOptions, total=False):
    """Keywords of `Session.run`."""

    rules: Sequence[PolicyRule]  # rules of this run, above all others
    when_busy: Literal["queue", "raise"]  # while another run is active


def check_keywords(function: str, keywords: Mapping[str, object], *allowed: Any) -> None:
    """Raise the `TypeError` of a misspelled keyword, as Python does for functions that list theirs."""
    names = {name for options in allowed for name in options.__optional_keys__}
    for name in keywords:
        if name not in names:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def session_config(options: SessionOptions, settings: Config) -> SessionConfig:
    """Return the configuration that keywords describe; `settings` has the configured defaults."""
    return SessionConfig(
        workspace=Workspace(options.get("cwd", "."), options.get("additional", ())),
        access=parse_access(options.get("access") or settings.access),
        rules=rules_of(list(options.get("rules", ()))),
        options=dict(options.get("options") or {}),
        mcp_servers=tuple(options.get("mcp_servers") or ()),
        **{name: options.get(name) for name in _AS_GIVEN},  # type: ignore[arg-type]  # the names of SessionConfig's fields
    )


_AS_GIVEN = (
    "on_permission",
    "on_question",
    "on_event",
    "network",
    "web_search",
    "model",
    "mode",
    "reasoning_effort",
    "system_prompt",
)


def resumed_config(handle: SessionHandle, options: ResumeOptions) -> SessionConfig:
    """Return the configuration of a resumed session: that of its snapshot, with new callbacks and rules."""
    return replace(
        config_of_handle(handle),
        rules=rules_of(list(options.get("rules", ()))),
        on_permission=options.get("on_permission"),
        on_question=options.get("on_question"),
        on_event=options.get("on_event"),
    )
