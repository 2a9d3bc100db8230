"""The host of a session, end to end: files, terminals, permissions, questions, rules."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.preset import load_preset
from dragoman.config import load
from dragoman.errors import InputError, RequestFailed
from dragoman.host.permission import PermissionRequest, answer_later
from dragoman.host.policy.rules import PolicyRule
from dragoman.host.question.question import Question, QuestionAnswer
from dragoman.proc._reaper_main import marked_processes
from dragoman.proc.reaper import reaper
from dragoman.record import events
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec, Limits, spec_of_preset
from dragoman.testing.clock import ManualClock
from dragoman.testing.demo import demo_spec
from dragoman.testing.memory import TIMEOUT_S, config, play, runtime_of, session_of
from dragoman.testing.scripted import ScriptedAgent, Turn
from dragoman.workspace import Workspace

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


# -- answers from elsewhere


async def test_a_program_answers_what_events_tell_it() -> None:
    async def script(turn: Turn) -> None:
        await turn.say(f"took {await turn.ask_permission()}")

    async with session_of(script, on_permission=answer_later) as session:
        run = session.run("go")
        async for event in run:
            if isinstance(event, events.PermissionRequested):
                assert session.status() == "waiting"
                assert await session.answer_permission(event.permission_id, "allow")
                assert not await session.answer_permission(event.permission_id, "reject")
            if isinstance(event, events.PermissionResolved):
                assert (event.decided_by, event.decision) == ("person", "allow")
                assert not await session.answer_permission(event.permission_id, "reject")
        assert (await run).text == "took allow"
        with pytest.raises(InputError, match="never asked 'nothing'"):
            await session.answer_permission("nothing", True)


async def test_a_question_about_a_file_can_be_answered_from_elsewhere(tmp_path: Path) -> None:
    async def script(turn: Turn) -> None:
        params = {"sessionId": turn.session_id, "path": str(tmp_path / "a.txt"), "content": "a\n"}
        await turn.agent.request("fs/write_text_file", params)

    async with session_of(script, workspace=Workspace(tmp_path), on_permission=answer_later) as session:
        seen = []
        async for event in session.run("go"):
            seen.append(type(event))
            if isinstance(event, events.PermissionRequested):
                assert (event.origin, event.title) == ("files", "Write a.txt")
                assert await session.answer_permission(event.permission_id, "allow")
            if isinstance(event, events.FileWritten):
                assert event.diff is not None
                assert (event.status, event.diff.new_text, event.decided_by) == ("done", "a\n", "person")
    assert [kind for kind in seen if kind.__name__.startswith(("Permission", "File"))] == [
        events.PermissionRequested,
        events.PermissionResolved,
        events.FileWritten,
    ]
    assert (tmp_path / "a.txt").read_text() == "a\n"


async def test_a_request_at_the_very_end_of_a_run_is_cancelled() -> None:
    answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    async def script(turn: Turn) -> None:
        async def late() -> None:
            answer.set_result(await turn.ask_permission())

        asking.append(asyncio.create_task(late()))
        await asyncio.sleep(0)  # it is written, and the end of the turn right behind it

    asking: list[asyncio.Task[None]] = []
    async with session_of(script, on_permission=answer_later) as session:
        await session.run("go")
        assert await answer is None
        assert session.status() == "idle"


async def test_a_permission_without_an_answer_is_denied_after_the_timeout() -> None:
    async def script(turn: Turn) -> None:
        await turn.say(f"took {await turn.ask_permission()}")

    clock = ManualClock()
    options = {"limits": Limits(permission_timeout=60.0), "clock": clock}
    async with session_of(script, runtime=options, on_permission=answer_later) as session:
        run = session.run("go")
        await clock.wait_for_timers()
        clock.advance(60.0)
        assert (await run).text == "took reject"


# -- rules


async def test_the_rules_of_a_run_hold_for_it_alone() -> None:
    async def script(turn: Turn) -> None:
        await turn.say(str(await turn.ask_permission(kind="execute", rawInput={"command": "make"})))

    async with session_of(script) as session:
        allowed = session.run("go", rules=[PolicyRule("allow", command="make")])
        denied = session.run("go")  # queued behind it
        assert (await allowed).text == "allow"
        assert (await denied).text == "reject"
        with pytest.raises(InputError, match="expected a list of PolicyRule"):
            session.run("go", rules="make")  # type: ignore[arg-type]


async def test_a_session_has_rules_of_its_own() -> None:
    async def script(turn: Turn) -> None:
        await turn.say(str(await turn.ask_permission(kind="execute", rawInput={"command": turn.text})))

    async with session_of(
        script, access="full", rules=(PolicyRule("deny", "no pushing", command="git push *"),)
    ) as session:
        assert (await session.run("git push origin main")).text == "reject"
        assert (await session.run("git status")).text == "allow"
        assert (await session.run("git status; git push origin")).text == "reject"


# -- questions


async def ask(turn: Turn, **fields: object) -> object:
    params = {"sessionId": turn.session_id, "mode": "form", "message": "Who?", "requestedSchema": FORM, **fields}
    return await turn.agent.request("elicitation/create", params)


async def test_a_question_is_answered_by_the_callback_and_reported_as_events() -> None:
    answers: list[object] = []

    async def script(turn: Turn) -> None:
        answers.append(await ask(turn))

    def on_question(question: Question) -> QuestionAnswer:
        return question.accept({"name": "Ada"})

    seen_events = await play(script, on_question=on_question)
    assert answers == [{"action": "accept", "content": {"name": "Ada"}}]
    [request] = [event for event in seen_events if isinstance(event, events.QuestionAsked)]
    [answered] = [event for event in seen_events if isinstance(event, events.QuestionAnswered)]
    assert (request.message, request.mode) == ("Who?", "form")
    assert (answered.action, answered.content, answered.decided_by) == ("accept", {"name": "Ada"}, "callback")


async def test_without_a_callback_questions_are_not_offered() -> None:
    refusals: list[int] = []

    async def script(turn: Turn) -> None:
        try:
            await ask(turn)
        except RequestFailed as failure:
            refusals.append(failure.code)

    await play(script)
    assert refusals == [-32601]


async def test_cancelling_the_run_cancels_its_questions() -> None:
    was_asked = asyncio.Event()
    answers: list[object] = []

    async def script(turn: Turn) -> str:
        answers.append(await ask(turn))
        return await turn.wait_cancelled()

    async def on_question(question: Question) -> None:
        was_asked.set()
        await asyncio.Event().wait()

    async with session_of(script, on_question=on_question) as session:
        run = session.run("go")
        await was_asked.wait()
        assert session.status() == "waiting"
        await run.cancel()
    assert answers == [{"action": "cancel"}]


async def test_a_question_about_a_request_to_the_agent_belongs_to_its_session() -> None:
    async def set_mode(request: object) -> object:
        params = {"requestId": request.id, "mode": "form", "message": "Really?", "requestedSchema": FORM}  # type: ignore[attr-defined]
        agent.answer = await agent.request("elicitation/create", params)  # type: ignore[attr-defined]
        return {}

    heard: list[events.Event] = []
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
    agent = ScriptedAgent(session={"modes": modes}, answers={"session/set_mode": set_mode})
    async with session_of(agent, on_question=lambda question: {"name": "Ada"}, on_event=heard.append) as session:
        await session.set_mode("b")
    assert agent.answer == {"action": "accept", "content": {"name": "Ada"}}  # type: ignore[attr-defined]
    assert [event.message for event in heard if isinstance(event, events.QuestionAsked)] == ["Really?"]


async def test_gooses_tools_are_judged_by_their_names_and_inputs(tmp_path: Path) -> None:
    """goose 1.34.0 asks about its own tools with the kind `other` and without locations."""
    inside, outside = str(tmp_path / "a.txt"), str(tmp_path.parent / "a.txt")
    answers: list[str | None] = []

    async def script(turn: Turn) -> None:
        for title, path in (
            ("read", inside),
            ("write", inside),
            ("edit", inside),
            ("write", outside),
            ("tree", inside),
        ):
            answers.append(await turn.ask_permission(title, kind="other", rawInput={"path": path}))
        await turn.say("done")

    spec = spec_of_preset(load_preset("goose", load(home=tmp_path, environ={})))
    settings: dict[str, Any] = {"workspace": Workspace(tmp_path), "access": "edit-inside"}
    async with session_of(script, runtime={"spec": spec}, **settings) as session:
        await session.run("go")
    assert [answer == "allow" for answer in answers] == [True, True, True, False, False]


async def test_an_edit_that_names_no_file_is_decided_with_the_file(tmp_path: Path) -> None:
    """Kimi Code 2.1.0 asks without a path, and has us write the file."""
    answers: list[object] = []

    async def script(turn: Turn) -> None:
        for name in ("a.txt", ".git/config"):
            await turn.tool(name, title="Write", kind="edit")
            answers.append(await turn.ask_permission("Write", toolCallId=name))
            file = {"sessionId": turn.session_id, "path": str(tmp_path / name), "content": "x"}
            try:
                answers.append(await turn.agent.request("fs/write_text_file", file))
            except RequestFailed as error:
                answers.append(str(error))
        await turn.say("done")

    (tmp_path / ".git").mkdir()
    spec = AgentSpec(command=["memory"], files_through_us=True)
    settings: dict[str, Any] = {"workspace": Workspace(tmp_path), "access": "edit-inside"}
    async with session_of(script, runtime={"spec": spec}, **settings) as session:
        await session.run("go")
    assert answers[:3] == ["allow", {}, "allow"]
    assert "nobody to ask" in str(answers[3])
    assert (tmp_path / "a.txt").read_text() == "x"
    assert not (tmp_path / ".git" / "config").exists()


@pytest.mark.parametrize("missing", ["read_files", "write_files"])
async def test_an_edit_that_names_no_file_is_asked_about_where_files_are_not_offered(
    tmp_path: Path, missing: str
) -> None:
    answers: list[object] = []

    async def script(turn: Turn) -> None:
        await turn.tool("t", title="Write", kind="edit")
        answers.append(await turn.ask_permission("Write", toolCallId="t"))
        await turn.say("done")

    offers: dict[str, Any] = {missing: False}
    spec = AgentSpec(command=["memory"], files_through_us=True, **offers)
    settings: dict[str, Any] = {"workspace": Workspace(tmp_path), "access": "edit-inside"}
    async with session_of(script, runtime={"spec": spec}, **settings) as session:
        await session.run("go")
    assert answers != ["allow"]


# -- terminals


async def test_a_terminal_can_be_followed_while_it_runs_and_after_it_was_released(tmp_path: Path) -> None:
    async def script(turn: Turn) -> None:
        here = {"sessionId": turn.session_id}
        made = await turn.agent.request(
            "terminal/create", {**here, "command": "sh", "args": ["-c", "echo one; echo two"]}
        )
        named = {**here, "terminalId": made["terminalId"]}
        await turn.agent.request("terminal/wait_for_exit", named)
        await turn.agent.request("terminal/release", named)
        await turn.say(made["terminalId"])

    async with session_of(script, workspace=Workspace(tmp_path), access="full") as session:
        output = b""
        async for event in session.run("go"):
            if isinstance(event, events.TerminalStarted):
                following = session.terminal(event.terminal_id)
                assert following is not None
                async for chunk in following.follow():
                    output += chunk.data
            if isinstance(event, events.TerminalExited):
                assert (event.exit_code, (event.output or "").split()) == (0, ["one", "two"])
        assert output.split() == [b"one", b"two"]
        assert session.terminal("never") is None


# -- many at once


async def test_fifty_sessions_ask_and_run_at_once_without_mixing_events(tmp_path: Path) -> None:
    count = 50

    async def script(turn: Turn) -> None:
        word = turn.text
        here = {"sessionId": turn.session_id}
        writing = turn.agent.request(
            "fs/write_text_file", {**here, "path": str(tmp_path / word / "a.txt"), "content": word}
        )
        running = turn.agent.request(
            "terminal/create", {**here, "command": "sh", "args": ["-c", f"echo {word}; cat a.txt 2>/dev/null; pwd"]}
        )
        asking = turn.ask_permission(word)
        _, made, chosen = await asyncio.gather(writing, running, asking)
        named = {**here, "terminalId": made["terminalId"]}
        await turn.agent.request("terminal/wait_for_exit", named)
        output = (await turn.agent.request("terminal/output", named))["output"]
        await turn.say(f"{chosen} {word in output}")

    request_counts: Counter[tuple[str, str]] = Counter()

    def asker(word: str) -> object:
        async def on_permission(request: PermissionRequest) -> bool:
            request_counts[word, request.origin] += 1
            await asyncio.sleep(0)
            assert word in (request.title + str(request.paths) + str(request.raw_input))
            return True

        return on_permission

    async with runtime_of(script, spec=AgentSpec(command=["memory"])) as runtime, asyncio.timeout(TIMEOUT_S * 3):
        sessions = {}
        for number in range(count):
            folder = tmp_path / f"word{number}x"
            folder.mkdir()
            sessions[folder.name] = await runtime.open_session(
                config(workspace=Workspace(folder), on_permission=asker(folder.name))
            )
        results = await asyncio.gather(*(session.run(word) for word, session in sessions.items()))
        assert [result.text for result in results] == ["allow True"] * count
        for word, session in sessions.items():
            assert (tmp_path / word / "a.txt").read_text() == word
            [terminal] = session.fold.terminals.values()
            assert (terminal.exit_code, terminal.output is not None and word in terminal.output) == (0, True)
    assert request_counts == {(word, origin): 1 for word in sessions for origin in ("agent", "files", "terminals")}


async def test_fifty_sessions_of_one_process_have_each_its_own_answers_and_commands(tmp_path: Path) -> None:
    """With a real agent's process, and real commands; none of them is left."""
    request_counts: Counter[str] = Counter()

    def asker(word: str) -> Callable[[PermissionRequest], bool]:
        def on_permission(request: PermissionRequest) -> bool:
            assert word in (request.command or "")
            request_counts[word] += 1
            return not word.endswith("7x")  # some are refused

        return on_permission

    words = [f"word{number}x" for number in range(50)]
    async with AgentRuntime(demo_spec(tmp_path / "home")) as runtime, asyncio.timeout(TIMEOUT_S * 3):
        sessions = {}
        for word in words:
            (tmp_path / word).mkdir()
            sessions[word] = await runtime.open_session(
                config(workspace=Workspace(tmp_path / word), on_permission=asker(word))
            )
        results = await asyncio.gather(*(session.run(f"run echo {word}") for word, session in sessions.items()))
        for word, result in zip(words, results, strict=True):
            mine, others = word in result.text, [other for other in words if other != word and other in result.text]
            assert (mine, others) == (not word.endswith("7x"), [])
    assert set(request_counts) == set(words)
    assert marked_processes(reaper().prefix + ".", prefix=True) == []
