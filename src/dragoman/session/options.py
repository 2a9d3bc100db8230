"""Settings of a session, and the keywords of the functions that open one: declared once, shared by all of them.

`open_session`, `run`, `evaluate`, `Hub.open_session` and `Client.open_session` all take `SessionOptions`; those that
start an agent in this process also take `LocalOptions`. `session_config` turns them into a `SessionConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

import msgspec

from dragoman.config import Access, Config
from dragoman.errors import InputError
from dragoman.host.files import Buffers
from dragoman.host.handlers import FileHandler, TerminalHandler
from dragoman.host.permission import OnPermission
from dragoman.host.policy.access import parse_access
from dragoman.host.policy.rules import PolicyRule
from dragoman.host.question.question import OnQuestion
from dragoman.record.events import Event
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.spec import Limits
from dragoman.wire.vocabulary import McpServer, McpServerHttp, McpServerSse, McpServerStdio
from dragoman.workspace import Workspace

OnEvent: TypeAlias = Callable[[Event], None]


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a session that are data, and that a snapshot stores. None means the agent's own default."""

    access: Access = "ask"
    network: bool | None = None
    web_search: bool | None = None
    model: str | None = None
    mode: str | None = None
    reasoning_effort: str | None = None
    options: dict[str, str | bool] = {}  # the agent's own config options, by id
    mcp_servers: tuple[McpServer, ...] = ()
    system_prompt: str | None = None


class SessionConfig(SessionSettings, frozen=True, kw_only=True):
    """The settings of a session in this process: data, rules, and the functions and handlers that serve it."""

    workspace: Workspace
    rules: tuple[PolicyRule, ...] = ()  # the session's own, above the user's and the workspace's
    on_permission: OnPermission | None = None
    on_question: OnQuestion | None = None  # the agent's own questions; the runtime's where there is none
    on_event: OnEvent | None = None  # every event of the session, also between runs
    buffers: Buffers | None = None  # what an editor has open and not saved
    file_handler: FileHandler | None = None  # serves `fs/*` in our place, where the spec offers them
    terminal_handler: TerminalHandler | None = None  # the same for `terminal/*`

    def __post_init__(self) -> None:
        workspace: object = self.workspace
        if isinstance(workspace, str | Path):
            msgspec.structs.force_setattr(self, "workspace", Workspace(workspace))
        msgspec.structs.force_setattr(self, "access", parse_access(self.access))
        for field in ("on_permission", "on_question", "on_event"):
            if (given := getattr(self, field)) is not None and not callable(given):
                raise InputError(f"{field} is {given!r}; expected a function")
        msgspec.structs.force_setattr(self, "rules", rules_of(self.rules))
        msgspec.structs.force_setattr(self, "mcp_servers", tuple(exact_server(server) for server in self.mcp_servers))


def exact_server(server: McpServer) -> McpServer:
    """Return the server as one of its kind: what is required of that kind is then sent, also where it is empty."""
    if not isinstance(server, McpServer):
        raise InputError(f"an MCP server is an McpServerStdio, McpServerHttp or McpServerSse, not {server!r}")
    if type(server) is not McpServer:
        return server
    name, meta = server.name, server.meta
    match server.type, server.command, server.url:
        case "http", _, str(url):
            return McpServerHttp(name=name, url=url, headers=server.headers, meta=meta)
        case "sse", _, str(url):
            return McpServerSse(name=name, url=url, headers=server.headers, meta=meta)
        case None, str(command), _:
            return McpServerStdio(name=name, command=command, args=server.args, env=server.env, meta=meta)
        case kind, _, _:
            raise InputError(
                f"the MCP server {name!r} (type {kind!r}) has neither a command, nor a type and a url",
                guidance="Give a command for stdio; or the type 'http' or 'sse', and a url.",
            )


def rules_of(given: object) -> tuple[PolicyRule, ...]:
    """Check what a caller passes as rules."""
    if isinstance(given, PolicyRule):
        given = (given,)
    if not isinstance(given, list | tuple) or not all(isinstance(rule, PolicyRule) for rule in given):
        raise InputError(f"rules is {given!r}; expected a list of PolicyRule")
    return tuple(given)


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
    model: str | None  # one of the agent's models, by id
    mode: str | None  # one of the agent's modes, by id
    reasoning_effort: str | None  # one of the agent's levels of reasoning
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

    rules: Sequence[PolicyRule]  # rules of this session, above those of the user and of the workspace
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


# Settings whose names and types are the same as keywords and in the configuration.
_AS_GIVEN = tuple(
    name
    for name in SessionConfig.__struct_fields__
    if name in SessionOptions.__optional_keys__ and name not in ("access", "rules", "options", "mcp_servers")
)
