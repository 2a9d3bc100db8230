"""Deadline, idle limit, heartbeat: ended by a polite cancel, with what was brought so far."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from dragoman.errors import DeadlineExceeded, IdleLimitExceeded, InputError
from dragoman.host.permission import PermissionRequest
from dragoman.record import events
from dragoman.session.run import IDLE_LOOKS, IdleWatch, Run
from dragoman.session.session import Session
from dragoman.session.spec import Limits
from dragoman.testing.clock import ManualClock
from dragoman.testing.memory import session_of
from dragoman.testing.scripted import Script, ScriptedAgent, Turn


def session_on(
    clock: ManualClock, agent: ScriptedAgent | Script, **settings: Any
) -> AbstractAsyncContextManager[Session]:
    return session_of(agent, runtime={"clock": clock, **settings.pop("runtime", {})}, **settings)


async def events_until_text(run: Run, text: str) -> AsyncIterator[events.Event]:
    """Return the run's events after the agent has said `text`: then its prompt has arrived, and its limits count."""
    iterator = aiter(run)
    async for event in iterator:
        if isinstance(event, events.AssistantDelta) and event.text == text:
            return iterator
    raise AssertionError(f"the run ended before {text!r}")


async def pass_time_until_cancelled(clock: ManualClock, run: Run) -> None:
    """Let time pass, look by look of an idle limit of 40 s, until it is exceeded."""
    while True:
        await clock.wait_for_timers()
        if run.cancelling:
            return
        clock.advance(40.0 / IDLE_LOOKS)


async def test_a_deadline_cancels_politely_and_keeps_what_there_is() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("half")
        return await turn.wait_cancelled()

    agent, clock = ScriptedAgent(script), ManualClock()
    async with session_on(clock, agent) as session:
        run = session.run("go", deadline=40.0)
        await events_until_text(run, "half")
        await clock.wait_for_timers()
        clock.advance(39.9)
        assert not run.cancelling
        clock.advance(0.1)
        with pytest.raises(DeadlineExceeded, match="40 s") as failed:
            await run
        assert (failed.value.result.status, failed.value.result.text) == ("error", "half")
        assert failed.value.category == "transient"
        assert len(agent.all_heard("session/cancel")) == 1
        assert session.status() == "idle"


async def test_a_deadline_ends_an_agent_that_does_not_heed_it() -> None:
    async def script(turn: Turn) -> None:
        await turn.say("half")
        await turn.never()

    agent, clock = ScriptedAgent(script), ManualClock()
    limits = Limits(cancel_timeout=10.0, close_timeout=0.05)
    async with session_on(clock, agent, runtime={"limits": limits}) as session:
        run = session.run("go", deadline=40.0)
        rest = await events_until_text(run, "half")
        await clock.wait_for_timers()
        clock.advance(40.0)
        await clock.wait_for_timers()  # the grace of the cancel
        clock.advance(limits.cancel_timeout)
        seen_events = [event async for event in rest]
        with pytest.raises(DeadlineExceeded) as failed:
            await run
        assert failed.value.result.text == "half"
        assert [event.kind for event in seen_events if isinstance(event, events.Error)] == ["DeadlineExceeded"]
        assert len(agent.all_heard("session/cancel")) == 1
        assert session.status() == "error"


async def test_a_deadline_that_is_met_has_no_effect() -> None:
    async with session_of(ScriptedAgent()) as session:
        assert (await session.run("go", deadline=20.0, idle_limit=20.0)).status == "success"


async def test_the_deadline_of_a_queued_run_counts_from_its_prompt() -> None:
    async def script(turn: Turn) -> object:
        if turn.text == "first":
            await release.wait()
        await turn.say(turn.text)
        return None

    release = asyncio.Event()
    async with session_of(script) as session:
        first, second = session.run("first"), session.run("second", deadline=5.0)
        assert second._watch is None
        release.set()
        await first
        assert (await second).status == "success"


async def test_a_cancel_before_the_deadline_is_a_cancel() -> None:
    async def script(turn: Turn) -> object:
        await turn.cancelled.wait()
        await passed.wait()
        return "cancelled"

    passed, clock = asyncio.Event(), ManualClock()
    async with session_on(clock, script) as session:
        run = session.run("go", deadline=5.0)
        await clock.wait_for_timers()
        cancelling = asyncio.ensure_future(run.cancel())
        watch = run._watch
        assert watch is not None
        await clock.wait_for_timers(2)  # the deadline, and the grace of the cancel
        clock.advance(5.0)
        await asyncio.wait([watch])
        passed.set()
        await cancelling
        assert (await run).status == "cancelled"


async def test_silence_ends_a_run() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("hm")
        return await turn.wait_cancelled()

    agent, clock = ScriptedAgent(script), ManualClock()
    async with session_on(clock, agent) as session:
        run = session.run("go", idle_limit=40.0)
        await events_until_text(run, "hm")
        ended = asyncio.ensure_future(run.result())
        await pass_time_until_cancelled(clock, run)
        with pytest.raises(IdleLimitExceeded) as failed:
            await ended
        assert failed.value.result.text == "hm"
        assert len(agent.all_heard("session/cancel")) == 1


async def test_silence_while_a_tool_runs_or_a_permission_waits_is_no_hang() -> None:
    clock = ManualClock()

    async def be_quiet() -> None:
        """Let the limit pass twice over, look by look."""
        for _ in range(2 * IDLE_LOOKS):
            await clock.wait_for_timers()
            clock.advance(40.0 / IDLE_LOOKS)

    async def script(turn: Turn) -> object:
        await turn.tool("t", status="in_progress")
        await turn.say("working")
        await tool_was_quiet.wait()
        await turn.tool_update("t", status="completed")
        assert await turn.ask_permission(toolCallId="t") == "allow"
        await turn.say("done")
        return await turn.wait_cancelled()

    async def ask(request: PermissionRequest) -> bool:
        await be_quiet()
        return True

    tool_was_quiet = asyncio.Event()
    async with session_on(clock, script, on_permission=ask) as session:
        run = session.run("go", idle_limit=40.0)
        rest = await events_until_text(run, "working")
        await be_quiet()
        assert not run.cancelling
        tool_was_quiet.set()
        async for event in rest:
            if isinstance(event, events.AssistantDelta) and event.text == "done":
                break
        ended = asyncio.ensure_future(run.ended_within(None))
        await pass_time_until_cancelled(clock, run)
        await ended
        with pytest.raises(IdleLimitExceeded) as failed:
            await run
        assert failed.value.result.text == "workingdone"


def test_silence_is_measured_from_the_last_sign_of_life() -> None:
    watch = IdleWatch(10.0, now=100.0, frame_count=3)
    assert not watch.is_exceeded(109.9, frame_count=3, at_work=False)
    assert not watch.is_exceeded(110.0, frame_count=4, at_work=False)
    assert not watch.is_exceeded(119.0, frame_count=4, at_work=True)
    assert not watch.is_exceeded(128.9, frame_count=4, at_work=False)
    assert watch.is_exceeded(129.0, frame_count=4, at_work=False)


async def test_every_update_is_a_heartbeat() -> None:
    beats = 0

    def beat() -> None:
        nonlocal beats
        beats += 1

    async def script(turn: Turn) -> None:
        await turn.say("a")
        await turn.say("b")
        await turn.tool("t")
        await turn.update("usage_update", used=1, size=2)

    async with session_of(script) as session:
        await session.run("go", heartbeat=beat)
        assert beats == 4


async def test_a_callback_that_fails_costs_nothing_but_itself(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async def script(turn: Turn) -> None:
        turn.agent.raw(b"noise\n")
        await turn.say("a")
        await turn.say("b")

    async with session_of(script, on_event=fail, runtime={"on_diagnostic": fail}) as session:
        assert (await session.run("go", heartbeat=fail)).text == "ab"
        assert "a callback of session" in caplog.text
        assert "on_diagnostic failed" in caplog.text


@pytest.mark.parametrize("limits", [{"deadline": 0}, {"idle_limit": -1.0}])
async def test_a_limit_of_no_time_is_refused(limits: dict[str, float]) -> None:
    async with session_of(ScriptedAgent()) as session:
        with pytest.raises(InputError, match=next(iter(limits))):
            session.run("go", **limits)  # type: ignore[call-overload]  # the names are those of the parameters
        assert session.status() == "idle"
