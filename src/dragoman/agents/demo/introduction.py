"""How the demo agent introduces itself: what it can do, no more and no less, and its slash commands."""

from __future__ import annotations

from dragoman._version import __version__
from dragoman.agents.demo.requests import CATALOGUE
from dragoman.agents.demo.trouble import LOGIN
from dragoman.wire.vocabulary import (
    PROTOCOL_VERSION,
    AgentAuthCapabilities,
    AgentCapabilities,
    AvailableCommand,
    AvailableCommandsUpdate,
    Implementation,
    InitializeResponse,
    LogoutCapabilities,
    PromptCapabilities,
    SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionForkCapabilities,
    SessionListCapabilities,
    SessionResumeCapabilities,
    UnstructuredCommandInput,
)

# It connects to no MCP server, so it offers neither http nor sse; stdio servers every agent has to accept.
CAPABILITIES = AgentCapabilities(
    load_session=True,
    prompt_capabilities=PromptCapabilities(image=True, audio=True, embedded_context=True),
    session_capabilities=SessionCapabilities(
        list=SessionListCapabilities(),
        delete=SessionDeleteCapabilities(),
        additional_directories=SessionAdditionalDirectoriesCapabilities(),
        fork=SessionForkCapabilities(),
        resume=SessionResumeCapabilities(),
        close=SessionCloseCapabilities(),
    ),
    auth=AgentAuthCapabilities(logout=LogoutCapabilities()),
)

# Those that misbehave are left out: nobody shall crash the agent by picking from a menu.
COMMANDS = AvailableCommandsUpdate(
    available_commands=tuple(
        AvailableCommand(
            name=ask.name, description=ask.says, input=UnstructuredCommandInput(hint=ask.hint) if ask.hint else None
        )
        for ask in CATALOGUE
        if ask.group != "Break"
    )
)

INTRODUCTION = InitializeResponse(
    protocol_version=PROTOCOL_VERSION,
    agent_capabilities=CAPABILITIES,
    auth_methods=(LOGIN,),
    agent_info=Implementation(name="dragoman-demo", title="Dragoman's demo agent", version=__version__),
)
