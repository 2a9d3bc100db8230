"""A run of an open session that wants a value: rounds, events, cancelling."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.errors import DeadlineExceeded, InputError, OutputInvalid, SessionBusy
from dragoman.evaluation.rounds import OutputRun
from dragoman.record import events
from dragoman.testing.clock import ManualClock
from dragoman.testing.memory import session_of
from dragoman.testing.scripted import ScriptedAgent, Turn

pytestmark = pytest.mark.usefixtures("leaves_nothing")


async def second_time(turn: Turn) -> None:
    await turn.say("Let me see." if len(turn.agent.all_heard("session/prompt")) == 1 else "```json\n7\n```")


async def test_a_value_comes_after_as_many_rounds_as_it_takes() -> None:
    async with session_of(second_time) as session:
        response = await OutputRun(session, "How many?", int)
    assert (response.output, response.stats.rounds, response.text) == (7, 2, "```json\n7\n```")


async def test_a_run_with_an_output_type_returns_a_value_of_it() -> None:
    async with session_of(second_time) as session:
        run = session.run("How many?", output_type=int, max_rounds=2)
        assert isinstance(run, OutputRun)
        assert (await run).output == 7
        with pytest.raises(InputError, match="max_rounds"):
            session.run("How many?", output_type=int, max_rounds=0)


async def test_the_prompt_mentions_no_tool_that_the_agent_does_not_have() -> None:
    agent = ScriptedAgent(second_time)
    async with session_of(agent) as session:
        await session.run("How many?", output_type=int)
    first, second = agent.all_heard("session/prompt")
    assert "structured_output" not in f"{first}{second}"
    assert "there is no JSON in the answer" in f"{second}"


async def test_the_events_of_all_rounds_can_be_iterated_and_then_the_value_is_there() -> None:
    async with session_of(second_time) as session:
        run = OutputRun(session, "How many?", int)
        seen_events = [event async for event in run]
        assert (await run).output == 7
    assert [type(event) for event in seen_events if isinstance(event, events.RunStarted | events.RunCompleted)] == [
        events.RunStarted,
        events.RunCompleted,
        events.RunStarted,
        events.RunCompleted,
    ]
    with pytest.raises(InputError, match="iterated once"):
        async for _ in run:
            pass


async def test_a_caller_that_leaves_the_loop_early_still_gets_the_value() -> None:
    async with session_of(second_time) as session:
        run = OutputRun(session, "How many?", int)
        async for _ in run:
            break
        assert (await run).output == 7


async def test_no_value_within_the_rounds_is_an_error_with_the_problems() -> None:
    async with session_of(ScriptedAgent()) as session:
        with pytest.raises(OutputInvalid, match="after 2 rounds: there is no JSON in the answer") as failed:
            await OutputRun(session, "How many?", int, max_rounds=2)
        assert failed.value.result.text == "Hello."
        assert session.status() == "idle"


async def test_its_prompt_goes_before_those_that_are_queued_later() -> None:
    texts: list[str] = []

    async def script(turn: Turn) -> None:
        texts.append(turn.text.splitlines()[0])
        await turn.say("7")

    async with session_of(script) as session:
        first, second = OutputRun(session, "first", int), session.run("second")
        await second
        assert (await first).output == 7
    assert texts == ["first", "second"]


async def test_cancelling_it_sends_no_other_prompt() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("hm")
        return await turn.wait_cancelled()

    agent = ScriptedAgent(script)
    async with session_of(agent) as session:
        run = OutputRun(session, "How many?", int)
        await agent.hears("session/prompt")
        await run.cancel()
        response = await run
        assert (response.output, response.stop_reason) == (None, "cancelled")
    assert len(agent.all_heard("session/prompt")) == 1


async def test_leaving_its_block_cancels_what_still_runs() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("hm")
        return await turn.wait_cancelled()

    agent = ScriptedAgent(script)
    async with session_of(agent) as session:
        async with OutputRun(session, "How many?", int) as run:
            async for _ in run:
                break
        assert run.done
    assert len(agent.all_heard("session/cancel")) == 1


async def test_a_busy_session_may_refuse_it() -> None:
    async def script(turn: Turn) -> object:
        return await turn.wait_cancelled()

    async with session_of(script) as session:
        session.run("first")
        with pytest.raises(SessionBusy):
            OutputRun(session, "How many?", int, when_busy="raise")


async def test_programs_that_are_not_async_can_iterate_over_it_too() -> None:
    async with session_of(second_time) as session:
        run = OutputRun(session, "How many?", int)
        run.claim()
        seen_events = []
        while batch := await run.next_events():
            seen_events += batch
        assert isinstance(seen_events[-1], events.RunCompleted)
        run.drain()
        assert (await run).output == 7


async def test_its_deadline_is_for_all_rounds() -> None:
    clock, second_round = ManualClock(), asyncio.Event()

    async def script(turn: Turn) -> object:
        await turn.say("hm")
        if len(turn.agent.all_heard("session/prompt")) == 1:
            clock.advance(40.0)
            return None
        second_round.set()
        return await turn.wait_cancelled()

    async with session_of(script, runtime={"clock": clock}) as session:
        run = asyncio.ensure_future(OutputRun(session, "How many?", int, deadline=60.0).result())
        await second_round.wait()
        await clock.wait_for_timers()
        clock.advance(20.0)
        with pytest.raises(DeadlineExceeded) as failed:
            await run
    assert failed.value.result.stats.limit == "deadline"
    assert failed.value.result.stats.rounds == 2


async def test_a_caller_that_stops_waiting_cancels_the_run() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("hm")
        return await turn.wait_cancelled()

    agent = ScriptedAgent(script)
    async with session_of(agent) as session:
        waiting = asyncio.ensure_future(OutputRun(session, "How many?", int).result())
        await agent.hears("session/prompt")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await agent.hears("session/cancel")
