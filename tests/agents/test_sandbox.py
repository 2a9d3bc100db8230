"""Real agents work in a sandbox whose network is off but for their model, and cannot do more than it allows."""

from __future__ import annotations

import asyncio
import json
from typing import Literal

import pytest

from dragoman import PolicyRule, events
from dragoman.config import load
from dragoman.evaluation.attempt import SERVER
from dragoman.evaluation.evaluate import evaluate
from dragoman.evaluation.response import NO_RETRY
from dragoman.session.client import spec_for_session
from workspace.sandbox_support import machine_with

from .acts import all_events, allow
from .catalog import AGENTS, RealAgent
from .conftest import TIMEOUT_S, Stage

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FIVE = [agent for agent in AGENTS if agent.id in ("claude", "opencode", "codex", "gemini", "goose")]


NOT_WITHOUT_NAMESPACES = {
    "opencode": "it talks to itself over a port of loopback, which is closed with the network off",
    "gemini": "it runs commands in a terminal of its own, which it cannot make",
}


@pytest.mark.parametrize("agent", FIVE, ids=lambda agent: agent.id, indirect=True)
@pytest.mark.parametrize("mechanism", ["bubblewrap", "landlock", "landlock without namespaces"])
async def test_an_agent_works_in_a_sandbox_and_gets_no_further(
    agent: RealAgent, mechanism: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = machine_with(mechanism)
    monkeypatch.setattr("dragoman.workspace.sandbox.this_machine", lambda: machine)
    if (reason := NOT_WITHOUT_NAMESPACES.get(agent.id)) and mechanism == "landlock without namespaces":
        pytest.skip(reason)
    key, planted = stage.home / ".ssh/id_ed25519", stage.home.parent / "planted.txt"
    key.parent.mkdir()
    key.write_text("the secret\n")
    config = stage.config(
        allow,
        sandbox="bubblewrap" if mechanism == "bubblewrap" else "landlock",
        network="hosts",
        rules=[PolicyRule("allow", host=stage.server.url.removeprefix("http://"))],
    )
    stage.offers["sandbox"] = spec_for_session(stage.spec, config, load()).sandbox
    command = f"echo made > made.txt; cat {key} > stolen.txt; echo x > {planted}; echo end >> made.txt"
    async with asyncio.timeout(TIMEOUT_S), stage.runtime() as runtime:
        report = runtime.capabilities().sandbox
        assert report is not None
        assert report.network == "hosts"
        session = await runtime.open_session(config)
        seen = await all_events(session.run(f"[[say:Doing.]]{stage.agent.run(command)}[[say:It is done.]]"))
    made = stage.folder / "made.txt"
    assert made.exists(), [event for event in seen if isinstance(event, events.ToolResult)]
    assert made.read_text() == "made\nend\n"
    assert (stage.folder / "stolen.txt").read_text() == ""
    assert not planted.exists()
    last = seen[-1]
    assert isinstance(last, events.RunCompleted)
    assert "It is done." in last.text


@pytest.mark.parametrize("agent", FIVE, ids=lambda agent: agent.id, indirect=True)
@pytest.mark.parametrize("mechanism", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_the_tools_of_an_evaluation_are_reached_with_the_network_off(
    agent: RealAgent, mechanism: str, transport: Literal["http", "stdio"], stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = machine_with(mechanism)
    monkeypatch.setattr("dragoman.workspace.sandbox.this_machine", lambda: machine)
    stage.more_env = stage.agent.mcp_env
    async with asyncio.timeout(TIMEOUT_S):
        response = await evaluate(
            stage.spec,
            stage.agent.call_mcp(SERVER, "structured_output", {"value": [1, 2]}),
            output_type=list[int],
            cwd=stage.folder,
            max_rounds=1,
            retry=NO_RETRY,
            transport=transport,
            sandbox=mechanism,
            network="hosts",
            rules=[PolicyRule("allow", host=stage.server.url.removeprefix("http://"))],
        )
    assert response.output == [1, 2]


@pytest.mark.parametrize("agent", [agent for agent in FIVE if agent.id == "codex"], ids=["codex"], indirect=True)
@pytest.mark.parametrize("mechanism", ["bubblewrap", "landlock", "landlock without namespaces"])
async def test_an_agent_leaves_its_own_sandbox_off_inside_ours(
    agent: RealAgent, mechanism: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codex makes a sandbox of its own for each command that it does not ask about; inside of ours it could not."""
    machine = machine_with(mechanism)
    monkeypatch.setattr("dragoman.workspace.sandbox.this_machine", lambda: machine)
    stage.more_env["INITIAL_AGENT_MODE"] = ""  # as a user has it
    config = stage.config(
        allow,
        sandbox="bubblewrap" if mechanism == "bubblewrap" else "landlock",
        network="hosts",
        rules=[PolicyRule("allow", host=stage.server.url.removeprefix("http://"))],
    )
    stage.offers["sandbox"] = spec_for_session(stage.spec, config, load()).sandbox
    planted = stage.home.parent / "planted.txt"
    command = f"echo made > made.txt; echo x > {planted}"
    async with asyncio.timeout(TIMEOUT_S), stage.runtime() as runtime:
        session = await runtime.open_session(config)
        call = json.dumps({"cmd": command})
        seen = await all_events(session.run(f"[[tool:exec_command {call}]][[say:It is done.]]"))
    assert "permission.requested" not in [event.type for event in seen]
    assert (stage.folder / "made.txt").exists(), [event for event in seen if isinstance(event, events.ToolResult)]
    assert not planted.exists()
