"""Scripted agents that use the tools they are given, as a real one does: over MCP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from dragoman.evaluation.attempt import SERVER
from dragoman.session.runtime import AgentRuntime
from dragoman.testing.memory import memory_runtime
from dragoman.testing.scripted import Script, ScriptedAgent, Turn

HTTP: dict[str, Any] = {"mcpCapabilities": {"http": True}}


class Hands:
    """An agent's access to our tools during a run. Calls are reported, as agents do."""

    def __init__(self, turn: Turn, client: ClientSession) -> None:
        self.turn = turn
        self.client = client
        self._calls = 0

    async def call(self, tool: str, arguments: Mapping[str, Any], *, report: bool = True) -> tuple[bool, str]:
        """Call a tool; return whether it succeeded, and its text."""
        self._calls += 1
        call_id = f"call-{self._calls}"
        if report:
            await self.turn.tool(call_id, title=f"mcp__{SERVER}__{tool}", kind="other", rawInput=dict(arguments))
        answer: Any = await self.client.call_tool(tool, dict(arguments))
        if report:
            await self.turn.tool_update(call_id, status="failed" if answer.is_error else "completed")
        return not answer.is_error, "".join(getattr(block, "text", "") for block in answer.content)

    async def hand_over(self, **value: Any) -> tuple[bool, str]:
        return await self.call("structured_output", value)


@asynccontextmanager
async def hands(turn: Turn) -> AsyncIterator[Hands]:
    async with connected(turn.agent.all_heard("session/new")[-1].params["mcpServers"][-1]) as client:
        yield Hands(turn, client)


@asynccontextmanager
async def connected(server: Mapping[str, Any]) -> AsyncIterator[ClientSession]:
    """Connect to an MCP server that `session/new` names."""
    headers = {header["name"]: header["value"] for header in server["headers"]}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        streamable_http_client(server["url"], http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as client,
    ):
        await client.initialize()
        yield client


def acting(script: Script, **options: Any) -> ScriptedAgent:
    return ScriptedAgent(script, capabilities=HTTP, **options)


@asynccontextmanager
async def runtime_on(agent: ScriptedAgent | Script, **options: Any) -> AsyncIterator[AgentRuntime]:
    made = agent if isinstance(agent, ScriptedAgent) else acting(agent)
    async with memory_runtime(made.main, **options) as runtime:
        yield runtime
