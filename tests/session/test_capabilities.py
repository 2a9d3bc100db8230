"""R9: what the agent does not offer is not asked of it, and the error names it as the protocol does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import CapabilityMissing, InputError
from dragoman.session.prompt import AudioAttachment, ImageAttachment
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.testing.memory import config, runtime_of
from dragoman.testing.scripted import ScriptedAgent
from dragoman.wire import vocabulary as acp
from dragoman.workspace import Workspace

Use = Callable[[AgentRuntime, Session], Awaitable[object]]

HTTP = acp.McpServerHttp(name="web", url="http://127.0.0.1/mcp", headers=())
SSE = acp.McpServerSse(name="old", url="http://127.0.0.1/sse", headers=())


async def listed(runtime: AgentRuntime, session: Session) -> object:
    return [info async for info in runtime.list_sessions()]


async def further_folder(runtime: AgentRuntime, session: Session) -> object:
    folder = session.config.workspace.cwd
    return await runtime.open_session(config(workspace=Workspace(folder, [folder.parent])))


async def resumed(runtime: AgentRuntime, session: Session) -> object:
    handle = session.snapshot()
    await session.close()
    return await runtime.resume_session(handle)


async def loaded(runtime: AgentRuntime, session: Session) -> object:
    handle = session.snapshot()
    await session.close()
    return await runtime.load_session(handle)


USES: dict[str, tuple[Use, dict[str, Any], dict[str, Any]]] = {
    # the name in the protocol: how it is used, how it is offered, how the agent answers
    "loadSession": (loaded, {"loadSession": True}, {"session/load": {}}),
    "sessionCapabilities.list": (listed, {"sessionCapabilities": {"list": {}}}, {"session/list": {"sessions": []}}),
    "sessionCapabilities.fork": (
        lambda runtime, session: runtime.fork_session(session),
        {"sessionCapabilities": {"fork": {}}},
        {"session/fork": {"sessionId": "forked"}},
    ),
    "sessionCapabilities.delete": (
        lambda runtime, session: runtime.delete_session("x"),
        {"sessionCapabilities": {"delete": {}}},
        {"session/delete": {}},
    ),
    "sessionCapabilities.additionalDirectories": (
        further_folder,
        {"sessionCapabilities": {"additionalDirectories": {}}},
        {},
    ),
    "promptCapabilities.image": (
        lambda runtime, session: session.run(ImageAttachment(b"png", "image/png")).result(),
        {"promptCapabilities": {"image": True}},
        {},
    ),
    "promptCapabilities.audio": (
        lambda runtime, session: session.run(AudioAttachment(b"wav", "audio/wav")).result(),
        {"promptCapabilities": {"audio": True}},
        {},
    ),
    "promptCapabilities.embeddedContext": (
        lambda runtime, session: session.run(
            acp.EmbeddedResource(resource=acp.TextResourceContents(uri="file:///x", text="t"))
        ).result(),
        {"promptCapabilities": {"embeddedContext": True}},
        {},
    ),
    "mcpCapabilities.http": (
        lambda runtime, session: runtime.open_session(config(mcp_servers=(HTTP,))),
        {"mcpCapabilities": {"http": True}},
        {},
    ),
    "mcpCapabilities.sse": (
        lambda runtime, session: runtime.open_session(config(mcp_servers=(SSE,))),
        {"mcpCapabilities": {"sse": True}},
        {},
    ),
    "auth.logout": (lambda runtime, session: runtime.logout(), {"auth": {"logout": {}}}, {"logout": {}}),
}


@pytest.mark.parametrize("name", USES)
async def test_a_method_that_is_not_offered_is_not_called_but_named(name: str, tmp_path: Path) -> None:
    use, _, answers = USES[name]
    agent = ScriptedAgent(answers=answers)
    async with runtime_of(agent) as runtime:
        session = await runtime.open_session(config(workspace=Workspace(tmp_path)))
        heard = len(agent.heard)
        with pytest.raises(CapabilityMissing) as missing:
            await use(runtime, session)
        assert missing.value.capability == name
        assert name in str(missing.value)
        assert missing.value.category == "protocol"
        assert len(agent.heard) == heard


@pytest.mark.parametrize("name", USES)
async def test_a_method_that_is_offered_is_used(name: str, tmp_path: Path) -> None:
    use, capabilities, answers = USES[name]
    agent = ScriptedAgent(capabilities=capabilities, answers=answers)
    async with runtime_of(agent) as runtime:
        session = await runtime.open_session(config(workspace=Workspace(tmp_path)))
        heard = len(agent.heard)
        await use(runtime, session)
        assert len(agent.heard) > heard


async def test_resuming_needs_resume_or_load() -> None:
    async with runtime_of(ScriptedAgent()) as runtime:
        with pytest.raises(CapabilityMissing, match="loadSession"):
            await resumed(runtime, await runtime.open_session(config()))


@pytest.mark.parametrize(
    ("capabilities", "method"),
    [
        ({"loadSession": True}, "session/load"),
        ({"sessionCapabilities": {"resume": {}}}, "session/resume"),
        ({"loadSession": True, "sessionCapabilities": {"resume": {}}}, "session/resume"),
    ],
)
async def test_a_session_is_resumed_and_loaded_only_where_it_cannot_be(
    capabilities: dict[str, Any], method: str
) -> None:
    agent = ScriptedAgent(capabilities=capabilities, answers={"session/load": None, "session/resume": {}})
    async with runtime_of(agent) as runtime:
        session = await runtime.open_session(config())
        await resumed(runtime, session)
        assert agent.heard[-1].method == method
        assert agent.heard[-1].session_id == "session-1"


async def test_a_stdio_server_needs_no_capability() -> None:
    agent = ScriptedAgent()
    server = acp.McpServerStdio(name="files", command="/bin/files", args=("--here",), env=())
    async with runtime_of(agent) as runtime:
        await runtime.open_session(config(mcp_servers=(server,)))
        [request] = agent.all_heard("session/new")
        assert request.params["mcpServers"] == [
            {"name": "files", "command": "/bin/files", "args": ["--here"], "env": []}
        ]


async def test_a_server_in_short_form_is_sent_in_full() -> None:
    agent = ScriptedAgent(capabilities={"mcpCapabilities": {"http": True, "sse": True}})
    short = (
        acp.McpServer(name="files", command="/bin/files"),
        acp.McpServer(name="web", type="http", url="http://h/"),
        acp.McpServer(name="old", type="sse", url="http://h/"),
    )
    async with runtime_of(agent) as runtime:
        await runtime.open_session(config(mcp_servers=short))
        assert agent.all_heard("session/new")[0].params["mcpServers"] == [
            {"name": "files", "command": "/bin/files", "args": [], "env": []},
            {"name": "web", "type": "http", "url": "http://h/", "headers": []},
            {"name": "old", "type": "sse", "url": "http://h/", "headers": []},
        ]
    for nothing in (acp.McpServer(name="x"), acp.McpServer(name="x", type="http"), {"name": "x"}):
        with pytest.raises(InputError, match="MCP server"):
            config(mcp_servers=(nothing,))


async def test_the_whole_answer_is_available() -> None:
    agent = ScriptedAgent(
        capabilities={"_meta": {"vendor": 1}, "unheardOf": True},
        initialize={"agentInfo": {"name": "a", "version": "1.2"}},
    )
    async with runtime_of(agent) as runtime:
        capabilities = runtime.capabilities()
        assert (capabilities.agent_name, capabilities.agent_version) == ("a", "1.2")
        assert b'"unheardOf":true' in bytes(capabilities.raw)
        assert b'"vendor":1' in bytes(capabilities.raw)


async def test_agents_that_offer_it_learn_that_a_session_was_closed() -> None:
    agent = ScriptedAgent(capabilities={"sessionCapabilities": {"close": {}}}, answers={"session/close": {}})
    async with runtime_of(agent) as runtime:
        session = await runtime.open_session(config())
        await session.close()
        assert agent.heard[-1].method == "session/close"
        assert not runtime.busy


async def test_an_agent_that_cannot_close_a_session_does_not_keep_us() -> None:
    agent = ScriptedAgent(capabilities={"sessionCapabilities": {"close": {}}})
    async with runtime_of(agent) as runtime:
        session = await runtime.open_session(config())
        await session.close()
        assert not runtime.busy
        assert "session/close" in runtime.diagnostics.recent[-1].text
