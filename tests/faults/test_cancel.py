"""Cancel, when the agent does not want to: signals, the next run, and others on the same link (G5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman import errors, events

from .cases import QUICK_CANCEL
from .stage import Neighbour, Witness, config, rogue, untouched

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("behaviour", "code"), [("ends_on_sigint", 42), ("ends_on_sigterm", 43), ("ignores_signals", -9)]
)
async def test_an_agent_that_does_not_stop_is_interrupted_then_terminated_then_killed(
    behaviour: str, code: int, neighbour: Neighbour, tmp_path: Path
) -> None:
    witness = Witness()
    async with untouched(neighbour), rogue(behaviour, limits=QUICK_CANCEL) as runtime:
        session = await runtime.open_session(config(tmp_path, witness))
        run = session.run("go")
        await witness.spoke.wait()
        await run.cancel()
        assert ((await run).status, (await run).text) == ("cancelled", "before")
        assert isinstance(session.failure, errors.AgentCrashed)
        assert session.failure.exit_code == code
        assert "did not stop" in str(session.failure)


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
    told = [
        (event.type, event.run_id)
        for event in witness.heard
        if isinstance(event, events.RunStarted | events.RunCompleted)
    ]
    assert told == [
        ("run.started", first.id),
        ("run.completed", first.id),
        ("run.started", second.id),
        ("run.completed", second.id),
    ]


async def test_another_session_on_the_same_link_is_told_why_its_run_was_cut(
    neighbour: Neighbour, tmp_path: Path
) -> None:
    witness = Witness()
    async with untouched(neighbour), rogue("ignores_cancel", limits=QUICK_CANCEL) as runtime:
        session = await runtime.open_session(config(tmp_path, witness))
        other = await runtime.open_session(config(tmp_path))
        run = session.run("go")
        await witness.spoke.wait()
        cut = other.run("go")
        await run.cancel()
        with pytest.raises(errors.AgentCrashed, match="did not stop"):
            await cut
        assert [row.status for row in other.fold.runs.values()] == ["interrupted"]
        assert [row.status for row in session.fold.runs.values()] == ["cancelled"]
