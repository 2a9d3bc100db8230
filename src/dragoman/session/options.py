"""`SessionConfig`, the settings of a session in this process, and the keywords of the functions that open one.

`open_session`, `run`, `evaluate`, `Hub.open_session` and `Client.open_session` all take `SessionOptions`; those that
start an agent in this process also take `LocalOptions`. `session_config` turns them into a `SessionConfig`.

The settings that are plain data are declared in `protocol.requests`, because a server's clients send them too.
`settings_in` copies and checks them wherever they are passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict

import msgspec

from dragoman.config import SANDBOX, Access, Config, SandboxChoice, read_sandbox
from dragoman.errors import InputError
from dragoman.host.files import Buffers
from dragoman.host.handlers import FileHandler, TerminalHandler
from dragoman.host.permission import OnPermission
from dragoman.host.policy.access import parse_access
from dragoman.host.policy.rules import PolicyRule
from dragoman.host.question.question import OnQuestion
from dragoman.protocol.messages import Scope
from dragoman.protocol.requests import Isolation, SessionSettings, SettingOptions
from dragoman.protocol.worktrees import SessionWorktree, WorktreeChoice
from dragoman.record.events import Event
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.spec import Limits, check_type, field_types
from dragoman.wire.vocabulary import McpServer, McpServerHttp, McpServerSse, McpServerStdio
from dragoman.workspace import Workspace

OnEvent: TypeAlias = Callable[[Event], None]


# Settings that the agent itself stores and lets a user switch, and the categories of its config options for them.
AGENT_CATEGORIES: Final = {"mode": "mode", "model": "model", "reasoning_effort": "thought_level"}

# Their choices, as messages call them. A category that is not here is called by its own name.
CATEGORY_NAMES: Final = {"mode": "modes", "model": "models", "thought_level": "levels of reasoning effort"}

# All settings that a resumed agent has kept: they are set again only where it lost them.
AGENT_SETTINGS: Final = (*AGENT_CATEGORIES, "options")


_SETTING_TYPES: Final = field_types(SessionSettings)


class StoredSettings(SessionSettings, frozen=True, kw_only=True):
    """The settings of a session that a handle stores."""

    access: Access = "ask"
    mcp_servers: tuple[McpServer, ...] = ()


def settings_in(source: msgspec.Struct | Mapping[str, object], *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the settings that `source` has (keywords, a request, a snapshot or a configuration), by name, checked.

    Those that are None are left out, so that the result can be passed on as keywords.
    """
    values = source if isinstance(source, Mapping) else msgspec.structs.asdict(source)
    return {
        name: _check_setting(name, values[name])
        for name in StoredSettings.__struct_fields__
        if name not in without and values.get(name) is not None
    }


def _check_setting(name: str, value: Any) -> object:
    match name:
        case "access":
            return parse_access(value)
        case "sandbox":
            return parse_sandbox(value)
        case "isolation":
            return parse_isolation(value)
        case "mcp_servers":
            if not isinstance(value, list | tuple):
                raise InputError("mcp_servers must be a list of McpServerStdio, McpServerHttp or McpServerSse")
            return tuple(exact_server(server) for server in value)
        case "skills":
            return None if value is None else check_skills(value)
        case _:
            return check_type(_SETTING_TYPES, name, value)


def parse_sandbox(value: object) -> SandboxChoice | None:
    """Return the sandbox that a caller chose; None where it is as configured."""
    try:
        return None if value is None else read_sandbox(value)
    except ValueError:
        raise InputError(
            f"sandbox is {value!r}; expected True, False, or one of: {', '.join(SANDBOX)}",
        ) from None


def parse_isolation(value: object) -> Isolation | Literal[False] | None:
    """Return the isolation that a caller chose; False for none, None where it is as configured."""
    if value is None or value is False:
        return value
    if value is True:
        return Isolation()
    if not isinstance(value, Isolation):
        raise InputError(f"isolation is {value!r}; expected True, False or an Isolation")
    return check_type({"isolation": Isolation}, "isolation", msgspec.to_builtins(value))  # type: ignore[no-any-return]


def read_agent_value(name: str, value: str | bool | None) -> Any:
    """Return the value of an agent's config option as the type of our setting; None if it has another type.

    ACP has only texts and booleans: an agent writes the number 0.2 as "0.2", or as "0.20".
    """
    try:
        return msgspec.convert(value, _SETTING_TYPES[name], strict=False)
    except msgspec.ValidationError:
        return None


class SessionConfig(StoredSettings, frozen=True, kw_only=True):
    """The settings of a session in this process: data, rules, and the functions and handlers that serve it."""

    workspace: Workspace
    rules: tuple[PolicyRule, ...] = ()  # the session's own, above the user's and the workspace's
    on_permission: OnPermission | None = None
    on_question: OnQuestion | None = None  # the agent's own questions; the runtime's where there is none
    on_event: OnEvent | None = None  # every event of the session, also between runs
    buffers: Buffers | None = None  # what an editor has open and not saved
    file_handler: FileHandler | None = None  # serves `fs/*` in our place, where the spec offers them
    terminal_handler: TerminalHandler | None = None  # the same for `terminal/*`
    worktree: WorktreeChoice | SessionWorktree | None = None  # the one to work in; once it is open, the one it is in
    opened_by: Scope = "admin"  # the scope of the client that opened it; a program on this machine has all of them

    def __post_init__(self) -> None:
        workspace: object = self.workspace
        if not isinstance(workspace, Workspace):
            msgspec.structs.force_setattr(self, "workspace", Workspace(self.workspace))  # type: ignore[arg-type]
        for name in StoredSettings.__struct_fields__:
            msgspec.structs.force_setattr(self, name, _check_setting(name, getattr(self, name)))
        for name in SessionCallbackOptions.__optional_keys__:
            if (callback := getattr(self, name)) is not None and not callable(callback):
                raise InputError(f"{name} is {callback!r}; expected a function")
        msgspec.structs.force_setattr(self, "rules", check_rules(self.rules))


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


def check_rules(rules: object) -> tuple[PolicyRule, ...]:
    """Return the rules that a caller passed, a single one included."""
    if isinstance(rules, PolicyRule):
        rules = (rules,)
    if not isinstance(rules, list | tuple) or not all(isinstance(rule, PolicyRule) for rule in rules):
        raise InputError(f"rules is {rules!r}; expected a list of PolicyRule")
    return tuple(rules)


class SessionCallbackOptions(TypedDict, total=False):
    """Functions that a session calls."""

    on_permission: OnPermission | None  # answers a permission request that no rule answers
    on_question: OnQuestion | None  # answers a question of the agent
    on_event: OnEvent | None  # receives every event of the session, also between runs


class SessionOptions(SettingOptions, SessionCallbackOptions, total=False):
    """Keywords of a session. A setting that is left out, or None, is the agent's own default."""

    cwd: str | Path  # the folder of the workspace; the current one by default
    additional: Sequence[str | Path]  # further folders of the workspace
    access: str | None  # what needs no question: "read-only", "ask", "edit-inside" or "full"; by default as configured
    worktree: bool | str | WorktreeChoice | None  # work in a git worktree: a new one, or one by its name
    rules: Sequence[PolicyRule]  # rules of this session, above those of the user and of the workspace
    mcp_servers: Sequence[McpServer]  # MCP servers that the agent connects to


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
    mcp_servers: Sequence[McpServer] | None  # servers that the handle does not contain because they may have secrets
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
    skills: Sequence[str] | None  # names of skills whose whole text goes with this prompt
    when_busy: Literal["queue", "raise"]  # while another run is active


def check_skills(skills: object) -> tuple[str, ...]:
    """Return the names of skills that a caller passed."""
    if skills is None:
        return ()
    if not isinstance(skills, list | tuple) or not all(isinstance(name, str) for name in skills):
        raise InputError(f"skills is {skills!r}; expected a list of names")
    return tuple(skills)


def check_run_options(options: RunOptions) -> None:
    """Raise `InputError` for a limit of a run that is no number of seconds, or an unknown `when_busy`."""
    for name, seconds in (("deadline", options.get("deadline")), ("idle_limit", options.get("idle_limit"))):
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            raise InputError(f"{name} must be a number of seconds, more than 0, not {seconds!r}")
    if (when_busy := options.get("when_busy", "queue")) not in ("queue", "raise"):
        raise InputError(f"when_busy is 'queue' or 'raise', not {when_busy!r}")


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
        rules=check_rules(options.get("rules", ())),
        worktree=read_worktree(options.get("worktree")),
        **callbacks_in(options),
        **{"access": settings.access, **settings_in(options)},
    )


def read_worktree(value: object) -> WorktreeChoice | None:
    """Return the worktree that a caller chose; None for none."""
    match value:
        case None | False:
            return None
        case True:
            return WorktreeChoice()
        case str():
            return WorktreeChoice(name=value)
        case WorktreeChoice():
            return value
        case _:
            raise InputError(f"worktree is {value!r}; expected True, a name, or a WorktreeChoice")


def callbacks_in(options: SessionCallbackOptions) -> SessionCallbackOptions:
    """Return the functions among the keywords of a session."""
    return {
        "on_permission": options.get("on_permission"),
        "on_question": options.get("on_question"),
        "on_event": options.get("on_event"),
    }
