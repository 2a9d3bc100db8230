"""Requests, ours and the agent's, and every way in which an answer can fail to come."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.errors import (
    AgentCrashed,
    AuthenticationRequired,
    Cancelled,
    DragomanError,
    InputError,
    InvalidFrame,
    RequestFailed,
    RequestTimeout,
    SessionClosed,
    SilentFailure,
)
from dragoman.record import events
from dragoman.record.events import Event
from dragoman.session.spec import AgentSpec, Limits
from dragoman.testing.clock import ManualClock
from dragoman.testing.memory import config, runtime_of, session_of
from dragoman.testing.scripted import ReceivedRequest, ScriptedAgent, Turn
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.vocabulary import TextContent
from dragoman.workspace import Workspace

METHODS = [{"id": "login", "name": "Log in", "description": "in the browser"}, {"id": "key", "name": "API key"}]


def refusing(code: int, message: str = "no", data: object = None) -> object:
    async def answer(request: ReceivedRequest) -> object:
        raise RpcRefusal(code, message, data)

    return answer


async def never(request: ReceivedRequest) -> object:
    return await asyncio.Event().wait()


# -- logging in


async def test_a_session_that_needs_a_login_names_the_login_methods() -> None:
    agent = ScriptedAgent(
        initialize={"authMethods": METHODS}, answers={"session/new": refusing(-32000, "Authentication required")}
    )
    async with runtime_of(agent) as runtime:
        with pytest.raises(AuthenticationRequired) as failed:
            await runtime.open_session(config())
        assert failed.value.methods == (("login", "Log in", "in the browser"), ("key", "API key", ""))
        assert "Log in" in failed.value.guidance
        assert failed.value.category == "agent"
        assert not runtime.busy


async def test_a_run_that_needs_a_login_names_them_too_and_login_helps() -> None:
    async def script(turn: Turn) -> object:
        if not agent.all_heard("authenticate"):
            turn.refuse(-32000, "Authentication required")
        await turn.say("hi")
        return None

    agent = ScriptedAgent(script, initialize={"authMethods": METHODS}, answers={"authenticate": {}})
    async with runtime_of(agent) as runtime:
        session = await runtime.open_session(config())
        with pytest.raises(AuthenticationRequired) as failed:
            await session.run("go")
        assert [method[0] for method in failed.value.methods] == ["login", "key"]
        await runtime.authenticate("login")
        assert (await session.run("go")).text == "hi"


# -- our requests


@pytest.mark.parametrize(
    ("code", "category"),
    [(-32600, "protocol"), (-32601, "protocol"), (-32602, "protocol"), (-32603, "transient"), (-32002, "agent")],
)
async def test_an_error_is_raised_with_its_category(code: int, category: str) -> None:
    async with runtime_of(
        ScriptedAgent(answers={"session/new": refusing(code, "why", {"details": "more"})})
    ) as runtime:
        with pytest.raises(RequestFailed, match=rf"session/new: why \(code {code}\): more") as failed:
            await runtime.open_session(config())
        assert (failed.value.code, failed.value.category, failed.value.data) == (code, category, {"details": "more"})


async def test_a_request_cancelled_by_the_agent_is_a_cancel() -> None:
    async with runtime_of(ScriptedAgent(answers={"session/new": refusing(-32800)})) as runtime:
        with pytest.raises(Cancelled):
            await runtime.open_session(config())


async def test_a_request_without_answer_ends_in_time_and_is_withdrawn() -> None:
    async def new(request: ReceivedRequest) -> object:
        agent.complain("waiting for the moon")
        return await never(request)

    agent, clock = ScriptedAgent(answers={"session/new": new}), ManualClock()
    options = {"limits": Limits(request_timeout=60.0), "clock": clock}
    async with runtime_of(agent, on_diagnostic=lambda entry: clock.advance(60.0), **options) as runtime:
        with pytest.raises(RequestTimeout, match=r"session/new within 60 s.*\nwaiting for the moon") as failed:
            await runtime.open_session(config())
        assert (failed.value.method, failed.value.category) == ("session/new", "transient")
        await agent.hears("$/cancel_request")
        assert not runtime.busy


@pytest.mark.parametrize("answer", [{}, None, "text", {"sessionId": None}, {"sessionId": 7}])
async def test_a_session_without_an_id_is_no_session(answer: object) -> None:
    async with runtime_of(ScriptedAgent(answers={"session/new": answer})) as runtime:
        with pytest.raises(InvalidFrame, match="sessionId"):
            await runtime.open_session(config())


@pytest.mark.parametrize(
    "shape",
    [
        b'{"jsonrpc":"2.0","id":%d,"result":{"sessionId":"%s"}}\n',
        b'{"id":%d,"jsonrpc":"2.0","result":{"sessionId":"%s"}}\n',
        b'{"id" : %d , "error":{"code":1,"message":"%s"}}\n',
    ],
)
async def test_an_answer_over_the_line_limit_is_an_error_and_not_a_wait(shape: bytes) -> None:
    async def new(request: ReceivedRequest) -> object:
        assert isinstance(request.id, int)
        agent.raw(shape % (request.id, b"x" * 100_000))
        return await never(request)

    agent = ScriptedAgent(answers={"session/new": new})
    async with runtime_of(agent, line_limit=70_000) as runtime:
        with pytest.raises(InvalidFrame, match="over the line limit"):
            await runtime.open_session(config())
        assert [entry.kind for entry in runtime.diagnostics.recent] == ["oversized"]


async def test_a_prompts_answer_over_the_line_limit_ends_the_run() -> None:
    async def prompt(request: ReceivedRequest) -> object:
        assert isinstance(request.id, int)
        agent.raw(b'{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"%s"}}\n' % (request.id, b"x" * 100_000))
        return await never(request)

    agent = ScriptedAgent(answers={"session/prompt": prompt})
    async with session_of(agent, runtime={"line_limit": 70_000}) as session:
        with pytest.raises(InvalidFrame, match="over the line limit"):
            await session.run("go")
        assert session.status() == "idle"


async def test_an_update_over_the_line_limit_is_reported_and_costs_nothing_else() -> None:
    async def script(turn: Turn) -> None:
        await turn.say("before ")
        await turn.say("x" * 100_000)
        await turn.say("after")

    async with runtime_of(script, line_limit=70_000) as runtime:
        session = await runtime.open_session(config())
        assert (await session.run("go")).text == "before after"
        assert [entry.kind for entry in runtime.diagnostics.recent] == ["oversized"]


@pytest.mark.parametrize("answer", [{}, None, "done", {"stopReason": 7}])
async def test_a_prompt_answered_without_a_stop_reason_fails(answer: object) -> None:
    async def prompt(request: ReceivedRequest) -> object:
        return answer

    async with session_of(ScriptedAgent(answers={"session/prompt": prompt})) as session:
        with pytest.raises(RequestFailed, match="no stop reason"):
            await session.run("go")
        assert session.status() == "idle"


async def test_a_run_that_ends_without_output_shows_stderr() -> None:
    async def script(turn: Turn) -> None:
        turn.agent.complain("error: OPENAI_API_KEY is not set")

    async with session_of(script) as session:
        with pytest.raises(SilentFailure, match="OPENAI_API_KEY is not set") as failed:
            await session.run("go")
        assert failed.value.stderr == "error: OPENAI_API_KEY is not set"
        assert session.status() == "idle"


# -- the agent's requests


async def test_a_request_that_we_do_not_offer_is_refused_with_its_code() -> None:
    codes: dict[str, int] = {}

    async def script(turn: Turn) -> None:
        requests: dict[str, dict[str, object]] = {
            "session/craft": {"sessionId": turn.session_id},
            "vendor/anything": {},
            "fs/read_text_file": {"sessionId": turn.session_id, "path": "/etc/passwd"},
            "terminal/create": {"sessionId": turn.session_id, "command": "ls"},
            "session/request_permission": {"sessionId": "nobody", "toolCall": {"toolCallId": "t"}, "options": []},
        }
        for method, params in requests.items():
            try:
                await turn.agent.request(method, params)
            except RequestFailed as failure:
                codes[method] = failure.code
        await turn.say("done")

    nothing = AgentSpec(command=["memory"], read_files=False, write_files=False, terminals=False)
    async with session_of(script, runtime={"spec": nothing}) as session:
        await session.run("go")
        assert codes == {
            "session/craft": -32601,
            "vendor/anything": -32601,
            "fs/read_text_file": -32601,
            "terminal/create": -32601,
            "session/request_permission": -32002,
        }


async def test_a_permission_request_that_cannot_be_read_is_refused_and_the_run_goes_on() -> None:
    async def script(turn: Turn) -> None:
        with pytest.raises(RequestFailed, match="-32602"):
            await turn.agent.request("session/request_permission", {"sessionId": turn.session_id, "toolCall": 7})
        await turn.say("done")

    async with session_of(script) as session:
        seen_events = [event async for event in session.run("go")]
        assert [event.kind for event in seen_events if isinstance(event, events.ProviderEvent)] == [
            "session/request_permission"
        ]
        assert isinstance(seen_events[-1], events.RunCompleted)
        assert seen_events[-1].status == "success"


async def test_a_request_withdrawn_in_the_same_bytes_is_still_answered() -> None:
    answered: list[int] = []

    async def script(turn: Turn) -> None:
        connection = turn.agent.connection
        params = {"sessionId": turn.session_id, "toolCall": {"toolCallId": "t"}, "options": []}
        call = connection.call("session/request_permission", params)
        connection.notify("$/cancel_request", {"requestId": call.id})
        try:
            await connection.result(call)
        except Cancelled:
            answered.append(-32800)
        except RequestFailed as failure:
            answered.append(failure.code)
        else:
            answered.append(0)
        await turn.say("done")

    async def ask(request: object) -> bool:
        await asyncio.Event().wait()
        return True

    async with session_of(script, on_permission=ask) as session:
        await session.run("go")
        assert answered == [-32800]


async def test_files_are_served_where_they_are_offered(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("one\ntwo\n")
    read: list[str] = []

    async def script(turn: Turn) -> None:
        params = {"sessionId": turn.session_id, "path": str(tmp_path / "x.txt"), "line": 2}
        read.append((await turn.agent.request("fs/read_text_file", params))["content"])
        await turn.say("done")

    spec = AgentSpec(command=["memory"], read_files=True)
    async with session_of(script, runtime={"spec": spec}, workspace=Workspace(tmp_path)) as session:
        await session.run("go")
        assert read == ["two\n"]


# -- the end of the agent


async def test_death_while_idle_is_noticed_at_once_and_reported() -> None:
    heard: asyncio.Queue[Event] = asyncio.Queue()
    agent = ScriptedAgent()
    async with session_of(agent, on_event=heard.put_nowait) as session:
        assert session.status() == "idle"
        agent.complain("out of memory")
        agent.exit(137)
        error = await heard.get()
        assert isinstance(error, events.Error)
        assert (error.kind, error.run_id, error.session_id) == ("AgentCrashed", None, session.id)
        assert "out of memory" in error.message
        assert session.status() == "error"
        assert isinstance(session.failure, AgentCrashed)
        with pytest.raises(AgentCrashed, match="exit code 137") as failed:
            session.run("go")
        assert (failed.value.exit_code, failed.value.stderr) == (137, "out of memory")
        with pytest.raises(AgentCrashed):
            await session.set_mode("x")


async def test_a_crash_in_a_run_keeps_the_text_so_far() -> None:
    async def script(turn: Turn) -> None:
        await turn.say("half a")
        turn.crash(3)

    async with session_of(script) as session:
        run = session.run("go")
        queued = session.run("next")
        seen_events = [event async for event in run]
        assert [event.type for event in seen_events[-3:]] == ["assistant.message", "error", "run.completed"]
        with pytest.raises(AgentCrashed, match="exit code 3") as failed:
            await run
        assert failed.value.result.text == "half a"
        with pytest.raises(AgentCrashed) as lost:
            await queued
        assert lost.value.result.text == ""
        assert failed.value.result.text == "half a"
        assert session.fold.runs[run.id].status == "interrupted"


async def test_each_run_that_is_cut_has_a_failure_of_its_own() -> None:
    async def script(turn: Turn) -> None:
        await turn.say(turn.session_id)
        if turn.text == "crash":
            turn.crash(3)
        await turn.never()

    async with runtime_of(script) as runtime:
        one, two = await runtime.open_session(config()), await runtime.open_session(config())
        runs = [one.run("wait"), two.run("crash")]
        failures = await asyncio.gather(*(run.result() for run in runs), return_exceptions=True)
        texts = [failure.result.text for failure in failures if isinstance(failure, DragomanError)]
        assert texts == ["session-1", "session-2"]


async def test_a_request_under_way_fails_when_the_agent_dies() -> None:
    async def new(request: ReceivedRequest) -> object:
        request.agent.exit(4)
        return await never(request)

    async with runtime_of(ScriptedAgent(answers={"session/new": new})) as runtime:
        with pytest.raises(AgentCrashed, match="exit code 4"):
            await runtime.open_session(config())


async def test_a_request_under_way_fails_when_the_runtime_is_closed() -> None:
    agent = ScriptedAgent(answers={"session/new": never})
    async with runtime_of(agent, limits=Limits(close_timeout=0.05)) as runtime:
        opening = asyncio.ensure_future(runtime.open_session(config()))
        await agent.hears("session/new")
        await runtime.close()
        with pytest.raises(SessionClosed):
            await opening


async def test_closing_is_done_once_however_many_ask_and_give_up() -> None:
    async def script(turn: Turn) -> None:
        await turn.never()

    agent = ScriptedAgent(script, capabilities={"sessionCapabilities": {"close": {}}}, answers={"session/close": {}})
    clock = ManualClock()
    async with runtime_of(agent, limits=Limits(cancel_timeout=60.0, close_timeout=0.05), clock=clock) as runtime:
        session = await runtime.open_session(config())
        run = session.run("go")
        closing = asyncio.ensure_future(runtime.close())
        await clock.wait_for_timers()  # the agent was asked to stop, and does not
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        closings = asyncio.gather(runtime.close(), session.close(), runtime.close())
        clock.advance(60.0)
        await closings
        assert (await run).status == "cancelled"
        assert runtime._link is not None
        assert runtime._link.exit_code is not None
        with pytest.raises(SessionClosed):
            await runtime.open_session(config())


async def test_a_run_in_a_closed_session_is_refused_and_leaves_no_trace() -> None:
    async with runtime_of(ScriptedAgent()) as runtime:
        session = await runtime.open_session(config())
        await session.close()
        with pytest.raises(SessionClosed):
            session.run("go")
        with pytest.raises(SessionClosed):
            await session.set_mode("x")


async def test_a_prompt_that_cannot_be_written_leaves_the_session_free() -> None:
    async with session_of(ScriptedAgent()) as session:
        with pytest.raises(InputError, match="cannot be written"):
            session.run(TextContent(text="x", meta={"bad": object()}))
        assert session.status() == "idle"
        first = session.run("go")
        broken = session.run(TextContent(text="x", meta={"bad": object()}))
        last = session.run("go")
        await first
        with pytest.raises(InputError, match="cannot be written"):
            await broken
        assert (await last).status == "success"


async def test_an_unknown_request_of_the_agent_is_an_event_of_its_run() -> None:
    """Qwen Code 0.24.4 sends the request `craft/drainMidTurnQueue`."""

    async def script(turn: Turn) -> None:
        with pytest.raises(RequestFailed, match="is not offered"):
            await turn.agent.request("craft/drainMidTurnQueue", {"sessionId": turn.session_id})
        await turn.say("hi")

    async with session_of(script) as session:
        seen = [event async for event in session.run("go")]
    [event] = [event for event in seen if isinstance(event, events.ProviderEvent)]
    assert event.kind == "craft/drainMidTurnQueue"
    assert event.raw == {"sessionId": session.agent_session_id}


async def test_an_unknown_request_without_a_session_is_a_diagnostic() -> None:
    async def script(turn: Turn) -> None:
        with pytest.raises(RequestFailed, match="is not offered"):
            await turn.agent.request("vendor/status", {"level": 1})
        await turn.say("hi")

    async with runtime_of(ScriptedAgent(script)) as runtime:
        session = await runtime.open_session(config())
        await session.run("go")
        [stray] = [entry for entry in runtime.diagnostics.recent if entry.kind == "stray"]
    assert "vendor/status" in stray.text
