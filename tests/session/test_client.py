"""The front door: an agent by name, command or spec."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.errors import AgentCrashed, CommandNotFound, ConfigError, ExitedAtStart, InputError
from dragoman.hub.local import open_session, run
from dragoman.record.fold import SessionFold
from dragoman.session import ports
from dragoman.session.client import LocalClient
from dragoman.session.handle import handle_of
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec
from dragoman.testing.demo import demo_spec
from dragoman.testing.memory import TIMEOUT_S, config
from dragoman.workspace import Workspace


@pytest.fixture(autouse=True)
def own_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DRAGOMAN_DEMO_PACE", "0")


async def test_a_session_can_be_awaited_or_entered(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        session = await open_session("demo", cwd=tmp_path)
        assert (await session.run("hello")).status == "success"
        await session.close()
        async with open_session("demo", cwd=tmp_path) as session:
            assert (await session.run("hello")).status == "success"


async def test_variables_go_also_to_the_agent_of_a_spec(tmp_path: Path) -> None:
    code = "import os, sys; sys.exit(os.environ['ONE'] + os.environ['TWO'])"
    spec = AgentSpec(command=[sys.executable, "-c", code], env={"ONE": "first", "TWO": "second"})
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(ExitedAtStart, match="firstother"):
            await run(spec, "hello", cwd=tmp_path, env={"TWO": "other"})


@pytest.mark.parametrize(
    ("agent", "prompt", "given", "says"),
    [
        (3, "hello", {}, "the agent is 3; expected a name"),
        ("demo", None, {}, "the prompt is None; expected a text"),
        ("demo", b"hello", {}, "the prompt is b'hello'; expected a text"),
        ("demo", "hello", {"deadline": "5m"}, "deadline must be a number of seconds, more than 0, not '5m'"),
        ("demo", "hello", {"env": {"KEY": 5}}, "env: KEY is of the type int; expected a text"),
        ("demo", "hello", {"on_permission": "ask"}, "on_permission is 'ask'; expected a function"),
        ("demo", "hello", {"limits": 5}, "limits is 5; expected Limits"),
    ],
)
async def test_a_setting_of_the_wrong_type_is_named(
    tmp_path: Path, agent: Any, prompt: Any, given: dict[str, Any], says: str
) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(InputError, match=re.escape(says)):
            await run(agent, prompt, cwd=tmp_path, **given)


async def test_a_command_is_an_agent(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dragoman.agents.demo"]
    async with asyncio.timeout(TIMEOUT_S):
        result = await run(command, "hello", cwd=tmp_path, env={"DRAGOMAN_DEMO_HOME": str(tmp_path / "demo")})
        assert result.status == "success"
        assert (tmp_path / "demo").exists()


async def test_the_agent_works_in_the_sessions_folder(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text("import os\nasync def answer(turn):\n    await turn.say(os.getcwd())\n")
    work = tmp_path / "work"
    work.mkdir()
    async with asyncio.timeout(TIMEOUT_S):
        result = await run([sys.executable, "-m", "dragoman.testing", f"{script}:answer"], "go", cwd=work)
        assert result.text == str(work)


async def test_a_client_closes_all_it_opened(tmp_path: Path) -> None:
    client = LocalClient()
    port: ports.AgentClient = client
    assert port is client
    async with asyncio.timeout(TIMEOUT_S):
        gone = await client.open("demo", config(workspace=Workspace(tmp_path)))
        await gone.close()
        sessions = [await client.open("demo", config(workspace=Workspace(tmp_path))) for _ in range(2)]
        assert client._sessions == sessions
        await client.close()
        assert [session.status() for session in sessions] == ["error", "error"]


async def test_the_process_ends_with_its_session_also_when_it_hangs(tmp_path: Path) -> None:
    limits = dragoman.Limits(cancel_timeout=0.05, close_timeout=0.05)
    async with asyncio.timeout(TIMEOUT_S):
        async with open_session(demo_spec(tmp_path / "demo"), cwd=tmp_path, limits=limits) as session:
            hanging = session.run("hang")
            async for _ in hanging:
                break
        assert (await hanging).status == "cancelled"


async def test_a_crash_of_a_real_process_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), open_session(demo_spec(tmp_path / "demo"), cwd=tmp_path) as session:
        with pytest.raises(AgentCrashed, match="exit code 3") as failed:
            await session.run("crash")
        assert "crashing as asked" in failed.value.stderr
        assert failed.value.result.text.startswith("My process ends")
        assert session.status() == "error"


async def test_an_address_that_cannot_be_opened_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises((InputError, ConfigError), match="no-such-preset"):
        await open_session("no-such-preset", cwd=tmp_path)
    with pytest.raises(InputError, match="access"):
        await open_session("demo", cwd=tmp_path, access="everything")
    with pytest.raises(InputError, match="no-such-folder"):
        await open_session("demo", cwd=tmp_path / "no-such-folder")
    with pytest.raises(CommandNotFound):
        await open_session(AgentSpec(command=["no-such-agent-anywhere"]), cwd=tmp_path)


async def test_an_environment_variable_reaches_the_agent_and_none_removes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEN", "away")
    script = tmp_path / "agent.py"
    script.write_text(
        "from os import environ\n"
        "async def answer(turn):\n"
        "    await turn.say(environ.get('GIVEN', '-') + environ.get('TAKEN', '-'))\n"
    )
    command = [sys.executable, "-m", "dragoman.testing", f"{script}:answer"]
    async with asyncio.timeout(TIMEOUT_S):
        result = await run(command, "go", cwd=tmp_path, env={"GIVEN": "here", "TAKEN": None})
        assert result.text == "here-"
    assert os.environ["TAKEN"] == "away"


async def test_a_caller_that_gives_up_waiting_for_the_end_leaves_no_process(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        session = await open_session("demo", cwd=tmp_path)
        assert isinstance(session._runtime, AgentRuntime)
        link = session._runtime._link
        assert link is not None
        closing = asyncio.ensure_future(session.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        assert await link.wait() == 0
        await session.close()


def test_an_agent_elsewhere_is_offered_the_same_when_its_session_is_resumed(tmp_path: Path) -> None:
    spec = AgentSpec(
        url="ws://127.0.0.1:1/acp", name="there", read_files=True, auth_method="key", headers={"X-Key": "1"}
    )
    handle = handle_of(spec, config(workspace=Workspace(tmp_path)), "s", "a", SessionFold(), system_prompt_sent=False)
    again = LocalClient(headers={"X-Key": "1"}).spec_of_handle(handle)
    assert again == spec
