"""An agent and its limits, as a caller describes them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec.structs import replace

from dragoman.errors import InputError
from dragoman.proc.link import AgentLink
from dragoman.wire.network import check_headers, parse_address
from dragoman.workspace.isolation import IsolationNeeds, IsolationPlan
from dragoman.workspace.sandbox_policy import CommandWrapper, SandboxNeeds, SandboxPolicy

if TYPE_CHECKING:
    from dragoman.agents.preset import Preset

# What names an agent that runs elsewhere.
REMOTE_SCHEMES = ("ws", "wss", "http", "https")


def field_types(owner: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the types of a struct's fields by name, for `check_type`.

    This takes about a millisecond: modules call it when they are loaded, so that no session waits for it.
    """
    return {field.name: field.type for field in msgspec.structs.fields(owner)}


def check_type(types: Mapping[str, Any], name: str, value: object) -> Any:
    """Return the value for a field of a struct; `InputError` where its type is wrong.

    msgspec checks types where it decodes JSON, but not where a program makes a struct.
    """
    field_type = types[name]
    try:
        return msgspec.convert(value, field_type)
    except msgspec.ValidationError:
        raise InputError(f"{name} is {value!r}; expected {_describe_type(field_type)}") from None


def _describe_type(field_type: Any) -> str:
    """Return a type as one writes it: `bool | 'hosts' | None`."""
    if get_origin(field_type) is Literal:
        return " | ".join(map(repr, get_args(field_type)))
    if get_origin(field_type) in (Union, UnionType):
        return " | ".join("None" if each is NoneType else _describe_type(each) for each in get_args(field_type))
    return field_type.__name__ if isinstance(field_type, type) else str(field_type)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts in seconds; the settings of the same names in `config.py` explain the defaults."""

    start_timeout: float = 60.0
    request_timeout: float = 120.0
    cancel_timeout: float = 10.0
    close_timeout: float = 1.0
    permission_timeout: float | None = None  # for an answer to a permission request or a question; then it is refused

    def __post_init__(self) -> None:
        for name in Limits.__struct_fields__:
            check_type(_LIMIT_TYPES, name, getattr(self, name))


_LIMIT_TYPES: Final = field_types(Limits)


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
    files_through_us: bool = False  # its own tools write files only through us, where that is offered
    lists_tools: bool = False  # it asks MCP servers for their tools when a session is opened
    drops_stdio_mcp: bool = False  # MCP servers over stdio do not reach its model
    embeds_by_path: bool = False  # shows its model the path of an embedded resource, and not the text
    tool_names: dict[str, tuple[str, ...]] = {}  # forms in which it names the tool of an MCP server, by field
    tool_kinds: dict[str, str] = {}  # kinds of its own tools, by name, where it asks without a kind
    sandbox_needs: SandboxNeeds = SandboxNeeds()  # its state and its model's hosts, where it runs in a sandbox
    sandbox: SandboxPolicy | None = None  # it is started in such a sandbox, or not at all
    wrapper: CommandWrapper | None = None  # the running sandbox, for `launch`
    isolation_needs: IsolationNeeds = IsolationNeeds()  # its login, for when it runs isolated
    isolation: IsolationPlan | None = None  # it runs isolated, in this way
    environment: dict[str, str] | None = None  # its whole environment, in place of ours with `env`; set by the runtime
    meta: dict[str, Any] = {}  # `_meta` of our capabilities: extensions that an adapter asks for

    def __post_init__(self) -> None:
        # Without those that may hold a key: an error would show it.
        for field in ("url", "name", "preset", "install", "read_files", "write_files", "terminals", "auth_method"):
            check_type(_SPEC_TYPES, field, getattr(self, field))
        if self.url is not None:
            self._check_url(self.url)
            return
        if isinstance(self.command, str) or not self.command or not all(isinstance(p, str) for p in self.command):
            raise InputError(
                f"AgentSpec.command must be a list of strings, the program first; got {self.command!r}",
                guidance='For example: AgentSpec(command=["my-agent", "--acp"])',
            )
        if not isinstance(self.env, Mapping):
            raise InputError(f"env is of the type {type(self.env).__name__}; expected a dict of variables")
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


_SPEC_TYPES: Final = field_types(AgentSpec)

Launch: TypeAlias = Callable[[AgentSpec, Limits, Callable[[str], None]], Awaitable[AgentLink]]
"""`(spec, limits, on_stderr)` starts an agent, or connects to it."""


def spec_of_preset(preset: Preset, *, env: Mapping[str, str | None] | None = None) -> AgentSpec:
    """Return the spec that a preset describes; `env` is added to its own."""
    command, *alternatives = preset.command_lines
    needs = preset.isolation
    own = {name: value for name, value in os.environ.items() if preset.owns(name)}
    variables: dict[str, str | None] = {**own, **preset.env, **(env or {})}
    environment = {name: value for name, value in {**os.environ, **variables}.items() if value is not None}
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
        auth_method=preset.auth_method(environment),
        shared=preset.shared,
        late_replay=any(quirk.id == "replay-after-load" for quirk in preset.quirks),
        files_through_us=preset.files_through_us,
        lists_tools=preset.lists_tools,
        drops_stdio_mcp=any(quirk.id == "mcp-stdio-dropped" for quirk in preset.quirks),
        embeds_by_path=any(quirk.id == "embedded-file-by-path" for quirk in preset.quirks),
        tool_names=preset.tool_names,
        tool_kinds=dict(preset.tool_kinds),
        sandbox_needs=preset.sandbox,
        isolation_needs=replace(needs, environment=(*needs.environment, *preset.env)),
    )
