"""A user's repository, found without git; and git on a repository of our own: errors, time limits, its end."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dragoman.workspace.git import Abort, Git, GitError, find_repository, read_small
from workspace.folder_state import run_git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "main"
    folder.mkdir()
    run_git(folder, "init", "--quiet")
    (folder / "a").write_text("a")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_a_repository_is_found_from_a_folder_inside_it(repository: Path, tmp_path: Path) -> None:
    (repository / "deep" / "er").mkdir(parents=True)
    assert find_repository(repository / "deep" / "er") == (repository, repository / ".git")
    assert find_repository(tmp_path) is None


def test_a_linked_work_tree_has_the_repository_of_its_main_one(repository: Path, tmp_path: Path) -> None:
    run_git(repository, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    assert find_repository(tmp_path / "linked") == (tmp_path / "linked", repository / ".git")


def test_a_file_that_is_no_link_to_a_repository_is_none(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("not a link")
    assert find_repository(tmp_path) is None


def test_a_command_that_fails_says_why(repository: Path) -> None:
    git = Git(repository / ".git", repository)
    with pytest.raises(GitError, match="git cat-file failed") as caught:
        git.run("cat-file", "blob", "nothing")
    assert caught.value.exit_code == 128
    assert "nothing" in caught.value.stderr


def test_a_process_that_takes_too_long_is_ended(repository: Path) -> None:
    git = Git(repository / ".git", repository, deadline=0.0)
    os.mkfifo(repository / "pipe")  # nobody writes to it: reading it does not end
    with pytest.raises(GitError, match="took too long"):
        git.run("hash-object", "pipe")


def test_another_thread_can_end_it(repository: Path) -> None:
    abort = Abort()
    git = Git(repository / ".git", repository, abort=abort)
    os.mkfifo(repository / "pipe")  # nobody writes to it: reading it does not end
    errors: list[GitError] = []

    def work() -> None:
        for _ in range(2):
            try:
                git.run("hash-object", "pipe")
            except GitError as error:
                errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    abort.kill()  # before the process has started, or while it runs: both are ended, and so is the one after it
    thread.join(timeout=30)
    assert len(errors) == 2
    abort.reset()
    assert git.run("rev-parse", "HEAD")


def test_a_folder_in_the_place_of_a_small_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    assert read_small(tmp_path, 100) is None
    after = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    assert len(after) == len(before)
