"""`BackendAdapter.connect`: the agent, the capabilities, and handlers for files and terminals."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman.backend import BackendAdapter, permission_response, read_message, user_message
from dragoman.errors import AuthenticationRequired, CommandNotFound, ExitedAtStart, InputError, RequestFailed
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.options import SessionConfig
from dragoman.session.spec import AgentSpec
from dragoman.testing.demo import demo_in_memory, demo_spec
from dragoman.testing.memory import in_memory
from dragoman.testing.scripted import ScriptedAgent, Turn
from dragoman.wire import vocabulary as acp
from dragoman.workspace import Workspace
from session.servers import websocket_server

from .conftest import connected, scripted, text_of, until


class Buffers:
    """One file, in memory."""

    text = "unsaved\n"

    async def read_text_file(self, request: acp.ReadTextFileRequest) -> acp.ReadTextFileResponse:
        return acp.ReadTextFileResponse(content=self.text)

    async def write_text_file(self, request: acp.WriteTextFileRequest) -> acp.WriteTextFileResponse:
        self.text = request.content
        return acp.WriteTextFileResponse()


class Screens:
    """Terminals in which every command prints the same."""

    def __init__(self) -> None:
        self.open: set[str] = set()

    async def create(self, request: acp.CreateTerminalRequest) -> acp.CreateTerminalResponse:
        self.open.add("screen")
        return acp.CreateTerminalResponse(terminal_id="screen")

    async def output(self, request: acp.TerminalOutputRequest) -> acp.TerminalOutputResponse:
        return acp.TerminalOutputResponse(output="from our own screen", truncated=False)

    async def wait_for_exit(self, request: acp.WaitForTerminalExitRequest) -> acp.WaitForTerminalExitResponse:
        return acp.WaitForTerminalExitResponse(exit_code=0)

    async def kill(self, request: acp.KillTerminalRequest) -> acp.KillTerminalResponse:
        return acp.KillTerminalResponse()

    async def release(self, request: acp.ReleaseTerminalRequest) -> acp.ReleaseTerminalResponse:
        self.open.remove(request.terminal_id)
        return acp.ReleaseTerminalResponse()


def test_features_that_a_front_end_can_rely_on_are_declared() -> None:
    local = BackendAdapter("demo").capabilities
    assert (local.streaming, local.permissions, local.slash_commands) == (True, True, True)
    assert local.availability == "local"
    assert BackendAdapter(url="wss://agents.example/acp").capabilities.availability == "both"


async def test_an_agent_can_be_at_an_address(folder: Path, tmp_path: Path) -> None:
    async with websocket_server(demo_in_memory(tmp_path / "demo"), token="abracadabra") as url:
        with pytest.raises(AuthenticationRequired):
            await BackendAdapter(url=url).connect(folder)
        adapter = BackendAdapter(url=url, headers={"Authorization": "abracadabra"})
        async with connected(adapter, folder) as session:
            await session.send(user_message("permission"))
            request = (await until(session, "permission_request"))[-1]
            await session.send(permission_response(request, "allow"))
            messages = await until(session, "result")
            assert "You allowed it" in text_of(messages)
            await session.send(user_message("crash"))
            *_, result, error = [message async for message in session.messages]
            assert (result.metadata["status"], error.metadata["kind"]) == ("interrupted", "AgentCrashed")


def test_an_address_is_checked_before_connecting() -> None:
    with pytest.raises(InputError, match="ws://"):
        BackendAdapter(url="ftp://agents.example/acp")
    with pytest.raises(InputError, match="only one of them"):
        BackendAdapter("demo", url="wss://agents.example/acp")


async def test_an_agent_can_be_named_by_its_preset(folder: Path) -> None:
    async with connected(BackendAdapter("demo", env={"DRAGOMAN_DEMO_PACE": "0"}), folder) as session:
        await session.send(user_message("hello"))
        assert (await until(session, "result"))[-1].metadata["stopReason"] == "end_turn"


async def test_a_missing_agent_is_a_clear_error(folder: Path) -> None:
    with pytest.raises(InputError, match="no-such-agent"):
        await BackendAdapter("no-such-agent").connect(folder)
    with pytest.raises(CommandNotFound):
        await BackendAdapter(["no-such-program"]).connect(folder)
    with pytest.raises(ExitedAtStart):
        await BackendAdapter([sys.executable, "-c", "exit(3)"]).connect(folder)


async def test_a_session_that_cannot_be_opened_leaves_no_agent(folder: Path) -> None:
    async def refuse(request: object) -> object:
        raise RuntimeError("not today")

    with pytest.raises(RequestFailed, match="not today"):
        await scripted(ScriptedAgent(answers={"session/new": refuse})).connect(folder)


async def test_on_permission_is_refused_by_the_adapter(folder: Path) -> None:
    config = SessionConfig(workspace=Workspace(folder), on_permission=lambda request: True)
    with pytest.raises(InputError, match="on_permission"):
        await BackendAdapter("demo").connect(config)


async def test_the_rest_of_the_config_is_passed_to_the_session(folder: Path) -> None:
    async def script(turn: Turn) -> None:
        await turn.say(turn.text)

    config = SessionConfig(workspace=Workspace(folder), system_prompt="Be brief. ")
    async with connected(scripted(script), config) as session:
        await session.send(user_message("Hi"))
        assert text_of(await until(session, "result")) == "Be brief. Hi"


async def test_files_are_read_and_written_by_the_callers_handler(folder: Path, tmp_path: Path) -> None:
    (folder / "notes.txt").write_text("saved\n")
    buffers = Buffers()
    async with connected(BackendAdapter(demo_spec(tmp_path / "demo")), folder, file_handler=buffers) as session:
        await session.send(user_message("edit notes.txt: more"))
        request = (await until(session, "permission_request"))[-1]
        assert request.metadata["toolCall"]["content"][0]["oldText"] == "unsaved\n"
        await session.send(permission_response(request, "allow"))
        await until(session, "result")
        assert buffers.text == "unsaved\nmore\n"
        assert (folder / "notes.txt").read_text() == "saved\n"


async def test_commands_are_run_by_the_callers_handler(folder: Path, tmp_path: Path) -> None:
    screens = Screens()
    async with connected(BackendAdapter(demo_spec(tmp_path / "demo")), folder, terminal_handler=screens) as session:
        await session.send(user_message("run their-program now"))
        request = (await until(session, "permission_request"))[-1]
        await session.send(permission_response(request, "allow"))
        assert "from our own screen" in text_of(await until(session, "result"))
    assert screens.open == set()


async def test_requests_that_a_handler_serves_are_offered_to_the_agent(folder: Path) -> None:
    agent = ScriptedAgent()
    config = SessionConfig(workspace=Workspace(folder), file_handler=Buffers())
    nothing = AgentSpec(command=["memory"], read_files=False, write_files=False, terminals=False)
    adapter = BackendAdapter(nothing, launch=in_memory(agent.main))
    async with connected(adapter, config, terminal_handler=Screens()):
        offered = (await agent.hears("initialize")).params["clientCapabilities"]
        assert offered["fs"] == {"readTextFile": True, "writeTextFile": True}
        assert offered["terminal"] is True
    agent = ScriptedAgent()
    async with connected(BackendAdapter(nothing, launch=in_memory(agent.main)), folder):
        offered = (await agent.hears("initialize")).params["clientCapabilities"]
        assert not any(offered.get("fs", {}).values())
        assert not offered.get("terminal")


async def test_stderr_is_captured_and_shown(folder: Path) -> None:
    async def script(turn: Turn) -> None:
        turn.agent.complain("a word of warning")
        await turn.say("hi")

    diagnostics: list[Diagnostic] = []
    async with connected(scripted(script), folder, on_diagnostic=diagnostics.append) as session:
        await session.send(user_message("go"))
        await until(session, "result")
        assert session.stderr == "a word of warning"
        assert [(diagnostic.kind, diagnostic.text) for diagnostic in diagnostics] == [("stderr", "a word of warning")]


async def test_a_front_end_in_another_process_sends_json(folder: Path) -> None:
    sent = b'{"id":"1","timestamp":0,"type":"user_message","role":"user","content":[{"type":"text","text":"hello"}]}'
    spec = AgentSpec(command=[sys.executable, "-m", "dragoman.agents.demo"], env={"DRAGOMAN_DEMO_PACE": "0"})
    async with connected(BackendAdapter(spec), folder) as session:
        await session.send(read_message(sent))
        assert (await until(session, "result"))[-1].metadata["in_reply_to"] == "1"
