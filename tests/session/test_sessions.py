"""Many sessions on one agent: listed, forked, deleted, closed, side by side."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.errors import InvalidFrame, SessionBusy
from dragoman.record.events import Event
from dragoman.testing.memory import config, runtime_of, session_of
from dragoman.testing.scripted import ReceivedRequest, ScriptedAgent, Turn


def info(number: int) -> dict[str, str]:
    return {"sessionId": f"s{number}", "cwd": "/"}


async def listed(pages: dict[str | None, Any], **options: Any) -> tuple[list[str], ScriptedAgent]:
    async def answer(request: ReceivedRequest) -> object:
        return pages[request.params.get("cursor")]

    agent = ScriptedAgent(capabilities={"sessionCapabilities": {"list": {}}}, answers={"session/list": answer})
    async with runtime_of(agent) as runtime:
        return [found.session_id async for found in runtime.list_sessions(**options)], agent


async def test_all_pages_are_listed() -> None:
    pages = {
        None: {"sessions": [info(1), info(2)], "nextCursor": "x"},
        "x": {"sessions": [info(3)], "nextCursor": "y"},
        "y": {"sessions": []},
    }
    found, agent = await listed(pages, cwd="/repo")
    assert found == ["s1", "s2", "s3"]
    assert {request.params["cwd"] for request in agent.all_heard("session/list")} == {"/repo"}


async def test_a_cursor_that_repeats_ends_the_list() -> None:
    pages = {None: {"sessions": [info(1)], "nextCursor": "x"}, "x": {"sessions": [info(2)], "nextCursor": "x"}}
    found, agent = await listed(pages)
    assert found == ["s1", "s2"]
    assert len(agent.all_heard("session/list")) == 2


async def test_a_list_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InvalidFrame, match="session/list"):
        await listed({None: "nothing"})


async def test_a_fork_is_a_session_of_its_own() -> None:
    async def fork(request: ReceivedRequest) -> object:
        agent.update("forked", "session_info_update", title="told before the answer")
        return {"sessionId": "forked"}

    async def script(turn: Turn) -> None:
        await turn.say(turn.session_id)

    agent = ScriptedAgent(script, capabilities={"sessionCapabilities": {"fork": {}}}, answers={"session/fork": fork})
    async with runtime_of(agent) as runtime:
        first = await runtime.open_session(config())
        second = await runtime.fork_session(first)
        assert agent.heard[-1].session_id == "session-1"
        assert second.id != first.id
        assert (first.forked_from, second.forked_from) == (None, first.id)
        assert second.fold.title == "told before the answer"
        results = await asyncio.gather(first.run("go").result(), second.run("go").result())
        assert [result.text for result in results] == ["session-1", "forked"]
        await second.close()
        assert (await first.run("go")).text == "session-1"


async def test_a_session_is_deleted_by_the_agents_id() -> None:
    agent = ScriptedAgent(capabilities={"sessionCapabilities": {"delete": {}}}, answers={"session/delete": {}})
    async with runtime_of(agent) as runtime:
        await runtime.delete_session("old")
        assert agent.heard[-1].params == {"sessionId": "old"}


async def test_a_session_that_was_closed_hears_no_more() -> None:
    heard: list[object] = []
    agent = ScriptedAgent()
    async with runtime_of(agent) as runtime:
        session = await runtime.open_session(config(on_event=heard.append))
        await session.close()
        agent.update("session-1", "session_info_update", title="late")
        other = await runtime.open_session(config())
        await other.run("go")
        assert heard == []
        assert session.fold.title is None


async def test_runs_are_queued_in_order_and_never_overlap() -> None:
    async def script(turn: Turn) -> None:
        await turn.say(turn.text)
        await asyncio.sleep(0)

    agent = ScriptedAgent(script)
    async with session_of(agent) as session:
        runs = [session.run(f"{number}") for number in range(20)]
        assert [(await run).text for run in runs] == [f"{number}" for number in range(20)]
        assert not agent.overlapped
        assert len({run.id for run in runs}) == 20


async def test_a_program_that_chooses_not_to_queue_gets_an_error() -> None:
    async def script(turn: Turn) -> object:
        return await turn.wait_cancelled()

    refusals: list[str] = []

    def between(event: Event) -> None:
        """When nothing runs any more, and the next is about to."""
        if event.type == "run.completed" and event.run_id == run.id:
            with pytest.raises(SessionBusy) as refused:
                session.run("no", when_busy="raise")
            refusals.append(str(refused.value))

    async with session_of(script, on_event=between) as session:
        run = session.run("go")
        queued = session.run("next")
        with pytest.raises(SessionBusy, match=run.id):
            session.run("no", when_busy="raise")
        await run.cancel()
        await queued.cancel()
        assert [queued.id in refusal for refusal in refusals] == [True]
        assert session.status() == "idle"
