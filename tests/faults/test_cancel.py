"""Cancel an agent that does not heed it: signals, the next run, and other sessions on the same link (G5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman import AgentSpec, Limits, errors, events
from dragoman.proc.link import AgentLink
from dragoman.proc.process import ProcessLink
from dragoman.session.link import launch
from dragoman.testing.clock import ManualClock

from .cases import QUICK_CANCEL
from .stage import LIMITS, Neighbour, Witness, config, rogue, untouched

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.attempts("agent faults")
@pytest.mark.parametrize(
    ("behaviour", "code", "graces_s"),
    [
        ("ends_on_sigint", 42, [LIMITS.cancel_timeout]),
        ("ends_on_sigterm", 43, [LIMITS.cancel_timeout, LIMITS.close_timeout]),
        ("ignores_signals", -9, [LIMITS.cancel_timeout, LIMITS.close_timeout, LIMITS.close_timeout]),
    ],
)
async def test_an_agent_that_does_not_stop_is_interrupted_then_terminated_then_killed(
    behaviour: str, code: int, graces_s: list[float], neighbour: Neighbour, tmp_path: Path
) -> None:
    witness, clock = Witness(), ManualClock()

    async def launch_on_clock(spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
        link = await launch(spec, limits, on_stderr)
        assert isinstance(link, ProcessLink)
        link.clock = clock
        return link

    async with untouched(neighbour), rogue(behaviour, clock=clock, launch=launch_on_clock) as runtime:
        session = await runtime.open_session(config(tmp_path, witness))
        run = session.run("go")
        await witness.spoke.wait()
        cancelling = asyncio.ensure_future(run.cancel())
        for grace_s in graces_s:
            await clock.wait_for_timers()
            clock.advance(grace_s)
        await cancelling
        assert ((await run).status, (await run).text) == ("cancelled", "before")
        assert isinstance(session.failure, errors.AgentCrashed)
        assert session.failure.exit_code == code
        assert "did not stop" in str(session.failure)


@pytest.mark.attempts("agent faults")
async def test_the_next_run_begins_only_after_the_cancelled_one_has_ended(neighbour: Neighbour, tmp_path: Path) -> None:
    witness = Witness()
    async with untouched(neighbour), rogue("talks_after_cancel", witness) as runtime:
        session = await runtime.open_session(config(tmp_path, witness))
        first = session.run("go")
        await witness.spoke.wait()
        second = session.run("next")
        await first.cancel()
        assert (await first).text == "before 0 1 2 3 4"
        assert (await second).text == "fine"
    run_events = [
        (event.type, event.run_id)
        for event in witness.heard
        if isinstance(event, events.RunStarted | events.RunCompleted)
    ]
    assert run_events == [
        ("run.started", first.id),
        ("run.completed", first.id),
        ("run.started", second.id),
        ("run.completed", second.id),
    ]


@pytest.mark.attempts("agent faults")
async def test_another_session_on_the_same_link_gets_the_reason_why_its_run_was_interrupted(
    neighbour: Neighbour, tmp_path: Path
) -> None:
    witness = Witness()
    async with untouched(neighbour), rogue("ignores_cancel", limits=QUICK_CANCEL) as runtime:
        session = await runtime.open_session(config(tmp_path, witness))
        other = await runtime.open_session(config(tmp_path))
        run = session.run("go")
        await witness.spoke.wait()
        interrupted = other.run("go")
        await run.cancel()
        with pytest.raises(errors.AgentCrashed, match="did not stop"):
            await interrupted
        assert [row.status for row in other.fold.runs.values()] == ["interrupted"]
        assert [row.status for row in session.fold.runs.values()] == ["cancelled"]
