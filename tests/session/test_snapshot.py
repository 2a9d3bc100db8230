"""A snapshot is enough to go on in another process, and no secret is in it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import InputError, RequestTimeout
from dragoman.hub.local import open_session, resume_session
from dragoman.journal.sqlite import MemoryJournal
from dragoman.session.client import LocalClient
from dragoman.session.handle import SessionHandle, read_handle, with_servers
from dragoman.session.spec import AgentSpec, Limits
from dragoman.testing.clock import ManualClock
from dragoman.testing.memory import TIMEOUT_S, config, runtime_of
from dragoman.testing.scripted import ReceivedRequest, ScriptedAgent
from dragoman.wire import vocabulary as acp
from dragoman.workspace import Workspace
from hub.journaled import journal_client_of

SECRET = "hunter2"

OPEN_SERVERS = (
    acp.McpServerStdio(name="plain", command="/bin/plain", args=("--port", "1"), env=()),
    acp.McpServerHttp(name="local", url="http://127.0.0.1:1/mcp", headers=()),
)
SECRET_SERVERS = (
    acp.McpServerStdio(name="env", command="/bin/x", args=(), env=(acp.EnvVariable(name="KEY", value=SECRET),)),
    acp.McpServerStdio(name="args", command="/bin/x", args=("--api-key", SECRET), env=()),
    acp.McpServerHttp(name="header", url="http://h/", headers=(acp.HttpHeader(name="A", value=f"Bearer {SECRET}"),)),
    acp.McpServerHttp(name="query", url=f"http://h/mcp?token={SECRET}", headers=()),
    acp.McpServerHttp(name="user", url=f"http://me:{SECRET}@h/mcp", headers=()),
    acp.McpServerHttp(name="fragment", url=f"http://h/mcp#{SECRET}", headers=()),
    acp.McpServerHttp(name="meta", url="http://h/mcp", headers=(), meta={"key": SECRET}),
)
EVERYTHING = {
    "mcpCapabilities": {"http": True},
    "loadSession": True,
    "sessionCapabilities": {"resume": {}, "additionalDirectories": {}},
}


def resumable(**options: Any) -> ScriptedAgent:
    return ScriptedAgent(capabilities=EVERYTHING, answers={"session/resume": {}, "session/load": None}, **options)


async def test_no_secret_is_in_a_snapshot_and_missing_values_are_named(tmp_path: Path) -> None:
    spec = AgentSpec(command=["agent", "--acp"], env={"API_KEY": SECRET, "GONE": None})
    settings = config(workspace=Workspace(tmp_path), mcp_servers=OPEN_SERVERS + SECRET_SERVERS)
    async with runtime_of(resumable(), spec=spec) as runtime:
        session = await runtime.open_session(settings)
        handle = session.snapshot()
    for text in (handle.to_json(), json.dumps(handle.to_dict()), repr(handle)):
        assert SECRET not in text
    assert set(handle.secrets) == {"env API_KEY", *(f"mcp server {server.name}" for server in SECRET_SERVERS)}
    assert [server.name for server in handle.mcp_servers] == ["plain", "local"]


async def test_a_snapshot_survives_its_json_in_every_form(tmp_path: Path) -> None:
    async with runtime_of(
        resumable(), spec=AgentSpec(command=["agent"], write_files=False, terminals=False)
    ) as runtime:
        session = await runtime.open_session(
            config(
                workspace=Workspace(tmp_path, [tmp_path.parent]),
                access="edit-inside",
                network=False,
                web_search=True,
                system_prompt="Be brief.",
                mcp_servers=OPEN_SERVERS,
            )
        )
        handle = session.snapshot()
    assert read_handle(handle.to_json()) == handle
    assert read_handle(handle.to_json().encode()) == handle
    assert read_handle(handle.to_dict()) == handle
    assert read_handle(handle) is handle
    assert (handle.command, handle.offers, handle.cwd) == (("agent",), ("read_files",), str(tmp_path))
    assert (handle.access, handle.network, handle.web_search) == ("edit-inside", False, True)
    assert (handle.system_prompt, handle.system_prompt_sent) == ("Be brief.", False)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("no JSON", "no session handle"),
        ("{}", "session_id"),
        ({"session_id": 1}, "session_id"),
        ({"version": 2, "session_id": "a", "agent_session_id": "b", "cwd": "/"}, "version 2"),
    ],
)
def test_an_invalid_handle_is_named(given: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_handle(given)


async def test_a_resumed_session_is_as_it_was(tmp_path: Path) -> None:
    agent = resumable()
    async with runtime_of(agent) as runtime:
        first = await runtime.open_session(
            config(workspace=Workspace(tmp_path, [tmp_path.parent]), access="read-only", mcp_servers=OPEN_SERVERS)
        )
        handle = first.snapshot()
        with pytest.raises(InputError, match="open on this runtime already"):
            await runtime.resume_session(handle)
        await first.close()
        second = await runtime.resume_session(handle.to_json())
        assert second.id == first.id
        assert second.config.access == "read-only"
        request = agent.heard[-1].params
        assert request["cwd"] == str(tmp_path)
        assert request["additionalDirectories"] == [str(tmp_path.parent)]
        assert request["mcpServers"] == agent.all_heard("session/new")[0].params["mcpServers"]
        assert request["mcpServers"] == [
            {"name": "plain", "command": "/bin/plain", "args": ["--port", "1"], "env": []},
            {"type": "http", "name": "local", "url": "http://127.0.0.1:1/mcp", "headers": []},
        ]
        assert second.snapshot() == handle
        one, two = await second.run("go"), await second.run("go")
        assert one.run_id != two.run_id


async def test_settings_that_the_agent_forgot_are_set_again_and_the_rest_is_left_alone() -> None:
    def option(option_id: str, current: str) -> dict[str, Any]:
        values = [{"value": value, "name": value} for value in ("a", "b")]
        return {"type": "select", "id": option_id, "name": option_id, "currentValue": current, "options": values}

    before = {"configOptions": [option("kept", "b"), option("lost", "b"), option("gone", "b"), option("refused", "b")]}
    after = {"configOptions": [option("kept", "b"), option("lost", "a"), option("refused", "a")]}

    async def set_option(request: ReceivedRequest) -> object:
        if request.params["configId"] == "refused":
            raise ValueError("not any more")
        return {"configOptions": [option("kept", "b"), option("lost", "b"), option("refused", "a")]}

    agent = ScriptedAgent(
        capabilities=EVERYTHING,
        session=before,
        answers={"session/resume": after, "session/set_config_option": set_option},
    )
    async with runtime_of(agent) as runtime:
        first = await runtime.open_session(config())
        handle = first.snapshot()
        await first.close()
        second = await runtime.resume_session(handle)
        option_ids = [request.params["configId"] for request in agent.all_heard("session/set_config_option")]
        assert option_ids == ["lost", "refused"]
        assert second.fold.settings["lost"].current == "b"
        assert "refused" in runtime.diagnostics.recent[-1].text


async def test_a_model_that_the_agent_does_not_list_is_set_again() -> None:
    def option(current: str) -> dict[str, Any]:
        values = [{"value": value, "name": value} for value in ("small", "large")]
        found = {"type": "select", "id": "llm", "name": "Model", "category": "model"}
        return {"configOptions": [{**found, "currentValue": current, "options": values}]}

    async def set_option(request: ReceivedRequest) -> object:
        return option(request.params["value"])

    answers: dict[str, Any] = {"session/resume": option("small"), "session/set_config_option": set_option}
    agent = ScriptedAgent(capabilities=EVERYTHING, session=option("own"), answers=answers)
    async with runtime_of(agent) as runtime:
        first = await runtime.open_session(config())
        handle = first.snapshot()
        await first.close()
        second = await runtime.resume_session(handle)
        assert second.fold.settings["llm"].current == "own"


async def test_a_model_that_was_in_use_stays_a_choice_where_the_agent_was_started_again(tmp_path: Path) -> None:
    values = [{"value": value, "name": value} for value in ("small", "large")]
    found = {"type": "select", "id": "llm", "name": "Model", "category": "model", "options": values}
    new, loaded = ({"configOptions": [{**found, "currentValue": current}]} for current in ("own", "small"))

    async def refuse(request: ReceivedRequest) -> object:
        raise ValueError("not now")

    answers: dict[str, Any] = {"session/resume": loaded, "session/set_config_option": refuse}
    agent = ScriptedAgent(capabilities=EVERYTHING, session=new, answers=answers)
    async with runtime_of(agent, journal_client=await journal_client_of(MemoryJournal())) as runtime:
        first = await runtime.open_session(config())
        handle = first.snapshot()
        await first.close()
        second = await runtime.resume_session(handle)
        assert second.fold.settings["llm"].current == "small"
        assert [choice.value for choice in second.fold.settings["llm"].choices] == ["small", "large", "own"]


@pytest.mark.parametrize("has_run", [False, True])
async def test_a_system_prompt_is_sent_once_also_across_processes(has_run: bool) -> None:
    agent = resumable()
    async with runtime_of(agent) as runtime:
        first = await runtime.open_session(config(system_prompt="Be brief."))
        if has_run:
            await first.run("one")
        handle = first.snapshot()
        await first.close()
        second = await runtime.resume_session(handle)
        await second.run("two")
        sent = [block["text"] for request in agent.all_heard("session/prompt") for block in request.params["prompt"]]
        assert sent.count("Be brief.") == 1


async def test_secrets_have_to_be_passed_again(tmp_path: Path) -> None:
    handle = SessionHandle(
        session_id="s",
        agent_session_id="a",
        command=("agent",),
        cwd=str(tmp_path),
        mcp_servers=OPEN_SERVERS,
        secrets=("env API_KEY", "mcp server query"),
    )
    with pytest.raises(InputError, match="API_KEY"):
        await resume_session(handle, mcp_servers=[SECRET_SERVERS[3]])
    with pytest.raises(InputError, match="query"):
        await resume_session(handle, env={"API_KEY": "x"})
    with pytest.raises(InputError, match="query"):
        await LocalClient(env={"API_KEY": "x"}).resume(handle)
    whole = with_servers(handle, [SECRET_SERVERS[3]])
    assert [server.name for server in whole.mcp_servers] == ["plain", "local", "query"]
    assert whole.secrets == ("env API_KEY",)


async def test_an_agent_without_preset_is_started_as_it_was(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(
        "from dragoman.testing import ScriptedAgent\n"
        "async def answer(turn):\n"
        "    offered = turn.agent.all_heard('initialize')[0].params['clientCapabilities']['fs']\n"
        "    await turn.say(str(offered.get('readTextFile')))\n"
        "agent = ScriptedAgent(answer, capabilities={'loadSession': True}, answers={'session/load': None})\n"
    )
    command = (sys.executable, "-m", "dragoman.testing", f"{script}:agent")
    spec = AgentSpec(command=command, name="mine", read_files=True, env={"X": "1"})
    async with asyncio.timeout(TIMEOUT_S):
        async with open_session(spec, cwd=tmp_path) as session:
            assert (await session.run("go")).text == "True"
            handle = session.snapshot()
        async with resume_session(handle, env={"X": "1"}) as session:
            assert (await session.run("go")).text == "True"
            assert session.agent_name == "mine"
            assert session.id == handle.session_id


RESUME = """
import asyncio, sys, dragoman

async def main():
    async with dragoman.resume_session(sys.stdin.read()) as session:
        before = [message.text for message in session.fold.messages]
        result = await session.run("usage")
        print(session.id, result.status, session.snapshot().mode, sep="\\n")

asyncio.run(main())
"""


async def test_a_session_goes_on_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_DEMO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DRAGOMAN_DEMO_PACE", "0")
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "dragoman"))
    async with asyncio.timeout(TIMEOUT_S), open_session("demo", cwd=tmp_path) as session:
        await session.run("hello")
        await session.set_mode("plan")
        handle = session.snapshot()
    assert (handle.agent, handle.command, handle.secrets) == ("demo", (), ())
    other = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", RESUME],
        input=handle.to_json(),
        capture_output=True,
        text=True,
        env=dict(os.environ),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert other.stdout.split() == [handle.session_id, "success", "plan"], other.stderr


async def test_variables_that_were_given_to_a_preset_have_to_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "dragoman"))
    given = {"DRAGOMAN_DEMO_PACE": "0", "MY_KEY": SECRET, "PATH_OF_NOTHING": None}
    async with asyncio.timeout(TIMEOUT_S):
        async with open_session("demo", cwd=tmp_path, env=given) as session:
            handle = session.snapshot()
        assert handle.secrets == ("env DRAGOMAN_DEMO_PACE", "env MY_KEY")
        assert SECRET not in handle.to_json()
        with pytest.raises(InputError, match="MY_KEY"):
            await resume_session(handle, env={"DRAGOMAN_DEMO_PACE": "0"})
        async with resume_session(handle, env=given) as session:
            assert session.id == handle.session_id


def test_a_handle_of_an_older_dragoman_is_read() -> None:
    old = {"version": 1, "session_id": "s", "agent_session_id": "a", "agent": "claude", "cwd": "/", "of_tomorrow": 1}
    assert msgspec.to_builtins(read_handle(old))["agent"] == "claude"


async def test_a_session_that_could_not_be_restored_can_be_resumed_again() -> None:
    choice = {"type": "select", "id": "speed", "name": "Speed", "currentValue": "slow", "options": []}
    modes = {"configOptions": [choice]}
    tries: list[str] = []
    clock = ManualClock()

    async def switch(request: ReceivedRequest) -> object:
        tries.append(request.params["value"])
        if len(tries) == 1:
            clock.advance(60.0)
            await asyncio.Event().wait()  # it never answers
        return {"configOptions": []}

    agent = ScriptedAgent(
        capabilities=EVERYTHING, answers={"session/resume": modes, "session/set_config_option": switch}
    )
    handle = SessionHandle(session_id="s", agent_session_id="a", cwd="/", options={"speed": "fast"})
    async with runtime_of(agent, limits=Limits(request_timeout=60.0), clock=clock) as runtime:
        with pytest.raises(RequestTimeout):
            await runtime.resume_session(handle)
        assert (await runtime.resume_session(handle)).status() == "idle"
    assert tries == ["fast", "fast"]
