"""An agent, a session and the limits of both, as a caller describes them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from dragoman.config import Access
from dragoman.errors import InputError
from dragoman.host.files.files import Buffers
from dragoman.host.handlers import FileHandler, TerminalHandler
from dragoman.host.permission import OnPermission
from dragoman.host.policy.access import parse_access
from dragoman.host.policy.rules import PolicyRule
from dragoman.host.question.question import OnQuestion
from dragoman.proc.link import AgentLink
from dragoman.record.events import Event
from dragoman.wire.network import check_headers, parse_address
from dragoman.wire.vocabulary import McpServer, McpServerHttp, McpServerSse, McpServerStdio
from dragoman.workspace import Workspace

if TYPE_CHECKING:
    from dragoman.agents.preset import Preset

# What names an agent that runs elsewhere.
REMOTE_SCHEMES = ("ws", "wss", "http", "https")

OnEvent: TypeAlias = Callable[[Event], None]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. The same as the settings of these names in `config.py`, which says why each has its value."""

    start_timeout: float = 60.0
    request_timeout: float = 120.0
    cancel_timeout: float = 10.0
    close_timeout: float = 1.0
    permission_timeout: float | None = None  # for an answer to a permission request or a question; then it is refused


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A program that speaks ACP on its stdin and stdout, or a server that does, and what we offer it."""

    command: Sequence[str] = ()
    url: str | None = None  # in place of a command: an agent that listens at ws(s):// or http(s)://
    headers: dict[str, str] = {}  # for that server, such as a token
    env: dict[str, str | None] = {}  # added to the environment; None removes
    name: str = ""
    preset: str | None = None  # the preset's id, kept in snapshots so that another process finds it
    given: tuple[str, ...] = ()  # variables beyond the preset's: a snapshot names them, to be passed again
    cwd: Path | None = None  # where it is started; the session's folder by default
    install: str | None = None
    alternatives: tuple[tuple[str, ...], ...] = ()  # tried in order when the command is not found
    read_files: bool = True
    write_files: bool = True
    terminals: bool = True
    auth_method: str | None = None  # authenticated with before the first session
    shared: bool = False  # one process for all its sessions in a folder, where they are those of one hub
    late_replay: bool = False  # it goes on replaying after it has answered `session/load`
    meta: dict[str, Any] = {}  # `_meta` of our capabilities: extensions that an adapter asks for

    def __post_init__(self) -> None:
        if self.url is not None:
            self._check_url(self.url)
            return
        if isinstance(self.command, str) or not self.command or not all(isinstance(p, str) for p in self.command):
            raise InputError(
                f"AgentSpec.command must be a list of strings, the program first; got {self.command!r}",
                guidance='For example: AgentSpec(command=["my-agent", "--acp"])',
            )
        for variable, value in self.env.items():
            if not isinstance(value, str | None):
                # Without the value, which may be a key.
                raise InputError(f"env: {variable} is of the type {type(value).__name__}; expected a text, or None")
        msgspec.structs.force_setattr(self, "command", tuple(self.command))
        if not self.name:
            msgspec.structs.force_setattr(self, "name", Path(self.command[0]).name)

    def _check_url(self, url: str) -> None:
        if self.command:
            raise InputError("AgentSpec takes a command or a url, not both")
        address = parse_address(url, REMOTE_SCHEMES)
        check_headers(self.headers)
        if not self.name:
            msgspec.structs.force_setattr(self, "name", address.shown)


Launch: TypeAlias = Callable[[AgentSpec, Limits, Callable[[str], None]], Awaitable[AgentLink]]
"""`(spec, limits, on_stderr)` starts an agent, or connects to it."""


class SessionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One session. What is left out is the agent's own default; `access` alone defaults to asking."""

    workspace: Workspace
    access: Access = "ask"
    network: bool | None = None
    web_search: bool | None = None
    model: str | None = None
    mode: str | None = None
    reasoning_effort: str | None = None
    options: dict[str, str | bool] = {}  # the agent's own config options, by id
    mcp_servers: tuple[McpServer, ...] = ()
    system_prompt: str | None = None
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
        raise InputError(f"rules is {given!r}; expected a list of Rule")
    return tuple(given)


def spec_of_preset(preset: Preset, *, env: Mapping[str, str | None] | None = None) -> AgentSpec:
    """Return the spec that a preset describes; `env` is added to its own."""
    command, *alternatives = preset.command_lines
    own = {name: value for name, value in os.environ.items() if preset.owns(name)}
    variables: dict[str, str | None] = {**own, **preset.env, **(env or {})}
    known = {name: value for name, value in {**os.environ, **variables}.items() if value is not None}
    return AgentSpec(
        command=command,
        alternatives=tuple(alternatives),
        env=variables,
        name=preset.name or preset.id,
        preset=preset.id,
        given=tuple(name for name, value in (env or {}).items() if value is not None),
        install=preset.install or None,
        read_files=preset.fs.read,
        write_files=preset.fs.write,
        terminals=preset.terminal,
        auth_method=preset.auth_method(known),
        shared=preset.shared,
        late_replay=any(quirk.id == "replay-after-load" for quirk in preset.quirks),
    )
