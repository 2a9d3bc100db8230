"""What an agent said it can do, and the clear error for asking what it cannot."""

from __future__ import annotations

import msgspec

from dragoman.errors import CapabilityMissing
from dragoman.wire import vocabulary as acp


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's word from `initialize`. What it left out, it cannot."""

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

    def require(self, name: str, what: str) -> None:
        """Raises when the capability is missing; `what` is what the caller wanted to do."""
        if not getattr(self, name):
            protocol_name = _PROTOCOL_NAMES[name]
            raise CapabilityMissing(
                f"{self.agent_name or 'the agent'} cannot {what}: it does not offer {protocol_name}",
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
    said = answer.agent_capabilities
    prompt, mcp, session = said.prompt_capabilities, said.mcp_capabilities, said.session_capabilities
    return Capabilities(
        protocol_version=answer.protocol_version,
        agent_name=answer.agent_info.name if answer.agent_info else None,
        agent_version=answer.agent_info.version if answer.agent_info else None,
        load=said.load_session,
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
        logout=said.auth.logout is not None,
        auth_methods=tuple(answer.auth_methods),
        raw=raw,
    )
