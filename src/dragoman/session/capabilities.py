"""The capabilities that an agent reports, its login methods, and the requests that depend on them.

Asking an agent for what it does not offer is a clear error, before anything is sent.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.errors import CapabilityMissing, InputError
from dragoman.protocol.models import IsolationReport, SandboxReport
from dragoman.session.options import SessionConfig
from dragoman.session.spec import AgentSpec
from dragoman.wire import vocabulary as acp

TERMINAL_AUTH: Final = "terminal-auth"
"""The key in `_meta` under which agents describe terminal methods; older than the protocol's own field."""

Kind: TypeAlias = Literal["agent", "terminal", "variables", "unknown"]


class Variable(msgspec.Struct, frozen=True):
    name: str
    label: str = ""
    optional: bool = False


class LoginMethod(msgspec.Struct, frozen=True, kw_only=True):
    """One way to log in, as the agent offers it.

    `args` follow the agent's own command line, unless `program` takes its place; `env` is set for it.
    """

    id: str
    name: str
    kind: Kind
    description: str = ""
    program: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    variables: tuple[Variable, ...] = ()
    link: str | None = None


class _WireVariable(msgspec.Struct, frozen=True):
    name: str
    label: str | None = None
    optional: bool | None = None


class _WireMethod(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a method that the vocabulary leaves out: `env_var` is in drafts of the protocol only."""

    id: str
    vars: tuple[_WireVariable, ...] = ()
    var_name: str | None = None
    link: str | None = None


class _WireProgram(msgspec.Struct, frozen=True):
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


class _WireAnswer(msgspec.Struct, frozen=True, rename="camel"):
    auth_methods: tuple[msgspec.Raw, ...] = ()


def methods_of(capabilities: Capabilities) -> tuple[LoginMethod, ...]:
    """Return the agent's ways to log in, in its own order."""
    more = _undeclared(capabilities.raw)
    return tuple(_method(method, more.get(method.id)) for method in capabilities.auth_methods)


def _method(offered: acp.AuthMethod, more: _WireMethod | None) -> LoginMethod:
    method = LoginMethod(
        id=offered.id, name=offered.name or offered.id, kind="agent", description=offered.description or ""
    )
    change = msgspec.structs.replace
    match offered.type:
        case "terminal":
            return change(method, kind="terminal", args=offered.args, env=offered.env)
        case "env_var":
            variables = tuple(Variable(v.name, v.label or "", bool(v.optional)) for v in more.vars) if more else ()
            if more and more.var_name and not variables:
                variables = (Variable(more.var_name),)
            return change(method, kind="variables", variables=variables, link=more.link if more else None)
        case None | "agent" if program := _program(offered.meta):
            return change(method, kind="terminal", program=program.command, args=program.args, env=program.env)
        case None | "agent":
            return method
        case _:
            return change(method, kind="unknown")


def _program(meta: Mapping[str, Any] | None) -> _WireProgram | None:
    try:
        return msgspec.convert((meta or {}).get(TERMINAL_AUTH), _WireProgram)
    except msgspec.ValidationError:
        return None


def _undeclared(raw: msgspec.Raw) -> dict[str, _WireMethod]:
    methods = {}
    try:
        for item in msgspec.json.decode(raw, type=_WireAnswer).auth_methods:
            try:
                method = msgspec.json.decode(item, type=_WireMethod)
                methods[method.id] = method
            except msgspec.MsgspecError:
                continue
    except msgspec.MsgspecError:
        pass
    return methods


def choose(name: str, methods: tuple[LoginMethod, ...], method_id: str | None) -> LoginMethod:
    """Return the method of that id; without one, the only one. `InputError` lists them."""
    ids = ", ".join(method.id for method in methods)
    if not methods:
        raise InputError(f"{name} offers no way to log in", guidance="Look into its own documentation.")
    if method_id is None:
        if len(methods) == 1:
            return methods[0]
        raise InputError(f"{name} offers {len(methods)} ways to log in: {ids}", guidance="Choose one of them by id.")
    for method in methods:
        if method.id == method_id:
            return method
    raise InputError(f"{name} has no way to log in with the id {method_id!r}", guidance=f"It offers: {ids}")


def missing_variables(method: LoginMethod, env: Mapping[str, str]) -> list[str]:
    return [variable.name for variable in method.variables if not variable.optional and not env.get(variable.name)]


def login_line(spec: AgentSpec) -> str:
    """Return the command that logs in to this agent."""
    if spec.preset is not None:
        return f"dragoman login {shlex.quote(spec.preset)}"
    if spec.url is not None:
        return f"dragoman login {shlex.quote(spec.url.partition('?')[0])}"  # a query may hold a token
    return f"dragoman login --agent-command {shlex.quote(shlex.join(spec.command))}"


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's answer to `initialize`. Capabilities that it left out are not supported."""

    protocol_version: int
    agent_name: str | None = None
    agent_version: str | None = None
    load: bool = False
    resume: bool = False
    list: bool = False
    fork: bool = False
    close: bool = False
    delete: bool = False
    additional_directories: bool = False
    system_prompt: bool = False
    image: bool = False
    audio: bool = False
    embedded_context: bool = False
    mcp_http: bool = False
    mcp_sse: bool = False
    logout: bool = False
    auth_methods: tuple[acp.AuthMethod, ...] = ()
    sandbox: SandboxReport | None = None  # not the agent's: what confines it here, and what is left open
    isolation: IsolationReport | None = None  # not the agent's: what it has of its own here, and of the user's
    raw: msgspec.Raw = msgspec.Raw(b"null")  # the whole answer, `_meta` and unknown fields with it

    def require(self, name: str, action: str) -> None:
        """Raise `CapabilityMissing` when the capability is missing; `action` is what the caller wanted to do."""
        if not getattr(self, name):
            protocol_name = _PROTOCOL_NAMES[name]
            raise CapabilityMissing(
                f"{self.agent_name or 'the agent'} cannot {action}: it does not offer {protocol_name}",
                capability=protocol_name,
            )


_PROTOCOL_NAMES = {
    "load": "loadSession",
    "resume": "sessionCapabilities.resume",
    "list": "sessionCapabilities.list",
    "fork": "sessionCapabilities.fork",
    "close": "sessionCapabilities.close",
    "delete": "sessionCapabilities.delete",
    "additional_directories": "sessionCapabilities.additionalDirectories",
    "system_prompt": "sessionCapabilities.systemPrompt",
    "image": "promptCapabilities.image",
    "audio": "promptCapabilities.audio",
    "embedded_context": "promptCapabilities.embeddedContext",
    "mcp_http": "mcpCapabilities.http",
    "mcp_sse": "mcpCapabilities.sse",
    "logout": "auth.logout",
}


def capabilities_of(answer: acp.InitializeResponse, raw: msgspec.Raw) -> Capabilities:
    agent = answer.agent_capabilities
    prompt, mcp, session = agent.prompt_capabilities, agent.mcp_capabilities, agent.session_capabilities
    return Capabilities(
        protocol_version=answer.protocol_version,
        agent_name=answer.agent_info.name if answer.agent_info else None,
        agent_version=answer.agent_info.version if answer.agent_info else None,
        load=agent.load_session,
        resume=session.resume is not None,
        list=session.list is not None,
        fork=session.fork is not None,
        close=session.close is not None,
        delete=session.delete is not None,
        additional_directories=session.additional_directories is not None,
        system_prompt=session.system_prompt is not None,
        image=prompt.image,
        audio=prompt.audio,
        embedded_context=prompt.embedded_context,
        mcp_http=mcp.http,
        mcp_sse=mcp.sse,
        logout=agent.auth.logout is not None,
        auth_methods=tuple(answer.auth_methods),
        raw=raw,
    )


KnownSessionRequest: TypeAlias = acp.ForkSessionRequest | acp.LoadSessionRequest | acp.ResumeSessionRequest
OpeningMethod: TypeAlias = Literal["session/fork", "session/load", "session/resume"]

_KNOWN_SESSION_REQUESTS: Final[Mapping[OpeningMethod, type[KnownSessionRequest]]] = {
    "session/fork": acp.ForkSessionRequest,
    "session/load": acp.LoadSessionRequest,
    "session/resume": acp.ResumeSessionRequest,
}


def request_new(config: SessionConfig, capabilities: Capabilities) -> acp.NewSessionRequest:
    """Build `session/new`. `CapabilityMissing` where the agent does not offer what the config needs."""
    _check_servers(config, capabilities)
    return acp.NewSessionRequest(
        cwd=str(config.workspace.cwd),
        mcp_servers=config.mcp_servers,
        additional_directories=_additional(config, capabilities),
        system_prompt=_system_prompt(config, capabilities),
    )


def request_known(
    method: OpeningMethod, agent_session_id: str, config: SessionConfig, capabilities: Capabilities
) -> KnownSessionRequest:
    """Build the request that opens a session which the agent knows, by the agent's own id."""
    _check_servers(config, capabilities)
    return _KNOWN_SESSION_REQUESTS[method](
        session_id=agent_session_id,
        cwd=str(config.workspace.cwd),
        mcp_servers=config.mcp_servers,
        additional_directories=_additional(config, capabilities),
        system_prompt=_system_prompt(config, capabilities),
    )


def _additional(config: SessionConfig, capabilities: Capabilities) -> tuple[str, ...]:
    folders = config.workspace.additional
    if folders:
        capabilities.require("additional_directories", "work in additional folders")
    return tuple(str(folder) for folder in folders)


def _system_prompt(config: SessionConfig, capabilities: Capabilities) -> acp.SystemPrompt | None:
    if config.system_prompt is None or not capabilities.system_prompt:
        return None
    return acp.SystemPrompt(mode="append", content=(acp.TextContent(text=config.system_prompt),))


def _check_servers(config: SessionConfig, capabilities: Capabilities) -> None:
    for server in config.mcp_servers:
        if server.type in ("http", "sse"):
            capabilities.require(f"mcp_{server.type}", f"use the MCP server {server.name!r}")
