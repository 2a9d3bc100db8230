"""Our client and an agent built on the official TypeScript SDK, over a pipe."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dragoman.session.options import SessionConfig
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec
from dragoman.wire.vocabulary import McpServerHttp, McpServerStdio
from dragoman.workspace import Workspace
from interop import tour

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # the SDK is installed first


async def test_every_method_of_the_stable_protocol_is_understood_both_ways(
    node_agent: list[str], tmp_path: Path
) -> None:
    spec = AgentSpec(command=node_agent, read_files=True, write_files=True, terminals=True)
    async with AgentRuntime(spec) as runtime:
        report = await tour.take(runtime, tmp_path, more_updates=tour.NEWER_UPDATES)
    assert set(report["heard"]) == tour.EVERYTHING
    assert report["lost"] == []


async def test_a_session_with_mcp_servers_is_loaded_from_its_snapshot(node_agent: list[str], tmp_path: Path) -> None:
    servers = (
        McpServerStdio(name="a", command="run", args=(), env=()),
        McpServerHttp(name="b", url="http://127.0.0.1:9/", headers=()),
    )
    async with AgentRuntime(AgentSpec(command=node_agent)) as runtime:
        session = await runtime.open_session(SessionConfig(workspace=Workspace(tmp_path), mcp_servers=servers))
        agent_session_id = session.agent_session_id
        assert (await session.run("hello")).text == "echo: hello"
        snapshot = session.snapshot().to_json()
        await session.close()
        loaded = await runtime.load_session(snapshot)
        assert loaded.agent_session_id == agent_session_id
        assert [(message.kind, message.text) for message in loaded.fold.messages] == [
            ("user", "hello"),
            ("assistant", "answered: hello"),
        ]
        report = msgspec.json.decode((await loaded.run("report")).text)
    sent = msgspec.json.decode(msgspec.json.encode(servers))
    assert report["mcpServers"] == {"session/new": sent, "session/load": sent}
    assert report["lost"] == []
