"""G5: a cancel is polite, keeps listening, ends in time, and the next run never overlaps it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import AgentCrashed, RequestFailed
from dragoman.host.permission import PermissionRequest
from dragoman.host.terminal.terminal import Terminal
from dragoman.journal.sqlite import MemoryJournal
from dragoman.record import events
from dragoman.session.run import Run
from dragoman.session.session import Session
from dragoman.session.spec import Limits
from dragoman.testing.clock import ManualClock
from dragoman.testing.memory import config, runtime_of, session_of
from dragoman.testing.scripted import ScriptedAgent, Turn
from dragoman.workspace import Workspace
from hub.journaled import journal_client_of


async def until(run: Run, kind: type[events.EventBase]) -> None:
    async for event in run:
        if isinstance(event, kind):
            return


async def goes_on(session: Session) -> None:
    """The session is as good as new."""
    assert session.status() == "idle"
    assert (await session.run("hello")).text == "hello"


async def echo(turn: Turn) -> str:
    await turn.say(turn.text)
    return "end_turn"


async def test_a_streaming_run_is_cancelled_and_its_last_updates_are_stored() -> None:
    async def script(turn: Turn) -> object:
        if turn.text != "go":
            return await echo(turn)
        while not turn.cancelled.is_set():
            await turn.say("word ")
            await asyncio.sleep(0)
        await turn.say("last words")
        return "cancelled"

    agent = ScriptedAgent(script)
    async with session_of(agent) as session:
        run = session.run("go")
        await until(run, events.AssistantDelta)
        await run.cancel()
        result = await run
        assert (result.status, result.stop_reason) == ("cancelled", "cancelled")
        assert result.text.endswith("last words")
        assert len(agent.all_heard("session/cancel")) == 1
        await goes_on(session)
        assert not agent.overlapped


async def test_a_run_is_cancelled_while_its_tool_runs() -> None:
    async def script(turn: Turn) -> object:
        if turn.text != "go":
            return await echo(turn)
        await turn.tool("t", status="in_progress")
        await turn.cancelled.wait()
        await turn.tool_update("t", status="failed")
        return "cancelled"

    async with session_of(script) as session:
        run = session.run("go")
        await until(run, events.ToolCall)
        await run.cancel()
        result = await run
        assert result.status == "cancelled"
        assert [call.status for call in result.tool_calls] == ["failed"]
        await goes_on(session)


async def test_a_waiting_permission_is_answered_cancelled() -> None:
    answers: list[str | None] = []
    was_asked = asyncio.Event()

    async def script(turn: Turn) -> object:
        if turn.text != "go":
            return await echo(turn)
        answers.extend(await asyncio.gather(turn.ask_permission(toolCallId="a"), turn.ask_permission(toolCallId="b")))
        answers.append(await turn.ask_permission("one more, on its way when the cancel came"))
        return await turn.wait_cancelled()

    async def ask(request: PermissionRequest) -> bool:
        was_asked.set()
        await asyncio.Event().wait()
        return True

    heard: list[events.Event] = []
    async with session_of(script, on_permission=ask, on_event=heard.append) as session:
        run = session.run("go")
        await was_asked.wait()
        assert session.status() == "waiting"
        await run.cancel()
        assert answers == [None, None, None]
        resolved = [event for event in heard if isinstance(event, events.PermissionResolved)]
        assert [(event.outcome, event.decided_by) for event in resolved] == [("cancelled", "cancel")] * 3
        assert (await run).status == "cancelled"
        await goes_on(session)


async def test_a_queued_run_never_reaches_the_agent() -> None:
    async def script(turn: Turn) -> object:
        if turn.text != "go":
            return await echo(turn)
        return await turn.wait_cancelled()

    agent = ScriptedAgent(script)
    async with session_of(agent) as session:
        first, second, third = session.run("go"), session.run("never"), session.run("hello")
        await second.cancel()
        seen_events = [event async for event in second]
        assert [event.type for event in seen_events] == ["run.completed"]
        result = await second
        assert (result.status, result.text) == ("cancelled", "")
        await first.cancel()
        assert (await third).text == "hello"
        assert [request.params["prompt"][0]["text"] for request in agent.all_heard("session/prompt")] == ["go", "hello"]
        assert not agent.overlapped


async def test_cancelling_the_session_cancels_the_queue_too() -> None:
    async def script(turn: Turn) -> str:
        return await turn.wait_cancelled()

    agent = ScriptedAgent(script)
    async with session_of(agent) as session:
        runs = [session.run("go"), session.run("never"), session.run("never")]
        await session.cancel()
        assert [(await run).status for run in runs] == ["cancelled"] * 3
        assert len(agent.all_heard("session/prompt")) == 1


async def test_an_agent_that_answers_a_cancel_with_an_error_did_as_it_was_asked() -> None:
    async def script(turn: Turn) -> object:
        if turn.text != "go":
            return await echo(turn)
        await turn.say("half")
        await turn.cancelled.wait()
        return turn.refuse(-32603, "aborted")

    async with session_of(script) as session:
        run = session.run("go")
        await until(run, events.AssistantDelta)
        await run.cancel()
        result = await run
        assert (result.status, result.text) == ("cancelled", "half")
        await goes_on(session)


async def test_a_cancelled_turn_that_comes_back_as_finished_is_cancelled() -> None:
    """goose 1.34.0 ends a cancelled turn with `end_turn`."""

    async def script(turn: Turn) -> object:
        await turn.say("all of it")
        await turn.cancelled.wait()
        return "end_turn"

    async with session_of(script) as session:
        run = session.run("go")
        await until(run, events.AssistantDelta)
        await run.cancel()
        result = await run
        assert (result.status, result.stop_reason, result.text) == ("cancelled", "end_turn", "all of it")


async def test_an_agent_that_ignores_a_cancel_is_ended_and_other_sessions_get_the_reason() -> None:
    async def script(turn: Turn) -> None:
        await turn.say("working")
        await turn.never()

    agent, clock = ScriptedAgent(script), ManualClock()
    async with runtime_of(agent, limits=Limits(cancel_timeout=60.0, close_timeout=0.05), clock=clock) as runtime:
        deaf, other, idle = [await runtime.open_session(config()) for _ in range(3)]
        cancelled, cut = deaf.run("go"), other.run("go")
        waiting = other.run("never")
        await until(cut, events.AssistantDelta)
        await until(cancelled, events.AssistantDelta)
        cancelling = asyncio.ensure_future(cancelled.cancel())
        await clock.wait_for_timers()
        clock.advance(60.0)
        await cancelling
        result = await cancelled
        assert (result.status, result.text) == ("cancelled", "working")
        with pytest.raises(AgentCrashed, match="did not stop within 60 s") as interrupted:
            await cut
        assert interrupted.value.result.text == "working"
        assert interrupted.value.exit_code == -2  # SIGINT was enough
        with pytest.raises(AgentCrashed, match="did not stop"):
            await waiting
        assert [session.status() for session in (deaf, other, idle)] == ["error", "error", "error"]
        assert other.fold.runs[cut.id].status == "interrupted"
        assert deaf.fold.runs[cancelled.id].status == "cancelled"
        with pytest.raises(AgentCrashed, match="did not stop"):
            idle.run("go")
        assert len(agent.all_heard("session/cancel")) == 1


async def test_leaving_the_block_cancels_also_when_it_is_left_by_an_error() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("working")
        return await turn.wait_cancelled()

    agent = ScriptedAgent(script)
    async with session_of(agent) as session:
        run = session.run("go")

        async def fail() -> None:
            async with run:
                async for _ in run:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert run.done
        assert (await run).status == "cancelled"
        assert len(agent.all_heard("session/cancel")) == 1


async def test_cancelling_the_task_that_awaits_cancels_the_run() -> None:
    async def script(turn: Turn) -> object:
        return await turn.wait_cancelled()

    agent = ScriptedAgent(script)
    async with session_of(agent) as session:
        run = session.run("go")
        waiting = asyncio.ensure_future(run)
        await agent.hears("session/prompt")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await agent.hears("session/cancel")
        assert (await run).status == "cancelled"


async def test_the_next_run_waits_for_the_end_of_the_cancelled_one() -> None:
    release = asyncio.Event()

    async def script(turn: Turn) -> object:
        if turn.text != "go":
            return await echo(turn)
        await turn.cancelled.wait()
        await release.wait()
        return "cancelled"

    agent = ScriptedAgent(script)
    async with session_of(agent) as session:
        first = session.run("go")
        cancelling = asyncio.ensure_future(first.cancel())
        await agent.hears("session/cancel")
        second = session.run("hello")
        assert not second.done
        assert len(agent.all_heard("session/prompt")) == 1
        release.set()
        await cancelling
        assert (await second).text == "hello"
        assert not agent.overlapped


async def test_cancelling_twice_asks_once_and_after_the_end_nothing() -> None:
    async def script(turn: Turn) -> object:
        return await turn.wait_cancelled()

    agent = ScriptedAgent(script)
    async with session_of(agent) as session:
        run = session.run("go")
        await asyncio.gather(run.cancel(), run.cancel(), session.cancel())
        await run.cancel()
        await session.cancel()
        assert len(agent.all_heard("session/cancel")) == 1


async def test_a_permission_that_the_agent_withdraws_is_forgotten() -> None:
    was_asked = asyncio.Event()

    async def script(turn: Turn) -> object:
        task = asyncio.ensure_future(turn.ask_permission())
        await was_asked.wait()
        task.cancel()  # sends $/cancel_request, as Claude and Codex do
        await asyncio.wait([task])
        await turn.say("never mind")
        return None

    async def ask(request: PermissionRequest) -> bool:
        was_asked.set()
        await asyncio.Event().wait()
        return True

    async with session_of(script, on_permission=ask) as session:
        seen_events = [event async for event in session.run("go")]
        assert session.status() == "idle"
        [resolved] = [event for event in seen_events if isinstance(event, events.PermissionResolved)]
        assert (resolved.outcome, resolved.decided_by) == ("failed", "cancel")


async def test_a_failed_prompt_is_no_cancel() -> None:
    async def script(turn: Turn) -> object:
        turn.refuse(-32603, "no model", {"details": "the key is missing"})

    async with session_of(script) as session:
        with pytest.raises(RequestFailed, match=r"no model.*the key is missing"):
            await session.run("go")


# -- commands that the agent started through us


async def start_command(turn: Turn) -> str:
    """Start a command that never ends by itself."""
    params = {"sessionId": turn.session_id, "command": "tail", "args": ["-f", "/dev/null"]}
    terminal: str = (await turn.agent.request("terminal/create", params))["terminalId"]
    return terminal


async def started_terminal(session: Session, run: Run) -> Terminal:
    async for event in run:
        if isinstance(event, events.TerminalStarted):
            terminal = session.terminal(event.terminal_id)
            assert terminal is not None
            return terminal
    raise AssertionError("no command was started")


def leaving(stop_reason: str) -> ScriptedAgent:
    """Return an agent that does not end its command when it is cancelled, as goose 1.34.0."""

    async def script(turn: Turn) -> object:
        if turn.text != "go":
            return await echo(turn)
        await start_command(turn)
        await turn.cancelled.wait()
        return stop_reason

    return ScriptedAgent(script)


@pytest.mark.parametrize("is_journaled", [False, True], ids=["without journal", "with journal"])
@pytest.mark.parametrize("stop_reason", ["cancelled", "end_turn"])
async def test_a_command_ends_with_the_cancelled_run_that_started_it(
    tmp_path: Path, stop_reason: str, is_journaled: bool
) -> None:
    heard: list[events.Event] = []
    runtime: dict[str, Any] = {"journal_client": await journal_client_of(MemoryJournal())} if is_journaled else {}
    settings: dict[str, Any] = {"workspace": Workspace(tmp_path), "access": "full", "on_event": heard.append}
    async with session_of(leaving(stop_reason), runtime=runtime, **settings) as session:
        run = session.run("go")
        terminal = await started_terminal(session, run)
        assert terminal.exit_status is None
        await run.cancel()
        assert terminal.ended
        assert (await run).status == "cancelled"
        await goes_on(session)
        assert [row.status for row in session.fold.terminals.values()] == ["killed"]
    [exited] = [event for event in heard if isinstance(event, events.TerminalExited)]
    assert exited.status == "killed"


async def test_an_agent_that_waits_for_its_command_can_end_the_cancelled_run(tmp_path: Path) -> None:
    async def script(turn: Turn) -> object:
        if turn.text != "go":
            return await echo(turn)
        terminal_id = await start_command(turn)
        params = {"sessionId": turn.session_id, "terminalId": terminal_id}
        ended.append(await turn.agent.request("terminal/wait_for_exit", params))
        return "cancelled"

    ended: list[object] = []
    async with session_of(script, workspace=Workspace(tmp_path), access="full") as session:
        run = session.run("go")
        await started_terminal(session, run)
        await run.cancel()
        assert ended == [{"signal": "SIGTERM"}]
        await goes_on(session)


async def test_a_command_ends_before_a_cancelled_run_that_the_agent_ends_for_another_reason(tmp_path: Path) -> None:
    async with session_of(leaving("max_tokens"), workspace=Workspace(tmp_path), access="full") as session:
        run = session.run("go")
        terminal = await started_terminal(session, run)
        await run.cancel()
        assert terminal.ended
        await goes_on(session)


async def test_the_next_run_begins_after_the_commands_of_the_cancelled_one(tmp_path: Path) -> None:
    async with session_of(leaving("cancelled"), workspace=Workspace(tmp_path), access="full") as session:
        run = session.run("go")
        terminal = await started_terminal(session, run)
        following = session.run("hello")
        session.cancel_run(run)
        async for event in following:
            if isinstance(event, events.RunStarted):
                assert terminal.ended
        assert (await following).text == "hello"


async def test_a_command_that_an_earlier_run_left_running_goes_on(tmp_path: Path) -> None:
    async def script(turn: Turn) -> object:
        if turn.text == "start":
            await turn.say(await start_command(turn))
            return None
        return await turn.wait_cancelled()

    async with session_of(script, workspace=Workspace(tmp_path), access="full") as session:
        terminal = session.terminal((await session.run("start")).text)
        assert terminal is not None
        run = session.run("wait")
        await until(run, events.RunStarted)
        await run.cancel()
        assert terminal.exit_status is None
    assert terminal.ended  # with the session


async def test_a_cancelled_run_of_a_fork_leaves_the_commands_of_the_original_running(tmp_path: Path) -> None:
    async def script(turn: Turn) -> object:
        await start_command(turn)
        return await turn.wait_cancelled()

    forks: dict[str, Any] = {"sessionCapabilities": {"fork": {}}}
    agent = ScriptedAgent(script, capabilities=forks, answers={"session/fork": {"sessionId": "fork"}})
    async with runtime_of(agent) as runtime:
        original = await runtime.open_session(config(workspace=Workspace(tmp_path), access="full"))
        fork = await runtime.fork_session(original)
        runs = [session.run("go") for session in (original, fork)]
        first = await started_terminal(original, runs[0])
        second = await started_terminal(fork, runs[1])
        await runs[1].cancel()
        assert (first.ended, second.ended) == (False, True)


async def test_commands_outlive_a_cancelled_run_where_the_user_keeps_them(tmp_path: Path) -> None:
    async def script(turn: Turn) -> object:
        if turn.text != "go":
            return await echo(turn)
        params = {"sessionId": turn.session_id, "command": "cat", "args": ["pipe"]}
        await turn.agent.request("terminal/create", params)
        return await turn.wait_cancelled()

    os.mkfifo(tmp_path / "pipe")
    settings: dict[str, Any] = {"workspace": Workspace(tmp_path), "access": "full", "keep_terminals": True}
    async with session_of(script, **settings) as session:
        run = session.run("go")
        terminal = await started_terminal(session, run)
        pipe = await asyncio.to_thread(os.open, tmp_path / "pipe", os.O_WRONLY)  # the command reads it
        await run.cancel()
        await goes_on(session)
        os.close(pipe)
        assert (await terminal.wait()).exit_code == 0


async def test_a_command_ends_when_the_agent_itself_cancels_the_run(tmp_path: Path) -> None:
    async def script(turn: Turn) -> object:
        await start_command(turn)
        return "cancelled"

    async with session_of(script, workspace=Workspace(tmp_path), access="full") as session:
        run = session.run("go")
        terminal = await started_terminal(session, run)
        assert (await run).status == "cancelled"
        assert terminal.ended


async def test_a_command_ends_when_its_agent_dies(tmp_path: Path) -> None:
    async def script(turn: Turn) -> object:
        await start_command(turn)
        turn.crash(3)

    async with session_of(script, workspace=Workspace(tmp_path), access="full") as session:
        run = session.run("go")
        terminal = await started_terminal(session, run)
        with pytest.raises(AgentCrashed):
            await run
        assert terminal.ended
