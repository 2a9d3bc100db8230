"""Opening a session: what is asked of the agent for it, and what is set before it is handed out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from dragoman.errors import InputError, RequestFailed
from dragoman.host.policy.access import parse_access
from dragoman.session.capabilities import Capabilities
from dragoman.session.handle import SessionHandle
from dragoman.session.spec import SessionConfig
from dragoman.wire import vocabulary as acp
from dragoman.workspace import Workspace

if TYPE_CHECKING:
    from dragoman.session.session import Session

# Gemini CLI's late replay begins within a millisecond of its answer and comes in one go; a history of any
# length is through the pipe long before the looks are used up.
QUIET_SECONDS: Final = 0.1
QUIET_LOOKS: Final = 50

OfKnown: TypeAlias = acp.ForkSessionRequest | acp.LoadSessionRequest | acp.ResumeSessionRequest
OpeningKnown: TypeAlias = Literal["session/fork", "session/load", "session/resume"]

_OF_KNOWN: Final[Mapping[OpeningKnown, type[OfKnown]]] = {
    "session/fork": acp.ForkSessionRequest,
    "session/load": acp.LoadSessionRequest,
    "session/resume": acp.ResumeSessionRequest,
}


def request_new(config: SessionConfig, offered: Capabilities) -> acp.NewSessionRequest:
    """`session/new`. `CapabilityMissing` where the agent cannot have it so."""
    _check_servers(config, offered)
    return acp.NewSessionRequest(
        cwd=str(config.workspace.cwd),
        mcp_servers=config.mcp_servers,
        additional_directories=_additional(config, offered),
        system_prompt=_system_prompt(config, offered),
    )


def request_known(method: OpeningKnown, agent_session_id: str, config: SessionConfig, offered: Capabilities) -> OfKnown:
    """The same for one that begins with a session which the agent knows, by its own id."""
    _check_servers(config, offered)
    return _OF_KNOWN[method](
        session_id=agent_session_id,
        cwd=str(config.workspace.cwd),
        mcp_servers=config.mcp_servers,
        additional_directories=_additional(config, offered),
        system_prompt=_system_prompt(config, offered),
    )


def config_of_handle(handle: SessionHandle) -> SessionConfig:
    """As it was opened before, as far as a handle keeps it."""
    if secret := handle.secret_servers():
        raise InputError(
            f"this session was opened with MCP servers that a snapshot does not keep: {', '.join(secret)}",
            guidance="Pass them again, in the config.",
        )
    return SessionConfig(
        workspace=Workspace(handle.cwd, handle.additional),
        access=parse_access(handle.access),
        network=handle.network,
        web_search=handle.web_search,
        mcp_servers=handle.mcp_servers,
        system_prompt=handle.system_prompt,
    )


async def configure(session: Session) -> Session:
    """Sets what its config asks for; a session that cannot have it is closed, and not handed out."""
    config = session.config
    try:
        if config.mode is not None:
            await session.set_mode(config.mode)
        if config.model is not None:
            await session.set_model(config.model)
        if config.reasoning_effort is not None:
            await session.set_reasoning_effort(config.reasoning_effort)
        for option_id, value in config.options.items():
            await session.set_option(option_id, value)
    except BaseException:
        await session.close()
        raise
    return session


async def restore(session: Session, handle: SessionHandle) -> list[str]:
    """Sets what the agent itself did not remember. Returns what it no longer offers, which cannot be had."""
    problems = []
    for option_id, value in handle.options.items():
        now = session.fold.settings.get(option_id)
        if now is not None and now.current != value:
            try:
                await session.set_option(option_id, value)
            except (InputError, RequestFailed) as problem:
                problems.append(f"{option_id} cannot be set as it was: {problem}")
    return problems


async def fall_silent(session: Session) -> None:
    """Waits until an agent that replays late has fallen silent: nothing in the protocol tells that it is done."""
    for _ in range(QUIET_LOOKS):
        frames = session.frames
        await asyncio.sleep(QUIET_SECONDS)
        if session.frames == frames:
            return


def _additional(config: SessionConfig, offered: Capabilities) -> tuple[str, ...]:
    folders = config.workspace.additional
    if folders:
        offered.require("additional_directories", "work in additional folders")
    return tuple(str(folder) for folder in folders)


def _system_prompt(config: SessionConfig, offered: Capabilities) -> acp.SystemPrompt | None:
    if config.system_prompt is None or not offered.system_prompt:
        return None
    return acp.SystemPrompt(mode="append", content=(acp.TextContent(text=config.system_prompt),))


def _check_servers(config: SessionConfig, offered: Capabilities) -> None:
    for server in config.mcp_servers:
        if server.type in ("http", "sse"):
            offered.require(f"mcp_{server.type}", f"use the MCP server {server.name!r}")
