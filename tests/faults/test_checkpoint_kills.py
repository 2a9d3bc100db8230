"""`kill -9` in the middle of a checkpoint or a rewind: the next command completes it, and no content is lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.workspace.checkpoint_store import CheckpointStore, LogEntry
from workspace.folder_state import folder_state

PROGRAM = Path(__file__).parent / "killed_checkpoints.py"
KILLS = 20
FILES = 12

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def fill(folder: Path, version: str) -> None:
    """Change all files, replace a folder by a file or the other way round, and add and remove some."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number in range(FILES):
        (folder / f"file-{number}").write_text(f"{version} {number}\r\n")
    (folder / f"only-{version}").mkdir()
    (folder / f"only-{version}" / "file").write_text(version)
    if version == "old":
        (folder / "place").write_text("file")
        (folder / "tool").write_text("#!/bin/sh\n")
        (folder / "tool").chmod(0o755)
    else:
        (folder / "place").mkdir()
        (folder / "place" / "inner").write_text("inner")
        (folder / "tool").symlink_to("place")


class Stage:
    """A folder with a checkpoint of its old files, and new files in it."""

    def __init__(self, base: Path) -> None:
        self.home, self.folder = base / "home", base / "work"
        fill(self.folder, "old")
        self.old = folder_state(self.folder)
        repository = self.repository()
        repository.take([LogEntry(at=1.0, session_id="s", run_id="target", moment="after", tree="")])
        fill(self.folder, "new")
        self.new = folder_state(self.folder)

    def repository(self) -> CheckpointStore:
        return CheckpointStore(self.home, self.folder, max_file_bytes=10**6)

    def run(self, action: str, step: int) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, str(PROGRAM), str(self.home), str(self.folder), action, str(step)]
        return subprocess.run(command, capture_output=True, check=False)

    def check_contents(self) -> None:
        """Check that the repository is whole, and has all contents of every tree of its log."""
        repository = self.repository()
        with repository.open() as git:
            git.run("fsck", "--strict", "--no-dangling")
            for entry in repository.read_log():
                git.run("ls-tree", "-r", "-z", "-l", entry.tree)


def steps_of(tmp_path: Path, action: str) -> int:
    done = Stage(tmp_path / "count").run(action, -1)
    assert done.returncode == 0, done.stderr.decode()
    return int(done.stdout)


def test_a_rewind_that_is_killed_at_any_step_is_completed_or_was_never_begun(tmp_path: Path) -> None:
    steps = steps_of(tmp_path, "rewind")
    outcomes = set()
    for step in sorted(random.Random(17).sample(range(steps), min(KILLS, steps))):
        base = tmp_path / f"kill-{step}"
        base.mkdir()
        stage = Stage(base)
        assert stage.run("rewind", step).returncode == -signal.SIGKILL
        left = folder_state(stage.folder)
        for path, (_, content) in left.items():
            if b".dragoman-" not in path:
                assert content in {content for _, content in (*stage.old.values(), *stage.new.values())}, "half a file"
        stage.repository().take()
        state = folder_state(stage.folder)
        assert state in (stage.old, stage.new), f"step {step} of {steps}"
        outcomes.add(state == stage.old)
        if state == stage.old:
            rewound = next(entry for entry in stage.repository().read_log() if entry.moment == "rewind")
            with stage.repository().open() as git:
                assert git.run("cat-file", "blob", f"{rewound.tree}:file-0") == b"new 0\r\n"
        stage.check_contents()
    assert outcomes == {True, False}


def test_a_checkpoint_that_is_killed_at_any_step_is_taken_by_the_next_command(tmp_path: Path) -> None:
    steps = steps_of(tmp_path, "checkpoint")
    for step in sorted(random.Random(17).sample(range(steps), min(KILLS, steps))):
        base = tmp_path / f"kill-{step}"
        base.mkdir()
        stage = Stage(base)
        assert stage.run("checkpoint", step).returncode == -signal.SIGKILL
        assert folder_state(stage.folder) == stage.new
        _, (entry,) = stage.repository().take(
            [LogEntry(at=3.0, session_id="s", run_id="next", moment="after", tree="")]
        )
        assert entry is not None
        with stage.repository().open() as git:
            assert git.run("cat-file", "blob", f"{entry.tree}:file-0") == b"new 0\r\n"
        stage.check_contents()


def test_git_itself_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    """The process and its git die together, at a random time."""
    chance = random.Random(17)
    for kill in range(KILLS):
        base = tmp_path / f"kill-{kill}"
        base.mkdir()
        stage = Stage(base)
        command = [sys.executable, str(PROGRAM), str(stage.home), str(stage.folder), "rewind", "-1"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        time.sleep(chance.uniform(0.05, 0.5))  # the moment itself is what is tried
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        stage.repository().take()
        assert folder_state(stage.folder) in (stage.old, stage.new)
        stage.check_contents()
