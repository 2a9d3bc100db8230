"""Copies of workspaces: the same files, a repository of their own, and nothing written to the original."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from dragoman.errors import InputError
from dragoman.workspace import Workspace, copies
from dragoman.workspace.copies import copy_workspace, moved_path

GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")


def git(folder: Path, *args: str) -> str:
    return subprocess.run([*GIT, *args], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def digests(folder: Path) -> dict[str, str]:
    """Return what every file of a folder is and contains, `.git` included."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"link to {os.readlink(path)}"
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(folder))] = f"{path.stat().st_mode:o} {content}"
    return found


def without_git(files: dict[str, str]) -> dict[str, str]:
    return {name: state for name, state in files.items() if not name.startswith(".git/")}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("ignored.txt\n.env\n")
    (folder / "src" / "main.py").write_bytes(b"one\r\ntwo\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("src/main.py")
    (folder / "gone.txt").write_text("gone")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    (folder / "gone.txt").unlink()
    (folder / "src" / "main.py").write_bytes(b"changed\r\n\xff\x00")
    (folder / "new.txt").write_text("new")
    (folder / "ignored.txt").write_text("ignored")
    (folder / ".env").write_text("SECRET=1")
    return folder


@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_link_in_the_place_of_a_tracked_folder_is_copied_and_not_followed(
    repository: Path, tmp_path: Path, is_absolute: bool
) -> None:
    outside = tmp_path / "outside"
    (repository / "src").rename(outside)
    (repository / "src").symlink_to(outside if is_absolute else "../outside")
    before = digests(tmp_path)
    into = tmp_path / "into"
    copy = copy_workspace(Workspace(repository), into).cwd
    assert os.readlink(copy / "src") == os.readlink(repository / "src")
    assert not (into / "0" / "outside").exists()
    assert {name: state for name, state in digests(tmp_path).items() if not name.startswith("into/")} == before


def test_a_copy_has_the_files_as_they_are_without_ignored_ones(repository: Path, tmp_path: Path) -> None:
    before = digests(repository)
    copy = copy_workspace(Workspace(repository / "src", [repository]), tmp_path / "copies")
    assert digests(repository) == before
    top = copy.additional[0]
    assert copy.cwd == top / "src"
    ignored = ("ignored.txt", ".env")
    expected = {name: state for name, state in without_git(before).items() if name not in ignored}
    assert without_git(digests(top)) == expected
    assert git(top, "status", "--porcelain") == git(repository, "status", "--porcelain")
    assert git(top, "rev-parse", "HEAD") == git(repository, "rev-parse", "HEAD")
    assert git(top, "branch", "--show-current") == "main"


def test_ignored_files_are_copied_where_worktreeinclude_names_them(repository: Path, tmp_path: Path) -> None:
    (repository / ".worktreeinclude").write_text(".env\n")
    copy = copy_workspace(Workspace(repository), tmp_path / "copies")
    assert (copy.cwd / ".env").read_text() == "SECRET=1"
    assert not (copy.cwd / "ignored.txt").exists()


def test_commits_branches_and_stashes_of_a_copy_are_its_own(repository: Path, tmp_path: Path) -> None:
    before = digests(repository)
    first, second = (copy_workspace(Workspace(repository), tmp_path / name).cwd for name in ("first", "second"))
    git(first, "checkout", "-qb", "mine")
    git(first, "add", "-A")
    git(first, "commit", "-qm", "of the first")
    (first / "new.txt").write_text("stashed")
    git(first, "stash")
    assert "mine" not in git(second, "branch", "--all")
    assert git(second, "stash", "list") == ""
    pushed = subprocess.run([*GIT, "push", "original", "mine"], cwd=first, capture_output=True, check=False)
    assert pushed.returncode != 0
    assert digests(repository) == before


def test_hooks_and_filters_of_the_repository_do_not_run(repository: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(hook))
    git(repository, "config", "filter.evil.clean", f"touch {ran}; cat")
    (repository / ".gitattributes").write_text("*.txt filter=evil\n")
    copy_workspace(Workspace(repository), tmp_path / "copies")
    assert not ran.exists()


def test_a_repository_without_a_commit_is_copied(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "file.txt").write_text("text")
    copy = copy_workspace(Workspace(folder), tmp_path / "copies")
    assert git(copy.cwd, "status", "--porcelain") == "?? file.txt"


def test_a_folder_without_git_is_copied_whole(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    (folder / "empty").mkdir(parents=True)
    (folder / "sub").mkdir()
    (folder / "sub" / "file.bin").write_bytes(b"\x00\xff")
    (folder / "link").symlink_to("sub", target_is_directory=True)
    copy = copy_workspace(Workspace(folder), tmp_path / "copies")
    assert digests(copy.cwd) == digests(folder)
    assert (copy.cwd / "empty").is_dir()


def test_a_folder_that_git_ignores_is_copied_whole(repository: Path, tmp_path: Path) -> None:
    (repository / ".gitignore").write_text("build/\n")
    (repository / "build").mkdir()
    (repository / "build" / "made.txt").write_text("made")
    copy = copy_workspace(Workspace(repository / "build"), tmp_path / "copies")
    assert digests(copy.cwd) == digests(repository / "build")


def test_a_folder_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MAX_COPIED_FILES", 2)
    for name in "abc":
        (tmp_path / "plain" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "plain" / name).write_text(name)
    with pytest.raises(InputError, match="too large for a copy"):
        copy_workspace(Workspace(tmp_path / "plain"), tmp_path / "copies")


def test_paths_of_the_original_are_found_in_the_copy(repository: Path, tmp_path: Path) -> None:
    original = Workspace(repository)
    copy = copy_workspace(original, tmp_path / "copies")
    assert moved_path("src", original, copy) == copy.cwd / "src"
    assert moved_path(repository / "new", original, copy) == copy.cwd / "new"
    assert moved_path("/usr/lib/elsewhere", original, copy) == Path("/usr/lib/elsewhere")
