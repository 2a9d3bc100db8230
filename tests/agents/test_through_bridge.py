"""Real agents behind a real server, driven by `dragoman.Client`: prompt, permission, cancel, restart and reload."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman import Client, PermissionRequest, events
from remote.real_server import real_server

from .acts import all_events, allow
from .catalog import AGENTS, RealAgent
from .conftest import TIMEOUT_S, Stage

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

THROUGH = [agent for agent in AGENTS if agent.id in ("opencode", "claude", "codex")]


@pytest.fixture(params=THROUGH, ids=lambda agent: agent.id)
def agent(request: pytest.FixtureRequest) -> RealAgent:
    chosen: RealAgent = request.param
    return chosen


@pytest.fixture
async def client(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """Of a server whose user has told it, in config.toml, how this agent is started."""
    home = tmp_path / "dragoman"
    home.mkdir()
    variables = {name: value for name, value in stage.env.items() if value is not None}
    for name in stage.env.keys() - variables.keys():
        monkeypatch.delenv(name, raising=False)
    lines = [f"[agents.{stage.agent.id}.env]", *(f"{name} = {json.dumps(value)}" for name, value in variables.items())]
    (home / "config.toml").write_text("\n".join(lines))
    async with real_server(home) as server, server.client() as client:
        yield client


async def test_a_prompt_is_answered_in_deltas_and_in_order(stage: Stage, client: Client) -> None:
    async with asyncio.timeout(TIMEOUT_S), client.open_session(stage.agent.id, cwd=stage.folder) as session:
        capabilities = session.capabilities()
        assert (capabilities.protocol_version, capabilities.agent_version) == (1, stage.agent.reported)
        seen = await all_events(session.run("[[say:One. Two. Three. Four.]]"))
        assert "".join(event.text for event in seen if isinstance(event, events.AssistantDelta)) == (
            "One. Two. Three. Four."
        )
        assert (seen[0].type, seen[-1].type) == ("run.started", "run.completed")
        handle = session.snapshot()
        assert (handle.agent, handle.session_id) == (stage.agent.id, session.id)
        assert handle.agent_session_id


@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "refused"])
async def test_a_permission_is_asked_of_the_program(stage: Stage, client: Client, allowed: bool) -> None:
    permissions: list[PermissionRequest] = []

    async def ask(request: PermissionRequest) -> bool:
        permissions.append(request)
        return allowed

    async with asyncio.timeout(TIMEOUT_S):
        async with client.open_session(stage.agent.id, cwd=stage.folder, on_permission=ask) as session:
            seen = await all_events(session.run(f"{stage.agent.run('echo made > made.txt')}[[say:It went on.]]"))
    assert (stage.folder / "made.txt").exists() == allowed
    resolved = [event for event in seen if isinstance(event, events.PermissionResolved) and event.origin == "agent"]
    assert permissions
    assert {event.decided_by for event in resolved} == {"callback"}
    assert {event.decision for event in resolved} == {"allow" if allowed else "deny"}


async def test_a_run_is_cancelled_and_the_session_goes_on(stage: Stage, client: Client) -> None:
    async with asyncio.timeout(TIMEOUT_S), client.open_session(stage.agent.id, cwd=stage.folder) as session:
        run = session.run("[[slow:400:0.05]]")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                break
        await run.cancel()
        assert (await run).status == "cancelled"
        assert (await session.run("[[begin]][[say:After the cancel.]]")).text == "After the cancel."


async def test_an_agent_is_restarted_and_remembers(stage: Stage, client: Client) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with client.open_session(stage.agent.id, cwd=stage.folder, on_permission=allow) as session:
            await session.run("The code word is heliotrope. [[say:Heard.]]")
            await session.restart(reload=True)
            stage.requests.seen.clear()
            assert (await session.run("[[begin]][[say:Again.]]")).text.endswith("Again.")
            assert stage.requests.had("heliotrope")
            assert [run.status for run in session.fold.runs.values()] == ["success", "success"]
            texts = [message.text for message in session.fold.messages if message.kind == "assistant"]
            assert texts[0] == "Heard."
            assert len(texts) == 2
