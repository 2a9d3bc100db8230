"""Real agents work in a worktree: edit, difference of each run, rewind, undo, and what they did applied and dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config import load
from dragoman.hub.hub import Hub
from dragoman.protocol.worktrees import WorktreeChoice
from dragoman.session.worktree import in_worktree, worktrees_of
from workspace.folder_state import digest, folder_state
from workspace.worktree_stage import make_repository

from .acts import all_events, allow
from .conftest import Stage

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def test_what_an_agent_does_in_a_worktree_is_compared_rewound_and_applied(stage: Stage, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "project")
    before, git_before = folder_state(repository), digest(repository / ".git" / "refs" / "heads" / "main")
    made = await worktrees_of(load(tmp_path / "dragoman")).create(repository, WorktreeChoice(name="tried"))
    stage.folder = made.folder  # some agents only know where they were started
    async with Hub(tmp_path / "dragoman") as hub, stage.runtime(journal_client=hub.journal_client) as runtime:
        config = in_worktree(stage.config(allow, repository, checkpoints=True), made)
        session = await runtime.open_session(config)
        assert session.worktree == "tried"
        command = stage.agent.run("echo made > made.txt; echo changed > other.txt")
        first = session.run(f"[[say:Doing.]]{command}[[say:It is done.]]")
        await all_events(first)
        changed = [("made.txt", "added"), ("other.txt", "modified")]
        assert [(file.path, file.status) for file in (await session.diff(first)).files] == changed
        second = session.run("[[say:Nothing else.]]")
        await all_events(second)
        assert (await session.diff(second)).files == ()
        assert folder_state(repository) == before
        await session.rewind(await session.plan_rewind(first, before=True))
        assert (made.folder / "other.txt").read_text() == "other\n"
        await session.rewind(await session.plan_rewind(undo=True))
        assert (made.folder / "made.txt").read_text() == "made\n"
    files = [(file.path, file.status) for file in (await made.changes()).files]
    assert [
        file for file in files if not file[0].startswith(".")
    ] == changed  # without an agent's own, such as its tasks
    await made.apply(await made.apply())
    assert (repository / "made.txt").read_text() == "made\n"
    assert (repository / "other.txt").read_text() == "changed\n"
    await made.apply(await made.apply(undo=True))
    assert folder_state(repository) == before
    await made.drop()
    assert not made.folder.exists()
    assert digest(repository / ".git" / "refs" / "heads" / "main") == git_before
