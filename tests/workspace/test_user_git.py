"""Git on the user's own repository: the user's configuration counts, ours does not, and nothing is asked."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.workspace import user_git
from dragoman.workspace.git import GitError
from dragoman.workspace.user_git import UserGit
from workspace.folder_state import run_git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "main"
    folder.mkdir()
    run_git(folder, "init", "--quiet", "--initial-branch=main")
    run_git(folder, "config", "user.name", "Ada")
    run_git(folder, "config", "user.email", "ada@example.org")
    (folder / "a").write_text("a\n")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_a_commit_has_the_users_name_and_runs_the_users_hooks(repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch hook-ran\n")
    hook.chmod(0o755)
    (repository / "a").write_text("b\n")
    git = UserGit(repository)
    git.run("commit", "--quiet", "-am", "second")
    assert git.line("log", "-1", "--format=%an %s") == "Ada second"
    assert (repository / "hook-ran").exists()


def test_variables_of_our_environment_do_not_lead_git_elsewhere(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert UserGit(repository).line("rev-parse", "--absolute-git-dir") == str(repository / ".git")


def test_a_planted_git_file_is_not_followed_where_the_repository_is_known(repository: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    run_git(repository, "worktree", "add", "--quiet", str(linked))
    git_dir = repository / ".git" / "worktrees" / "linked"
    other = tmp_path / "other"
    other.mkdir()
    run_git(other, "init", "--quiet")
    (linked / ".git").write_text(f"gitdir: {other / '.git'}\n")
    assert UserGit(linked).line("rev-parse", "--absolute-git-dir") == str(other / ".git")
    assert UserGit(linked, git_dir=git_dir).line("rev-parse", "--absolute-git-dir") == str(git_dir)


def test_nobody_is_asked_in_an_editor(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_EDITOR", "cat >&2; sleep 1000")
    with pytest.raises(GitError, match="git commit failed"):
        UserGit(repository).run("commit", "--allow-empty")


def test_a_failed_command_says_why_and_call_returns_the_exit_code(repository: Path) -> None:
    git = UserGit(repository)
    with pytest.raises(GitError, match="git cat-file failed") as caught:
        git.run("cat-file", "blob", "nothing")
    assert caught.value.exit_code == 128
    assert git.call("merge-base", "--is-ancestor", "HEAD", "HEAD").exit_code == 0
    assert git.call("rev-parse", "--verify", "--quiet", "nothing").exit_code == 1


def test_a_command_over_its_time_ends_with_the_programs_that_it_started(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    started: list[int] = []

    class TimerAtStart(threading.Thread):
        """The time is over as soon as the program has started."""

        def __init__(self, interval: float, function: Callable[[], None]) -> None:
            super().__init__()
            self._function = function

        def run(self) -> None:
            started.append(int(pids.read_text()))
            self._function()

        def cancel(self) -> None:
            pass

    monkeypatch.setattr(threading, "Timer", TimerAtStart)
    with pytest.raises(GitError, match="took longer than 7 seconds"):
        UserGit(repository, timeout_s=7).run("-c", f"alias.wait=!echo $$ > {pids}; exec sleep 1000", "wait")
    state = Path(f"/proc/{started[0]}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_output_is_bounded(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_git, "MAX_OUTPUT_BYTES", 1000)
    (repository / "large").write_bytes(b"x" * 5000)
    git = UserGit(repository)
    git.run("add", "large")
    with pytest.raises(GitError, match="printed more than"):
        git.run("cat-file", "blob", ":large")


def test_lines_of_progress_are_passed_on(repository: Path) -> None:
    lines: list[str] = []
    UserGit(repository).run("-c", "alias.say=!printf 'one\\rtwo\\nthree\\n' >&2", "say", on_progress=lines.append)
    assert lines == ["one", "two", "three"]


def test_looking_at_the_state_does_not_touch_the_index(repository: Path) -> None:
    (repository / "a").touch()
    before = (repository / ".git" / "index").read_bytes()
    UserGit(repository).run("status", "--porcelain")
    assert (repository / ".git" / "index").read_bytes() == before
