"""Files and terminals, offered and not: real agents use what we offer, or do it by themselves, and always get it
done."""

from __future__ import annotations

import asyncio

import pytest

from .acts import Tool, allow
from .conftest import TIMEOUT_S, Stage

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def worked(stage: Stage, directive: str) -> set[str]:
    """Have the agent carry out the directive, with everything allowed; return the methods that it called of us."""
    async with asyncio.timeout(TIMEOUT_S), stage.session(allow) as session:
        await session.run(f"{directive}[[say:It is done.]]")
    return {frame.method for frame in stage.frames if frame.dir == "in" and frame.method and frame.id is not None}


async def test_the_agent_writes_a_file_itself_if_files_are_not_offered(stage: Stage) -> None:
    stage.offers = {"read_files": False, "write_files": False, "terminals": False}
    called = await worked(stage, stage.agent.write(stage.folder / "written.txt"))
    assert (stage.folder / "written.txt").read_text() == "written\n"
    assert ("fs/write_text_file" in called) == stage.agent.writes_unasked


async def test_a_file_is_written_through_dragoman_if_files_are_offered(stage: Stage) -> None:
    stage.offers = {"read_files": stage.agent.creates_where_it_reads, "write_files": True, "terminals": False}
    called = await worked(stage, stage.agent.write(stage.folder / "written.txt"))
    assert (stage.folder / "written.txt").read_text() == "written\n"
    assert ("fs/write_text_file" in called) == ("files" in stage.agent.through_us)
    if "files" not in stage.agent.through_us:
        pytest.skip(f"{stage.agent.id} writes files by itself, though they are offered")


async def test_a_command_runs_through_dragoman_if_terminals_are_offered(stage: Stage) -> None:
    stage.offers = {"read_files": False, "write_files": False, "terminals": True}
    called = await worked(stage, stage.agent.run("echo made > made.txt"))
    assert (stage.folder / "made.txt").read_text() == "made\n"
    assert ("terminal/create" in called) == ("terminals" in stage.agent.through_us)
    if "terminals" not in stage.agent.through_us:
        pytest.skip(f"{stage.agent.id} runs commands by itself, though terminals are offered")


async def test_a_command_through_dragoman_ends_when_its_run_is_cancelled(stage: Stage) -> None:
    if "terminals" not in stage.agent.through_us:
        pytest.skip(f"{stage.agent.id} runs commands by itself, though terminals are offered")
    stage.offers = {"terminals": True}
    async with asyncio.timeout(TIMEOUT_S), stage.session(allow) as session:
        tool = Tool(stage.folder / "begun")
        run = session.run(stage.agent.run(tool.command))
        task = asyncio.create_task(run.result())
        await tool.begun()
        [row] = session.fold.terminals.values()
        terminal = session.terminal(row.terminal_id or "")
        assert terminal is not None
        assert terminal.exit_status is None
        await run.cancel()
        assert terminal.ended
        assert (await task).status == "cancelled"
        assert (await session.run("[[begin]][[say:After the cancel.]]")).text == "After the cancel."


async def test_with_access_to_edit_inside_a_file_is_written_without_a_question(stage: Stage) -> None:
    async with asyncio.timeout(TIMEOUT_S), stage.session(access="edit-inside") as session:
        await session.run(f"{stage.agent.write(stage.folder / 'written.txt')}[[say:It is done.]]")
    assert (stage.folder / "written.txt").read_text() == "written\n"


async def test_a_file_elsewhere_is_not_written_through_dragoman_with_access_to_edit_inside(stage: Stage) -> None:
    if "files" not in stage.agent.through_us:
        pytest.skip(f"{stage.agent.id} writes files by itself, though they are offered")
    async with asyncio.timeout(TIMEOUT_S), stage.session(access="edit-inside") as session:
        await session.run(f"{stage.agent.write(stage.home / 'written.txt')}[[say:It is done.]]")
    assert not (stage.home / "written.txt").exists()
