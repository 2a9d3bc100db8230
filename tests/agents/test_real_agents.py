"""Dragoman drives agents that it did not write, each case in a process of its own, and leaves none."""

from __future__ import annotations

import asyncio
import time

import pytest

import dragoman
from dragoman import PermissionRequest, events
from dragoman.errors import AgentCrashed, DragomanError, RequestFailed
from dragoman.host.permission import PermissionAnswer

from .acts import Tool, all_events, allow, refuse
from .conftest import TIMEOUT_S, Stage, processes

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def needs_asking(stage: Stage) -> None:
    if not stage.agent.asks:
        pytest.skip(f"{stage.agent.id} never asks for permission (quirk never-asks)")


async def test_an_allowed_tool_call_is_carried_out(stage: Stage) -> None:
    async with stage.session(allow) as session:
        seen = await all_events(
            session.run(f"[[say:Doing.]]{stage.agent.run('echo made > made.txt')}[[say:It is done.]]")
        )
        kinds = [event.type for event in seen]
        if stage.agent.asks:
            requested, answered = kinds.index("permission.requested"), kinds.index("permission.resolved")
            assert kinds.index("tool.call") < requested < answered < kinds.index("tool.result")
        else:
            assert "permission.requested" not in kinds
        results = [event for event in seen if isinstance(event, events.ToolResult)]
        assert [result.status for result in results] == ["completed"]
        assert (stage.folder / "made.txt").read_text() == "made\n"
        last = seen[-1]
        assert isinstance(last, events.RunCompleted)
        assert (last.status, last.text) == ("success", "Doing.\n\nIt is done.")


async def test_a_refused_tool_call_is_not_carried_out(stage: Stage) -> None:
    needs_asking(stage)
    async with stage.session(refuse) as session:
        seen = await all_events(
            session.run(f"[[say:Doing.]]{stage.agent.run('echo made > made.txt')}[[say:It went on.]]")
        )
        resolved = [event for event in seen if isinstance(event, events.PermissionResolved)]
        assert [event.option_kind for event in resolved] == ["reject_once"]
        results = [event.status for event in seen if isinstance(event, events.ToolResult)]
        assert results == (["failed"] if stage.agent.tells_of_refusal else [])
        assert not (stage.folder / "made.txt").exists()
        last = seen[-1]
        assert isinstance(last, events.RunCompleted)
        assert last.status == ("cancelled" if stage.agent.after_refusal == "cancelled" else "success")
        assert last.text.startswith("Doing.")
        assert ("It went on." in last.text) == (stage.agent.after_refusal == "goes-on")
        assert session.status() == "idle"


async def test_an_always_allowed_action_is_not_asked_about_again(stage: Stage) -> None:
    needs_asking(stage)

    async def allow_always(request: PermissionRequest) -> PermissionAnswer:
        return request.allow(always=True)

    async with asyncio.timeout(TIMEOUT_S), stage.session(allow_always) as session:
        prompt = f"{stage.agent.run('install -m 644 /dev/null made.txt')}[[say:It is done.]]"
        resolved: list[str | None] = []
        for _ in range(2):
            seen = await all_events(session.run(prompt))
            # The agent's own questions: kimi names no command in its own, and runs it through us with variables set,
            # so that ours about it cannot be remembered.
            answered = [event for event in seen if isinstance(event, events.PermissionResolved)]
            resolved += [event.option_kind for event in answered if event.origin == "agent"]
            assert (stage.folder / "made.txt").exists()
            (stage.folder / "made.txt").unlink()
        if resolved and resolved[0] != "allow_always":
            pytest.skip(f"{stage.agent.id} offers no allow_always for it")
        assert resolved == ["allow_always"]


async def test_a_run_is_cancelled_while_it_streams_and_the_next_one_works(stage: Stage) -> None:
    async with asyncio.timeout(TIMEOUT_S), stage.session() as session:
        run = session.run("[[slow:1000:0.05]]")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                break
        await run.cancel()
        result = await run
        assert result.status == "cancelled"
        assert "word1 " in result.text
        assert "word1000" not in result.text
        assert (await session.run("[[begin]][[say:After the cancel.]]")).text == "After the cancel."


async def test_a_run_is_cancelled_while_a_permission_waits(stage: Stage) -> None:
    needs_asking(stage)
    permission_requested = asyncio.Event()

    async def think_for_ever(request: PermissionRequest) -> bool:
        permission_requested.set()
        await asyncio.Event().wait()
        return True

    async with asyncio.timeout(TIMEOUT_S), stage.session(think_for_ever) as session:
        run = session.run(f"{stage.agent.run('echo made > made.txt')}[[say:It went on.]]")
        await permission_requested.wait()
        assert session.status() == "waiting"
        await run.cancel()
        assert (await run).status == "cancelled"
        assert not (stage.folder / "made.txt").exists()
        if not stage.agent.goes_on_after_question:
            with pytest.raises(RequestFailed):
                await session.run("[[begin]][[say:After the cancel.]]")
            pytest.skip(f"{stage.agent.id} is cancelled, but takes no further prompt in that session")
        assert (await session.run("[[begin]][[say:After the cancel.]]")).text == "After the cancel."


async def test_a_run_is_cancelled_while_a_tool_runs(stage: Stage) -> None:
    async with asyncio.timeout(TIMEOUT_S), stage.session(allow) as session:
        tool = Tool(stage.folder / "begun")
        run = session.run(f"{stage.agent.run(tool.command)}[[say:It went on.]]")
        task = asyncio.create_task(run.result())
        await tool.begun()
        await run.cancel()
        assert (await task).status == "cancelled"
        assert (await session.run("[[begin]][[say:After the cancel.]]")).text == "After the cancel."


async def test_closing_while_a_tool_runs_leaves_no_process(stage: Stage) -> None:
    """The fixture checks after every test that no process is left."""
    async with asyncio.timeout(TIMEOUT_S), stage.session(allow) as session:
        tool = Tool(stage.folder / "begun")
        task = asyncio.create_task(session.run(stage.agent.run(tool.command)).result())
        await tool.begun()
        assert len(processes()) > 1
    assert (await task).status == "cancelled"


async def made_before(stage: Stage) -> dragoman.SessionHandle:
    """Create a session with history whose process has ended, and wait until it can be loaded."""
    async with stage.session() as session:
        if not session.capabilities().load:
            pytest.skip(f"{stage.agent.id} does not offer loadSession")
        await session.run("[[say:The word is azure.]]")
    if stage.agent.load_after:  # the agent looks at the clock: there is no event to wait for
        await asyncio.sleep(stage.agent.load_after - time.time() % stage.agent.load_after)
    return session.snapshot()


async def test_a_loaded_session_has_its_history_and_its_memory(stage: Stage) -> None:
    async with asyncio.timeout(TIMEOUT_S + stage.agent.load_after):
        handle = await made_before(stage)
        async with stage.runtime() as runtime:
            session = await runtime.load_session(handle)
            assert session.id == handle.session_id
            messages = [(message.kind, message.text) for message in session.fold.messages]
            assert ("assistant", "The word is azure.") in messages
            assert any(kind == "user" and "azure" in text for kind, text in messages)
            assert (await session.run("[[say:Fresh.]]")).text == "Fresh."
            assert "The word is azure." in (await session.run("[[recall]]")).text


async def test_a_resumed_session_has_its_memory(stage: Stage) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with stage.session() as session:
            if not session.capabilities().resume:
                pytest.skip(f"{stage.agent.id} does not offer sessionCapabilities.resume")
            await session.run("[[say:The word is azure.]]")
            handle = session.snapshot().to_json()
        async with stage.runtime() as runtime:
            again = await runtime.resume_session(handle)
            assert "The word is azure." in (await again.run("[[recall]]")).text


async def test_open_session_opens_a_session_and_another_process_continues_it(stage: Stage) -> None:
    if stage.agent.load_after:
        pytest.skip(f"{stage.agent.id} cannot load a session that it has just made")
    async with asyncio.timeout(TIMEOUT_S):
        async with dragoman.open_session(stage.agent.id, cwd=stage.folder, env=stage.env) as session:
            await session.run("[[say:The word is azure.]]")
            handle = session.snapshot()
        assert not processes()
        async with dragoman.resume_session(handle.to_json(), env=stage.env) as session:
            assert "The word is azure." in (await session.run("[[recall]]")).text


async def test_the_agent_lists_its_sessions(stage: Stage) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with stage.session() as session:
            if not session.capabilities().list:
                pytest.skip(f"{stage.agent.id} does not offer sessionCapabilities.list")
            await session.run("[[say:Remember me.]]")
        async with stage.runtime() as runtime:
            listed = [info.session_id async for info in runtime.list_sessions(str(stage.folder))]
            assert session.agent_session_id in listed


@pytest.mark.parametrize("status", [400, 500])
async def test_a_model_error_ends_the_run_but_not_the_session(stage: Stage, status: int) -> None:
    async with asyncio.timeout(TIMEOUT_S), stage.session() as session:
        run = session.run(f"[[http:{status}]]")
        if status == 500 and stage.agent.retries_for_long:
            task = asyncio.create_task(run.result())
            await stage.requests.failed(2)
            await run.cancel()
            assert (await task).status == "cancelled"
        elif stage.agent.model_error == "error":
            with pytest.raises(DragomanError) as caught:
                await run
            assert not isinstance(caught.value, AgentCrashed)
        else:
            assert (await run).text
        assert session.status() == "idle"
        assert (await session.run("[[begin]][[say:Well again.]]")).text == "Well again."
