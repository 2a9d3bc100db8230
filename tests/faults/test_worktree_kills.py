"""`kill -9` while a worktree is applied or merged: the next command completes it, and no content is lost."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.workspace.checkpoint_store import CheckpointStore
from dragoman.workspace.worktree_store import WorktreeSettings
from dragoman.workspace.worktrees import Worktree, Worktrees
from workspace.folder_state import folder_state, run_git
from workspace.worktree_stage import commit_all

from .test_checkpoint_kills import fill

PROGRAM = Path(__file__).parent / "killed_worktrees.py"
KILLS = 20

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Stage:
    """A checkout with old files, and a worktree with new ones."""

    def __init__(self, base: Path, repository: Path, worktrees: Worktrees) -> None:
        self.base, self.repository, self.worktrees = base, repository, worktrees
        self.old = folder_state(repository)

    def run(self, action: str, step: int) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, str(PROGRAM), str(self.base), action, str(step)]
        return subprocess.run(command, capture_output=True, check=False)

    def worktree(self) -> Worktree:
        return asyncio.run(self.worktrees.find("work"))

    def check_contents(self) -> None:
        """Check that both repositories are whole, and that each state that was overwritten is in a checkpoint."""
        run_git(self.repository, "fsck", "--strict", "--no-dangling")
        store = CheckpointStore(self.base / "home", self.repository, max_file_bytes=10**6)
        with store.open() as git:
            git.run("fsck", "--strict", "--no-dangling")
            for entry in store.read_log():
                git.run("ls-tree", "-r", "-z", "-l", entry.tree)

    def check_half_files(self, new: dict[bytes, tuple[str, bytes]]) -> None:
        known = {content for _, content in (*self.old.values(), *new.values())}
        for path, (_, content) in folder_state(self.repository).items():
            if b".dragoman-" not in path:
                assert content in known, f"half a file: {path!r}"


def make_stage(base: Path, *, diverged: bool) -> Stage:
    """Make everything in place: git's links between work trees are absolute. With `diverged`, the checkout has a commit
    of its own."""
    shutil.rmtree(base, ignore_errors=True)
    repository = base / "project"
    fill(repository, "old")
    run_git(repository, "init", "--quiet", "--initial-branch=main")
    run_git(repository, "config", "user.name", "Ada")
    run_git(repository, "config", "user.email", "ada@example.org")
    commit_all(repository, "old")
    settings = WorktreeSettings(home=base / "home", folder=base / "worktrees")
    worktrees = Worktrees(settings, clock=lambda: 1_000_000.0)

    async def create() -> Path:
        return (await worktrees.create(repository)).folder

    folder = asyncio.run(create())
    marker = (folder / ".git").read_bytes()
    fill(folder, "new")
    (folder / ".git").write_bytes(marker)
    commit_all(folder, "new")
    if diverged:
        (repository / "ours").write_text("ours\n")
        commit_all(repository, "ours")
    return Stage(base, repository, worktrees)


def steps_of(base: Path, action: str, *, diverged: bool = False) -> tuple[int, dict[bytes, tuple[str, bytes]]]:
    """Return the number of steps, and the files when all of them were made."""
    stage = make_stage(base, diverged=diverged)
    done = stage.run(action, -1)
    assert done.returncode == 0, done.stderr.decode()
    return int(done.stdout), folder_state(stage.repository)


def chosen(steps: int) -> list[int]:
    return sorted(random.Random(17).sample(range(steps), min(KILLS, steps)))


def test_an_apply_that_is_killed_at_any_step_is_completed_or_was_never_begun(tmp_path: Path) -> None:
    base = tmp_path / "stage"
    steps, new = steps_of(base, "apply")
    outcomes = set()
    for step in chosen(steps):
        stage = make_stage(base, diverged=False)
        refs = run_git(stage.repository, "for-each-ref")
        assert stage.run("apply", step).returncode == -signal.SIGKILL
        stage.check_half_files(new)
        plan = asyncio.run(stage.worktree().apply())
        state = folder_state(stage.repository)
        assert state in (stage.old, new), f"step {step} of {steps}"
        outcomes.add(state == new)
        assert bool(plan.changes) == (state == stage.old)
        if state == new:
            undo = asyncio.run(stage.worktree().apply(undo=True))
            asyncio.run(stage.worktree().apply(undo))
            assert folder_state(stage.repository) == stage.old
        assert run_git(stage.repository, "for-each-ref") == refs
        stage.check_contents()
    assert outcomes == {True, False}


@pytest.mark.parametrize("diverged", [False, True], ids=["fast-forward", "merge commit"])
def test_a_merge_that_is_killed_at_any_step_is_completed_or_was_never_begun(tmp_path: Path, diverged: bool) -> None:
    base = tmp_path / "stage"
    steps, new = steps_of(base, "merge", diverged=diverged)
    outcomes = set()
    for step in chosen(steps):
        stage = make_stage(base, diverged=diverged)
        head = run_git(stage.repository, "rev-parse", "main").strip()
        assert stage.run("merge", step).returncode == -signal.SIGKILL
        stage.check_half_files(new)
        asyncio.run(stage.worktree().changes())  # the next command
        outcomes.add(check_merged_or_not(stage, head, new, f"step {step} of {steps}"))
        done = asyncio.run(stage.worktree().merge())
        assert done.kind == ("nothing to merge" if not done.is_done else done.kind)
        assert folder_state(stage.repository) == new
        assert run_git(stage.repository, "status", "--porcelain") == ""
        stage.check_contents()
    assert outcomes == {True, False}


def check_merged_or_not(stage: Stage, head: str, new: dict[bytes, tuple[str, bytes]], where: str) -> bool:
    """Check that branch, index and files agree, on the old state or on the new one; return whether it is the new."""
    is_merged = run_git(stage.repository, "rev-parse", "main").strip() != head
    assert folder_state(stage.repository) == (new if is_merged else stage.old), where
    assert run_git(stage.repository, "status", "--porcelain") == "", where
    assert not list((stage.repository / ".git").glob("index.*")), where
    return is_merged


@pytest.mark.parametrize("action", ["apply", "merge"])
def test_git_itself_may_be_killed_at_any_moment(tmp_path: Path, action: str) -> None:
    """The process and all of its git die together, at a random time."""
    base = tmp_path / "stage"
    _, new = steps_of(base, action)
    chance = random.Random(17)
    for kill in range(KILLS):
        stage = make_stage(base, diverged=False)
        head = run_git(stage.repository, "rev-parse", "main").strip()
        command = [sys.executable, str(PROGRAM), str(base), action, "-1"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.2, 1.2))  # the moment itself is what is tried
        kill_with_children(process.pid)
        process.wait()
        if action == "apply":
            asyncio.run(stage.worktree().apply())
            assert folder_state(stage.repository) in (stage.old, new), f"kill {kill}"
        else:
            asyncio.run(stage.worktree().changes())
            check_merged_or_not(stage, head, new, f"kill {kill}")
        stage.check_contents()


def kill_with_children(pid: int) -> None:
    """Stop a process, so that it starts no others, and kill it with all that it started."""
    os.kill(pid, signal.SIGSTOP)
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        for each in child.read_text().split():
            kill_with_children(int(each))
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
