"""Capabilities: what an agent said it can do, and the requests that depend on it.

Asking an agent for what it does not offer is a clear error, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.errors import CapabilityMissing
from dragoman.session.options import SessionConfig
from dragoman.wire import vocabulary as acp


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's answer to `initialize`. What it left out, it cannot do."""

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
