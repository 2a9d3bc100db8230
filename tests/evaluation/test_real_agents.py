"""Real agents call our functions, over HTTP and through the shim, and each call is found among what they report."""

from __future__ import annotations

import asyncio
import re

import pytest

from agents.acts import allow
from agents.conftest import TIMEOUT_S, Stage, agent, stage  # noqa: F401 (fixtures)
from dragoman import RunResult, Session
from dragoman.evaluation.server import ToolServer
from dragoman.evaluation.tool import ToolError, tool
from dragoman.evaluation.toolbox import link

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROMPTS = 5


@tool
async def look_up(sku: str) -> dict[str, int]:
    """Find how many of an item there are."""
    if sku == "none":
        raise ToolError("there is no such item")
    return {"in_stock": 42}


def calling(stage: Stage, server: ToolServer, **arguments: str) -> str:  # noqa: F811 (the fixture)
    """The directive that has the model call our tool by whatever name the agent gave it."""
    return f"{stage.agent.call_mcp(server.name, 'look_up', arguments)}[[result]]"


async def until_called(session: Session, server: ToolServer, prompt: str) -> RunResult:
    """Agents look for a server's tools beside the conversation: an early prompt may not have them yet."""
    for _ in range(PROMPTS):
        result = await session.run(prompt)
        if server.calls:
            return result
    raise AssertionError(f"{PROMPTS} prompts, and the tool was never called")


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_our_function_is_called_and_each_call_is_found_among_the_agents(
    stage: Stage,  # noqa: F811 (the fixture)
    transport: str,
) -> None:
    if transport in stage.agent.drops_mcp:
        pytest.skip(f"MCP servers over {transport} do not reach the model of {stage.agent.id}")
    stage.more_env = stage.agent.mcp_env
    async with asyncio.timeout(TIMEOUT_S), ToolServer([look_up]) as server, stage.runtime() as runtime:
        assert runtime.capabilities().mcp_http
        entry = server.for_agent(http=transport == "http")
        session = await runtime.open_session(stage.config(allow, mcp_servers=(entry,)))
        found = await until_called(session, server, calling(stage, server, sku="violet"))
        assert re.search(r"in_stock\W+42", found.text)
        failed = await session.run(calling(stage, server, sku="none"))
        assert "there is no such item" in failed.text
    assert [(call.arguments, call.outcome) for call in server.calls] == [
        ({"sku": "violet"}, "ok"),
        ({"sku": "none"}, "error"),
    ]
    reported = (*found.tool_calls, *failed.tool_calls)
    linked = [call.tool_call_id for call in link(server.calls, reported)]
    assert linked == [found.tool_calls[-1].tool_call_id, failed.tool_calls[-1].tool_call_id]
