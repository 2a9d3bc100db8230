"""Children, pipes and signals: whatever a rogue leaves behind is ended with it (G6)."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from pathlib import Path

import pytest

from dragoman import errors
from dragoman.testing.rogue import command

from .cases import QUICK_CANCEL
from .stage import HANG, Neighbour, Witness, config, rogue, untouched

pytestmark = pytest.mark.asyncio(loop_scope="module")


def is_alive(pid: int) -> bool:
    """Return True while the process runs; a zombie, which waits for its parent to reap it, has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def is_gone(pid: int) -> bool:
    """Return True when the process has ended, or ends within ten seconds: a killed process takes a moment to die."""
    try:
        ended = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([ended], [], [], 10.0)[0])
    finally:
        os.close(ended)


@pytest.mark.attempts("orphans")
@pytest.mark.parametrize(
    "behaviour",
    [
        "leaves_child",
        "leaves_nameless_child",
        "leaves_child_in_own_session",
        "leaves_child_with_stdout",
        "leaves_stubborn_child",
    ],
)
async def test_a_child_that_outlives_its_agent_is_ended_as_soon_as_that_is_noticed(
    behaviour: str, neighbour: Neighbour, tmp_path: Path
) -> None:
    async with untouched(neighbour), rogue(behaviour) as runtime:
        session = await runtime.open_session(config(tmp_path))
        with pytest.raises(errors.AgentCrashed, match="exit code 0") as caught:
            await session.run("go")
        assert is_gone(int(caught.value.result.text))  # without a close: the run itself is told after that


@pytest.mark.attempts("orphans")
async def test_children_of_a_living_agent_end_with_it(neighbour: Neighbour, tmp_path: Path) -> None:
    async with untouched(neighbour):
        async with rogue("keeps_children") as runtime:
            session = await runtime.open_session(config(tmp_path))
            processes = [int(pid) for pid in (await session.run("go")).text.split()]
            assert (await session.run("go")).text == "fine"
            assert [is_alive(pid) for pid in processes] == [True, True, True]
        assert all(is_gone(pid) for pid in processes)


@pytest.mark.attempts("agent faults")
async def test_a_prompt_of_1_mb_to_an_agent_that_does_not_read_holds_up_nobody(
    neighbour: Neighbour, tmp_path: Path
) -> None:
    async with untouched(neighbour), rogue("stops_reading", limits=QUICK_CANCEL) as runtime:
        session = await runtime.open_session(config(tmp_path))
        run = session.run("x" * 1_000_000)
        await neighbour.run()
        await run.cancel()
        assert (await run).status == "cancelled"
        with pytest.raises(errors.AgentCrashed, match="did not stop"):
            session.run("still there?")


@pytest.mark.attempts("agent faults")
async def test_a_deadline_ends_a_prompt_that_an_agent_does_not_read(neighbour: Neighbour, tmp_path: Path) -> None:
    async with untouched(neighbour), rogue("stops_reading", limits=QUICK_CANCEL) as runtime:
        session = await runtime.open_session(config(tmp_path))
        with pytest.raises(errors.DeadlineExceeded):
            await session.run("x" * 1_000_000, deadline=0.3)


@pytest.mark.attempts("agent faults")
async def test_control_sequences_are_removed_from_stderr(neighbour: Neighbour, tmp_path: Path) -> None:
    witness = Witness()
    async with untouched(neighbour), rogue("wild_stderr", witness) as runtime:
        await (await runtime.open_session(config(tmp_path))).run("go")
    lines = [each.text for each in witness.diagnostics if each.kind == "stderr"]
    assert "red" in lines
    assert all(text.isprintable() for text in lines)


@pytest.mark.attempts("agent faults")
@pytest.mark.parametrize(("how", "code"), [("with_0", 0), ("with_1", 1), ("with_127", 127), ("by_sigkill", -9)])
async def test_an_agent_that_exits_between_runs_is_reported_to_the_session(
    how: str, code: int, neighbour: Neighbour, tmp_path: Path
) -> None:
    witness = Witness()
    async with untouched(neighbour), rogue(f"exits_while_idle_{how}", witness) as runtime:
        session = await runtime.open_session(config(tmp_path, witness))
        await witness.failed.wait()
        assert session.status() == "error"
        with pytest.raises(errors.AgentCrashed, match="leaving now") as caught:
            session.run("still there?")
        assert caught.value.exit_code == code
    (error,) = witness.errors()
    assert (error.kind, error.run_id) == ("AgentCrashed", None)


PROGRAM_WITH_AGENT = """
import asyncio, sys
from pathlib import Path
from dragoman import AgentRuntime, AgentSpec, SessionConfig, Workspace

async def main():
    runtime = AgentRuntime(AgentSpec(command=sys.argv[1:]))
    await runtime.start()
    session = await runtime.open_session(SessionConfig(workspace=Workspace(Path.cwd())))
    print((await session.run("go")).text, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.attempts("orphans")
async def test_nothing_of_a_rogue_outlives_a_dragoman_that_is_killed(neighbour: Neighbour, tmp_path: Path) -> None:
    async with untouched(neighbour):
        ours = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROGRAM_WITH_AGENT,
            *command("keeps_children"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
        )
        assert ours.stdout is not None
        processes = [int(pid) for pid in (await ours.stdout.readline()).split()]
        assert [is_alive(pid) for pid in processes] == [True, True, True]
        ours.send_signal(signal.SIGKILL)
        await ours.wait()
        for pid in processes:
            await _wait_until_gone(pid)


async def _wait_until_gone(pid: int) -> None:
    """Return when the process has ended, by its descriptor, without polling."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(HANG):
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
