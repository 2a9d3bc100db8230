"""MCP servers that we name to a real agent: their tools reach its model, and end with the agent."""

from __future__ import annotations

import asyncio
import sys

import pytest

from dragoman import Session
from dragoman.wire.vocabulary import McpServerHttp, McpServerStdio

from . import notes_server
from .acts import Pipe, allow
from .conftest import TIMEOUT_S, Stage

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


PROMPTS = 5


def skip_what_is_dropped(stage: Stage, transport: str) -> None:
    if transport in stage.agent.drops_mcp:
        pytest.skip(f"{stage.agent.id} drops MCP servers over {transport} (quirk mcp-{transport}-dropped)")


async def tool_is_used(stage: Stage, session: Session) -> None:
    """Prompt until the tool is used: agents look for a server's tools in the background, and may not have them yet."""
    call = stage.agent.call_mcp("notes", "echo_note", {"note": "violet"})
    result = await session.run(f"{call}[[result]]")
    for _ in range(PROMPTS - 1):
        if "noted: violet" in result.text:
            return
        result = await session.run(f"{call}[[result]]")
    assert "noted: violet" in result.text


async def test_the_tool_of_an_mcp_server_over_stdio_is_used(stage: Stage) -> None:
    skip_what_is_dropped(stage, "stdio")
    stage.more_env = stage.agent.mcp_env
    pipe = Pipe(stage.folder.parent / "alive")
    server = McpServerStdio(name="notes", command=sys.executable, args=(notes_server.__file__, str(pipe.path)), env=())
    async with asyncio.timeout(TIMEOUT_S):
        async with stage.session(allow, mcp_servers=(server,)) as session:
            await tool_is_used(stage, session)
        assert await pipe.next_line() == b""  # the server has ended too
    pipe.close()


async def test_the_tool_of_an_mcp_server_over_http_is_used(stage: Stage) -> None:
    stage.more_env = stage.agent.mcp_env
    with notes_server.over_http() as url:
        async with asyncio.timeout(TIMEOUT_S), stage.runtime() as runtime:
            if not runtime.capabilities().mcp_http:
                pytest.skip(f"{stage.agent.id} does not offer mcpCapabilities.http")
            server = McpServerHttp(name="notes", url=url, headers=())
            await tool_is_used(stage, await runtime.open_session(stage.config(allow, mcp_servers=(server,))))
