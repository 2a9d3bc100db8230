"""Each behaviour of the rogue agent ends in the documented event or error, within its limit, and leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman import AgentRuntime, Session, events
from dragoman.clock import SYSTEM_CLOCK
from dragoman.errors import AgentCrashed, DragomanError
from dragoman.testing.clock import ManualClock

from .cases import CASES, Case
from .stage import Neighbour, Witness, config, rogue, untouched

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.attempts("agent faults")
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_rogue_agent_ends_as_documented(case: Case, neighbour: Neighbour, tmp_path: Path) -> None:
    witness = Witness()
    async with untouched(neighbour):
        clock = ManualClock() if case.pass_s else SYSTEM_CLOCK
        runtime = rogue(case.behaviour, witness, clock=clock, **case.runtime)
        try:
            await _play(case, runtime, witness, tmp_path)
        finally:
            await runtime.close()
    assert not case.reported or witness.reported(case.reported), witness.diagnostics[-5:]
    assert set(case.kinds) <= set(witness.kinds())


async def _play(case: Case, runtime: AgentRuntime, witness: Witness, folder: Path) -> None:
    if case.fails == "start":
        async with _time_passing(case, runtime, witness):
            _check(case, await _failure_of_start(runtime))
        return
    await runtime.start()
    if case.fails == "open":
        with pytest.raises(DragomanError) as caught:
            await runtime.open_session(config(folder, witness, **case.session))
        _check(case, caught.value)
        return
    session = await runtime.open_session(config(folder, witness, **case.session))
    async with _time_passing(case, runtime, witness):
        await _first_run(case, session, witness)
    if case.usable:
        assert session.status() == "idle"
        assert (await session.run("still there?")).text == "fine"
    else:
        with pytest.raises(AgentCrashed):
            await session.run("still there?")
        assert session.status() == "error"


@asynccontextmanager
async def _time_passing(case: Case, runtime: AgentRuntime, witness: Witness) -> AsyncIterator[None]:
    """Let the case's seconds pass on a manual clock while the block runs."""
    if not isinstance(runtime.clock, ManualClock):
        yield
        return
    passing = asyncio.create_task(_let_time_pass(case, runtime.clock, witness))
    try:
        yield
    finally:
        passing.cancel()


async def _let_time_pass(case: Case, clock: ManualClock, witness: Witness) -> None:
    """Let the case's seconds pass, from timer to timer, once the agent has done what it does before its limit."""
    if case.fails == "start":
        await witness.wait_for(lambda: not case.reported or witness.reported(case.reported))
    elif case.text:
        await witness.spoke.wait()
    end = clock.monotonic() + case.pass_s
    while clock.monotonic() < end:
        await clock.wait_for_timers()
        clock.advance(min(clock.delays[0], end - clock.monotonic()))
        await asyncio.sleep(0)


async def _failure_of_start(runtime: AgentRuntime) -> DragomanError:
    with pytest.raises(DragomanError) as caught:
        await runtime.start()
    return caught.value


async def _first_run(case: Case, session: Session, witness: Witness) -> None:
    run = session.run("go", **case.run)
    if case.cancel:
        await witness.spoke.wait()
        await run.cancel()
    try:
        result = await run
        assert case.error is None
    except DragomanError as failure:
        _check(case, failure)
        result = failure.result
    assert result.text == case.text, result.text[:1000]
    assert result.status == case.outcome
    # Every text arrives before the end, and the end arrives once, as the last event (G1, G2).
    own = [event for event in witness.heard if event.run_id == run.id]
    assert [event.type for event in own].count("run.completed") == 1
    assert isinstance(own[-1], events.RunCompleted)
    assert witness.deltas(run).replace("\n", "") == case.text.replace("\n", "")


def _check(case: Case, failure: DragomanError) -> None:
    assert type(failure) is case.error
    assert case.says in str(failure)
