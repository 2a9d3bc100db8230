"""The scripted agent, in memory and as a process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.errors import AgentCrashed, RequestFailed
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec
from dragoman.testing import ScriptedAgent, Turn, command_of, play, session_of
from dragoman.testing.memory import TIMEOUT_S, config
from dragoman.workspace import Workspace


async def test_a_script_is_called_for_each_prompt() -> None:
    async def script(turn: Turn) -> str:
        await turn.say(f"{turn.session_id}: {turn.text}")
        return "max_tokens" if turn.text == "b" else "end_turn"

    async with session_of(script) as session:
        assert (await session.run("a")).text == "session-1: a"
        seen_events = [event async for event in session.run("b")]
        assert seen_events[-1].type == "run.completed"
    assert (await play(ScriptedAgent()))[0].type == "run.started"


async def test_what_it_heard_is_kept_and_can_be_waited_for() -> None:
    agent = ScriptedAgent(answers={"session/set_mode": {}})
    async with session_of(agent) as session:
        waiting = asyncio.ensure_future(agent.hears("session/prompt", 2))
        await session.run("one")
        assert not waiting.done()
        await session.run("two")
        assert (await waiting).params["prompt"] == [{"type": "text", "text": "two"}]
        assert (await agent.hears("session/prompt")).params["prompt"][0]["text"] == "one"
        assert [received.method for received in agent.heard] == [
            "initialize",
            "session/new",
            "session/prompt",
            "session/prompt",
        ]


async def test_it_notices_prompts_that_overlap() -> None:
    async def script(turn: Turn) -> None:
        await turn.say("hi")
        await asyncio.sleep(0)

    agent = ScriptedAgent(script)
    async with session_of(agent) as session:
        await session.run("one")
        assert not agent.overlapped
        assert isinstance(session._runtime, AgentRuntime)
        connection = session._runtime._connection
        assert connection is not None
        params = {"sessionId": "session-1", "prompt": []}
        await asyncio.gather(connection.request("session/prompt", params), connection.request("session/prompt", params))
        assert agent.overlapped


async def test_what_it_has_no_answer_to_is_refused() -> None:
    async with session_of(ScriptedAgent()) as session:
        with pytest.raises(RequestFailed, match="-32601"):
            await session._runtime.request("session/unheard_of", {})


SCRIPT = """
import asyncio
from dragoman.testing import ScriptedAgent

async def script(turn):
    if turn.text == "crash":
        turn.agent.complain("as you wish")
        turn.crash(5)
    if turn.text == "ask":
        await turn.say(str(await turn.ask_permission()))
        return
    await turn.say("in a process")

agent = ScriptedAgent(script, initialize={"agentInfo": {"name": "mine", "version": "1"}})
"""


@pytest.mark.parametrize("name", ["script", "agent"])
async def test_the_same_script_runs_as_a_process(name: str, tmp_path: Path) -> None:
    path = tmp_path / "agents.py"
    path.write_text(SCRIPT)
    settings = config(workspace=Workspace(tmp_path), access="full")
    async with asyncio.timeout(TIMEOUT_S), AgentRuntime(AgentSpec(command=command_of(f"{path}:{name}"))) as runtime:
        assert runtime.capabilities().agent_name == ("mine" if name == "agent" else None)
        session = await runtime.open_session(settings)
        assert (await session.run("go")).text == "in a process"
        assert (await session.run("ask")).text == "allow"
        with pytest.raises(AgentCrashed, match="exit code 5") as failed:
            await session.run("crash")
        assert failed.value.stderr == "as you wish"


@pytest.mark.parametrize(("argument", "says"), [("nothing", "usage"), ("agents.py:nobody", "defines no 'nobody'")])
def test_a_script_that_is_not_there_is_named(argument: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text("")
    command = [sys.executable, "-m", "dragoman.testing", argument]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ran.returncode == 2
    assert says in ran.stderr
