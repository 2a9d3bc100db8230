"""A real agent is killed: whatever it did, that is told, and no process of it is left."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from dragoman import PermissionRequest, events
from dragoman.errors import AgentCrashed

from .conftest import TIMEOUT_S, Stage

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def kill(stage: Stage) -> None:
    if stage.agent.wrapped:  # what is behind it would answer, and then end
        os.killpg(stage.leader, signal.SIGKILL)
    else:
        os.kill(stage.leader, signal.SIGKILL)  # not its children: they are ours to end


async def test_an_agent_that_is_killed_while_idle_is_reported(stage: Stage) -> None:
    heard: list[events.Error] = []
    gone = asyncio.Event()

    def hear(event: events.Event) -> None:
        if isinstance(event, events.Error):
            heard.append(event)
            gone.set()

    async with asyncio.timeout(TIMEOUT_S), stage.session(on_event=hear) as session:
        kill(stage)
        await gone.wait()
        assert [(error.kind, error.run_id) for error in heard] == [("AgentCrashed", None)]
        assert session.status() == "error"
        with pytest.raises(AgentCrashed):
            session.run("[[say:Are you there?]]")


async def test_an_agent_that_is_killed_in_a_run_is_reported_with_its_text_so_far(stage: Stage) -> None:
    async with asyncio.timeout(TIMEOUT_S), stage.session() as session:
        run = session.run("[[slow:1000:0.05]]")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                break
        kill(stage)
        with pytest.raises(AgentCrashed) as caught:
            await run
        assert caught.value.exit_code == -signal.SIGKILL
        assert "word1 " in caught.value.result.text
        assert session.status() == "error"


async def test_an_agent_that_is_killed_while_a_permission_waits_is_reported(stage: Stage) -> None:
    if not stage.agent.asks:
        pytest.skip(f"{stage.agent.id} never asks for permission (quirk never-asks)")
    permission_requested = asyncio.Event()

    async def think_for_ever(request: PermissionRequest) -> bool:
        permission_requested.set()
        await asyncio.Event().wait()
        return True

    async with asyncio.timeout(TIMEOUT_S), stage.session(think_for_ever) as session:
        run = session.run(f"{stage.agent.run('echo made > made.txt')}[[say:It went on.]]")
        task = asyncio.create_task(run.result())
        await permission_requested.wait()
        kill(stage)
        with pytest.raises(AgentCrashed):
            await task
        assert not (stage.folder / "made.txt").exists()
        assert session.status() == "error"
