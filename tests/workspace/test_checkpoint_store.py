"""Checkpoints of one folder: which files they have, byte for byte, and what they leave alone."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from dragoman.errors import CheckpointError
from dragoman.protocol.checkpoints import RunRef, SkippedPath
from dragoman.workspace.checkpoint_store import CheckpointStore, LogEntry
from dragoman.workspace.git import Git
from workspace.folder_state import digest, folder_state, plain_tree, run_git

LIMIT_BYTES = 100_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def new_store(home: Path, folder: Path) -> Callable[[], CheckpointStore]:
    return lambda: CheckpointStore(home, folder, max_file_bytes=LIMIT_BYTES)


@pytest.fixture
def store(new_store: Callable[[], CheckpointStore]) -> CheckpointStore:
    return new_store()


def request(run_id: str = "run", moment: str = "before", *, session_id: str = "s", at: float = 1.0) -> LogEntry:
    return LogEntry(at=at, session_id=session_id, run_id=run_id, moment=moment, tree="")  # type: ignore[arg-type]


def take(store: CheckpointStore, entry: LogEntry | None = None) -> LogEntry:
    _, (taken,) = store.take([entry or request()])
    assert taken is not None
    return taken


def files_in(store: CheckpointStore, tree: str) -> set[bytes]:
    with store.open() as git:
        return set(git.run("ls-tree", "-r", "-z", "--name-only", tree).split(b"\0")) - {b""}


def content(store: CheckpointStore, tree: str, path: str) -> bytes:
    with store.open() as git:
        return git.run("cat-file", "blob", f"{tree}:{path}")


def rewind(store: CheckpointStore, target: LogEntry) -> list[str]:
    """Rewind to a checkpoint; return the paths that were left as they are."""
    with store.open() as git:
        plan = store.plan(git, target)
        entry = store.begin_rewind(plan, LogEntry(at=9.0, session_id="s", moment="rewind", tree="", operation="0" * 16))
        store.apply_rewind(git, plan, entry)
        return list(plan.left_paths)


# -- content


def test_a_checkpoint_has_the_same_tree_as_plain_git_makes_of_the_folder(
    store: CheckpointStore, folder: Path, tmp_path: Path
) -> None:
    (folder / "windows.txt").write_bytes(b"one\r\ntwo\r\n")
    (folder / "mixed.txt").write_bytes(b"one\r\ntwo\nthree\r")
    (folder / "binary").write_bytes(bytes(range(256)) * 10)
    (folder / "empty").write_bytes(b"")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "deep" / "er" / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("deep/er")
    (folder / "broken").symlink_to("/nowhere/at all")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe name")).write_text("not UTF-8")
    for name in ("with space", "new\nline", "ta\tb", ":colon", "*?[glob]", "back\\slash", "#hash", "-dash", "tr "):
        (folder / name).write_text(name)
    taken = take(store)
    assert taken.skipped_paths == ()
    assert taken.tree == plain_tree(folder, tmp_path / "plain")


def test_attributes_of_the_workspace_change_no_byte(store: CheckpointStore, folder: Path) -> None:
    (folder / ".gitattributes").write_text("* text=auto eol=crlf ident filter=lfs working-tree-encoding=UTF-16 -diff\n")
    data = b"$Id$\r\none\ntwo\r\n"
    (folder / "a.txt").write_bytes(data)
    taken = take(store)
    assert content(store, taken.tree, "a.txt") == data
    (folder / "a.txt").write_bytes(b"changed")
    rewind(store, taken)
    assert (folder / "a.txt").read_bytes() == data


def test_an_unchanged_folder_keeps_its_tree_and_a_changed_one_gets_another(
    store: CheckpointStore, folder: Path
) -> None:
    (folder / "a").write_text("1")
    first = take(store)
    assert take(store, request(moment="after")).tree == first.tree
    (folder / "a").write_text("2")  # of the same length, perhaps in the same moment
    assert take(store).tree != first.tree


def test_a_file_that_becomes_a_folder_and_a_folder_that_becomes_a_file_are_recorded(
    store: CheckpointStore, folder: Path, tmp_path: Path
) -> None:
    (folder / "file").write_text("file")
    (folder / "folder").mkdir()
    (folder / "folder" / "inner").write_text("inner")
    first = take(store)
    before = folder_state(folder)
    (folder / "file").unlink()
    (folder / "file").mkdir()
    (folder / "file" / "x").write_text("x")
    (folder / "folder" / "inner").unlink()
    (folder / "folder").rmdir()
    (folder / "folder").symlink_to("file")
    assert take(store).tree == plain_tree(folder, tmp_path / "plain")
    rewind(store, first)
    assert folder_state(folder) == before


def test_many_new_files_are_written_into_one_pack(store: CheckpointStore, folder: Path) -> None:
    for number in range(700):
        (folder / f"file-{number}").write_text(f"content {number}")
    taken = take(store)
    objects = store.path / "git" / "objects"
    loose = list(objects.glob("??/*"))
    assert len(list((objects / "pack").glob("*.pack"))) == 1
    assert len(loose) < 20, "only trees and commits are files of their own"
    assert content(store, taken.tree, "file-699") == b"content 699"


# -- what is not in a checkpoint


def test_ignored_files_are_left_out_by_all_lists_that_git_reads(
    store: CheckpointStore, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_git(folder, "init", "--quiet")
    (folder / ".gitignore").write_text("*.log\n/build/\n")
    (folder / ".git" / "info" / "exclude").write_text("private\n")
    (tmp_path / "user" / "git").mkdir(parents=True)
    (tmp_path / "user" / "git" / "ignore").write_text("*.swp\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    (folder / "build").mkdir()
    (folder / "sub").mkdir()
    for name in ("a.log", "build/out", "private", "x.swp", "kept", "sub/build"):
        (folder / name).write_text(name)
    assert files_in(store, take(store).tree) == {b".gitignore", b"kept", b"sub/build"}


def test_the_excludes_file_of_the_users_configuration_counts(
    store: CheckpointStore, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    user = tmp_path / "user"
    user.mkdir()
    (user / "ignored-everywhere").write_text("*.bak\n")
    (user / ".gitconfig").write_text(f"[core]\n\texcludesFile = {user}/ignored-everywhere\n")
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (folder / "a.bak").write_text("")
    (folder / "a").write_text("")
    assert files_in(store, take(store).tree) == {b"a"}


def test_files_that_the_user_tracks_though_they_are_ignored_are_recorded(store: CheckpointStore, folder: Path) -> None:
    run_git(folder, "init", "--quiet")
    (folder / ".gitignore").write_text("*.gen\n")
    (folder / "tracked.gen").write_text("1")
    (folder / "other.gen").write_text("1")
    run_git(folder, "add", "--force", "tracked.gen")
    first = take(store)
    assert files_in(store, first.tree) == {b".gitignore", b"tracked.gen"}
    (folder / "tracked.gen").write_text("2")
    assert take(store).tree != first.tree


def test_a_folder_inside_a_repository_follows_the_lists_above_it_and_records_only_itself(
    home: Path, tmp_path: Path
) -> None:
    top = tmp_path / "top"
    (top / "sub" / "out").mkdir(parents=True)
    run_git(top, "init", "--quiet")
    (top / ".gitignore").write_text("*.log\n/sub/out/\n")
    for name in ("above", "sub/a", "sub/a.log", "sub/out/b"):
        (top / name).write_text(name)
    store = CheckpointStore(home, top / "sub", max_file_bytes=LIMIT_BYTES)
    taken = take(store)
    assert files_in(store, taken.tree) == {b"sub/a"}
    (top / "above").write_text("changed")
    (top / "sub" / "a").unlink()
    rewind(store, taken)
    assert (top / "sub" / "a").read_text() == "sub/a"
    assert (top / "above").read_text() == "changed"


def test_a_folder_that_is_ignored_by_a_repository_above_is_recorded_as_its_own(home: Path, tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "scratch").mkdir(parents=True)
    run_git(top, "init", "--quiet")
    (top / ".gitignore").write_text("scratch/\n")
    (top / "scratch" / "a").write_text("a")
    store = CheckpointStore(home, top / "scratch", max_file_bytes=LIMIT_BYTES)
    assert files_in(store, take(store).tree) == {b"a"}


def test_nested_repositories_and_large_files_are_reported(store: CheckpointStore, folder: Path) -> None:
    (folder / "large").write_bytes(b"x" * (LIMIT_BYTES + 1))
    (folder / "empty-repository").mkdir()
    run_git(folder / "empty-repository", "init", "--quiet")
    (folder / "lib").mkdir()
    run_git(folder / "lib", "init", "--quiet")
    (folder / "lib" / "code").write_text("code")
    run_git(folder / "lib", "add", ".")
    run_git(folder / "lib", "commit", "--quiet", "-m", "first")
    (folder / ".GIT").mkdir()
    (folder / ".GIT" / "config").write_text("")
    (folder / "a").write_text("a")
    taken = take(store)
    assert files_in(store, taken.tree) == {b"a"}
    assert [skipped.path for skipped in taken.skipped_paths] == [".GIT/config", "empty-repository", "large", "lib"]
    assert taken.skipped_paths[1] == SkippedPath(path="empty-repository", reason="a nested repository")
    assert "larger than" in taken.skipped_paths[2].reason


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_reported_and_costs_nothing_else(store: CheckpointStore, folder: Path) -> None:
    for name in "abcde":
        (folder / name).write_text(name)
    (folder / "c").chmod(0)
    taken = take(store)
    assert files_in(store, taken.tree) == {b"a", b"b", b"d", b"e"}
    assert [skipped.path for skipped in taken.skipped_paths] == ["c"]


def test_files_that_git_refuses_are_found_one_by_one(
    store: CheckpointStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcdefg":
        (folder / name).write_text(name)
    run = Git.run

    def refuse(git: Git, *args: str, **options: object) -> bytes:
        if args[0] == "update-index" and b"c\0" in options.get("stdin", b""):  # type: ignore[operator]
            return run(git, "cat-file", "blob", "no-such-object")
        return run(git, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Git, "run", refuse)
    taken = take(store)
    assert files_in(store, taken.tree) == {b"a", b"b", b"d", b"e", b"f", b"g"}
    assert [skipped.path for skipped in taken.skipped_paths] == ["c"]


def test_our_own_folder_is_in_no_checkpoint(folder: Path) -> None:
    store = CheckpointStore(folder / "odd [name]" / ".dragoman", folder, max_file_bytes=LIMIT_BYTES)
    (folder / "a").write_text("a")
    take(store)
    assert files_in(store, take(store).tree) == {b"a"}


def test_a_home_folder_is_refused_with_a_reason(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "users" / "me"))
    (tmp_path / "users" / "me").mkdir(parents=True)
    for folder in (tmp_path / "users" / "me", tmp_path / "users"):
        with pytest.raises(CheckpointError, match="home folder"):
            take(CheckpointStore(home, folder, max_file_bytes=LIMIT_BYTES))


def test_a_folder_with_too_much_is_refused_with_its_size(
    store: CheckpointStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.workspace.shadow.MAX_NEW_FILES", 2)
    for name in "abc":
        (folder / name).write_text(name)
    with pytest.raises(CheckpointError, match="3 new files"):
        take(store)


# -- the user's own git


def test_the_users_repository_is_not_changed(store: CheckpointStore, folder: Path) -> None:
    run_git(folder, "init", "--quiet")
    (folder / "a").write_text("1")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "--quiet", "-m", "first")
    (folder / "a").write_text("staged")
    run_git(folder, "add", ".")
    (folder / "a").write_text("not staged")
    (folder / "b").write_text("untracked")
    before = digest(folder / ".git")
    first = take(store)
    (folder / "a").write_text("again")
    take(store)
    rewind(store, first)
    store.prune(now=1e12, max_age_s=1.0, max_bytes=1)
    store.forget("s")
    assert digest(folder / ".git") == before


def test_no_program_of_the_users_or_the_workspaces_configuration_runs(
    store: CheckpointStore, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho run >> {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    hostile = f"""
[core]
    fsmonitor = {trap}
    hooksPath = {tmp_path}/hooks
    autocrlf = true
[filter "trap"]
    clean = {trap}
    smudge = {trap}
    process = {trap}
[diff "trap"]
    textconv = {trap}
    command = {trap}
[diff]
    external = {trap}
"""
    (tmp_path / "hooks").mkdir()
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "pre-commit", "post-commit"):
        (tmp_path / "hooks" / hook).symlink_to(trap)
    run_git(folder, "init", "--quiet")
    (folder / ".git" / "config").write_text(hostile)
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / ".gitconfig").write_text(hostile)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for name, value in {
        "GIT_DIR": str(folder / ".git"),
        "GIT_INDEX_FILE": str(folder / ".git" / "index"),
        "GIT_WORK_TREE": "/",
        "GIT_EXTERNAL_DIFF": str(trap),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": str(tmp_path / "hooks"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "objects"),
    }.items():
        monkeypatch.setenv(name, value)
    (folder / ".gitattributes").write_text("* filter=trap diff=trap\n")
    (folder / "a").write_bytes(b"one\r\n")
    first = take(store)
    (folder / "a").write_bytes(b"two\r\n")
    take(store)
    with store.open() as git:
        store.repository.changes(git, first.tree, "HEAD")
    rewind(store, first)
    assert (folder / "a").read_bytes() == b"one\r\n"
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "objects").exists()


# -- rewinding


def test_a_rewind_brings_back_content_links_modes_and_removals(store: CheckpointStore, folder: Path) -> None:
    (folder / "changed").write_bytes(b"old\r\n")
    (folder / "removed").write_bytes(b"\0\1")
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o755)
    (folder / "link").symlink_to("changed")
    (folder / "renamed").write_text("same")
    target = take(store)
    before = folder_state(folder)
    (folder / "changed").write_bytes(b"new")
    (folder / "removed").unlink()
    (folder / "tool").chmod(0o644)
    (folder / "link").unlink()
    (folder / "link").write_text("a file now")
    (folder / "renamed").rename(folder / "other")
    (folder / "new" / "deep").mkdir(parents=True)
    (folder / "new" / "deep" / "file").write_text("new")
    assert rewind(store, target) == []
    assert folder_state(folder) == before
    assert not (folder / "new").exists(), "folders that it emptied are removed"
    assert take(store).tree == target.tree


def test_a_rewind_keeps_modes_that_git_does_not_know(store: CheckpointStore, folder: Path) -> None:
    secret = folder / "secret"
    secret.write_text("old")
    secret.chmod(0o600)
    target = take(store)
    secret.write_text("new")
    rewind(store, target)
    assert secret.read_text() == "old"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_private_file_that_was_deleted_is_private_again(store: CheckpointStore, folder: Path) -> None:
    modes = {b"secret": 0o600, b"tool": 0o700, b"shared": 0o664, b"usual": 0o644, b"odd\xff": 0o640}
    paths = {folder / os.fsdecode(name): mode for name, mode in modes.items()}
    for path, mode in paths.items():
        path.write_text("content")
        path.chmod(mode)
    target = take(store)
    for path in paths:
        path.unlink()
    take(store)
    rewind(store, target)
    assert {path: stat.S_IMODE(path.stat().st_mode) for path in paths} == paths
    # A mode is that of the content that was recorded last.
    (folder / "secret").chmod(0o644)
    (folder / "secret").write_text("public now")
    public = take(store)
    (folder / "secret").unlink()
    rewind(store, public)
    assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0o644


def test_an_ignored_file_that_a_rewind_overwrites_is_recorded_first(store: CheckpointStore, folder: Path) -> None:
    (folder / "a.log").write_text("recorded")
    target = take(store)
    (folder / "a.log").unlink()
    take(store)
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "a.log").write_text("ignored, and in no checkpoint yet")
    rewind(store, target)
    assert (folder / "a.log").read_text() == "recorded"
    saved = next(entry for entry in store.read_log() if entry.moment == "rewind")
    assert content(store, saved.tree, "a.log") == b"ignored, and in no checkpoint yet"


def test_a_rewind_does_not_remove_files_that_were_ignored_when_the_checkpoint_was_taken(
    store: CheckpointStore, folder: Path
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / ".gitignore").write_text("cache\n")
    (folder / "sub" / "cache").write_text("there all the time")
    target = take(store)
    (folder / "sub" / ".gitignore").unlink()
    (folder / "new").write_text("new")
    assert rewind(store, target) == ["sub/cache"]
    assert (folder / "sub" / "cache").read_text() == "there all the time"
    assert not (folder / "new").exists()


def test_files_that_a_checkpoint_lacks_are_left_as_they_are(store: CheckpointStore, folder: Path) -> None:
    (folder / "data").write_text("small")
    (folder / "lib").write_text("a file")
    target = take(store)
    (folder / "data").write_bytes(b"x" * (LIMIT_BYTES + 1))
    (folder / "lib").unlink()
    (folder / "lib").mkdir()
    run_git(folder / "lib", "init", "--quiet")
    (folder / "lib" / "new").write_text("of the nested repository")
    take(store)
    assert rewind(store, target) == ["lib"]
    assert (folder / "data").stat().st_size == LIMIT_BYTES + 1
    assert (folder / "lib" / "new").exists()


def test_a_rewind_that_one_file_prevents_changes_nothing(store: CheckpointStore, folder: Path) -> None:
    (folder / "a").write_text("old")
    (folder / "place").write_text("file")
    (folder / "z").write_text("old")
    (folder / ".gitignore").write_text("*.o\n")
    target = take(store)
    (folder / "a").write_text("new")
    (folder / "z").unlink()
    (folder / "place").unlink()
    (folder / "place").mkdir()
    (folder / "place" / "x.o").write_text("ignored: the folder cannot be removed")
    before = folder_state(folder)
    with pytest.raises(CheckpointError, match="place: a folder with files"):
        rewind(store, target)
    assert folder_state(folder) == before
    assert [entry.moment for entry in store.read_log()] == ["before", "rewind", "reverted"]
    assert not store.is_rewinding


def test_empty_folders_make_room_for_a_file(store: CheckpointStore, folder: Path) -> None:
    (folder / "place").write_text("file")
    target = take(store)
    (folder / "place").unlink()
    (folder / "place" / "deep" / "er").mkdir(parents=True)
    rewind(store, target)
    assert (folder / "place").read_text() == "file"


@pytest.mark.parametrize("replaced", ["work", "."], ids=["the folder", "one above it"])
def test_a_link_in_the_place_of_the_folder_is_neither_recorded_nor_rewound(
    home: Path, tmp_path: Path, replaced: str
) -> None:
    folder = tmp_path / "above/work"
    folder.mkdir(parents=True)
    (folder / "file").write_text("mine")
    store = CheckpointStore(home, folder, max_file_bytes=LIMIT_BYTES)
    taken = take(store)
    other = tmp_path / "other"
    (other / "work").mkdir(parents=True)
    for each in (other, other / "work"):
        (each / "secret").write_text("of another folder")
    before = folder_state(other)
    moved = (folder.parent / replaced).resolve()
    moved.rename(tmp_path / "moved")
    moved.symlink_to(other)
    with pytest.raises(CheckpointError, match="replaced by a symbolic link"):
        take(store, request(moment="after"))
    with pytest.raises(CheckpointError, match="replaced by a symbolic link"):
        rewind(store, taken)
    assert folder_state(other) == before
    with store.open() as git:
        objects = git.run("cat-file", "--batch-all-objects", "--batch-check=%(objectsize)").split()
    assert str(len("of another folder")).encode() not in objects
    store.forget("s")  # what is there can still be removed


def test_a_file_that_is_changed_after_the_plan_was_made_is_not_overwritten(
    store: CheckpointStore, folder: Path
) -> None:
    (folder / "a").write_text("old")
    (folder / "b").write_text("old")
    target = take(store)
    (folder / "a").write_text("new")
    (folder / "b").write_text("new")
    with store.open() as git:
        plan = store.plan(git, target)
        entry = store.begin_rewind(plan, request(moment="rewind"))
        (folder / "b").write_text("saved by an editor just now")
        with pytest.raises(CheckpointError, match="b: it was changed meanwhile"):
            store.apply_rewind(git, plan, entry)
    assert (folder / "a").read_text() == "new"
    assert (folder / "b").read_text() == "saved by an editor just now"


def test_nothing_is_written_through_a_link_out_of_the_folder(
    store: CheckpointStore, folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("outside")
    (folder / "sub").mkdir()
    (folder / "sub" / "a").write_text("old")
    target = take(store)
    (folder / "sub" / "a").write_text("new")
    with store.open() as git:
        plan = store.plan(git, target)
        entry = store.begin_rewind(plan, request(moment="rewind"))
        (folder / "sub" / "a").unlink()
        (folder / "sub").rmdir()
        (folder / "sub").symlink_to(outside)
        with pytest.raises(CheckpointError):
            store.apply_rewind(git, plan, entry)
    assert (outside / "a").read_text() == "outside"
    # As an ordinary change, the link is replaced by the folder that was there.
    rewind(store, target)
    assert (outside / "a").read_text() == "outside"
    assert (folder / "sub" / "a").read_text() == "old"


# -- several processes, and what a killed one leaves


def test_runs_of_other_sessions_are_named_while_they_are_active(
    new_store: Callable[[], CheckpointStore],
) -> None:
    one, other = new_store(), new_store()
    take(one, request("run-1", session_id="one"))
    assert take(other, request("run-2", session_id="other")).other_runs == (RunRef(session_id="one", run_id="run-1"),)
    assert set(one.active_runs()) == {
        RunRef(session_id="one", run_id="run-1"),
        RunRef(session_id="other", run_id="run-2"),
    }
    take(one, request("run-1", "after", session_id="one"))
    assert take(other, request("run-2", "after", session_id="other")).other_runs == ()
    assert one.active_runs() == []


@pytest.mark.parametrize("name", [".", "inner", ".."])
def test_runs_in_a_folder_above_or_inside_are_active_here_too(name: str, home: Path, tmp_path: Path) -> None:
    """A rewind would change files below the agent's hands, whichever of the folders it works in."""
    folder = tmp_path / "project/work"
    for each in (folder / "inner", tmp_path / "project/beside"):
        each.mkdir(parents=True)
    for each in (folder / name, tmp_path / "project/beside"):
        other = CheckpointStore(home, each.resolve(), max_file_bytes=LIMIT_BYTES)
        other.take([request(run_id=each.name, session_id="other")])
    store = CheckpointStore(home, folder, max_file_bytes=LIMIT_BYTES)
    assert store.active_runs() == [RunRef(session_id="other", run_id=(folder / name).name)]


def test_runs_of_a_process_that_died_are_not_active(home: Path, folder: Path, store: CheckpointStore) -> None:
    program = (
        "import sys; from pathlib import Path; from dragoman.workspace.checkpoint_store import *;"
        "CheckpointStore(Path(sys.argv[1]), Path(sys.argv[2]), max_file_bytes=1000).take("
        "[LogEntry(at=1.0, session_id='dead', run_id='run', moment='before', tree='')])"
    )
    subprocess.run([sys.executable, "-c", program, str(home), str(folder)], check=True)
    assert store.active_runs() == []
    assert take(store).other_runs == ()


def test_two_processes_wait_for_each_other(new_store: Callable[[], CheckpointStore], folder: Path) -> None:
    (folder / "a").write_text("a")
    one, other = new_store(), new_store()
    entries: list[LogEntry] = []
    with one.open():
        thread = threading.Thread(target=lambda: entries.append(take(other)))
        thread.start()
        assert entries == []
    thread.join(timeout=30)
    assert len(entries) == 1


def test_a_lock_that_is_not_released_in_time_is_an_error(home: Path, folder: Path) -> None:
    one = CheckpointStore(home, folder, max_file_bytes=LIMIT_BYTES)
    other = CheckpointStore(home, folder, max_file_bytes=LIMIT_BYTES, timeout_s=0.05)
    with one.open(), pytest.raises(CheckpointError, match="another process"):
        take(other)


@pytest.mark.parametrize("damage", ["garbage", "missing", "stale locks"])
def test_a_broken_index_is_made_again(store: CheckpointStore, folder: Path, damage: str) -> None:
    (folder / "a").write_text("a")
    (folder / ".gitignore").write_text("ignored\n")
    first = take(store)
    index = store.path / "git" / "index"
    match damage:
        case "garbage":
            index.write_bytes(b"DIRCgarbage")
        case "missing":
            index.unlink()
        case _:
            (store.path / "git" / "index.lock").write_bytes(b"")
            (store.path / "git" / "HEAD.lock").write_bytes(b"")
            (store.path / "git" / "refs" / "heads" / "master.lock").write_bytes(b"")
            (store.path / "git" / "refs" / "heads" / "main.lock").write_bytes(b"")
    assert take(store).tree == first.tree
    (folder / "a").write_text("b")
    assert take(store).tree != first.tree


def test_a_line_of_the_log_that_was_cut_off_costs_only_itself(store: CheckpointStore, folder: Path) -> None:
    take(store, request("one"))
    with open(store.path / "log.jsonl", "ab") as file:
        file.write(b'{"at":1.0,"session_id":"s","mom')
    take(store, request("two"))
    assert [entry.run_id for entry in store.read_log()] == ["one", "two"]


def test_a_rewind_that_was_begun_is_completed_by_the_next_command(
    new_store: Callable[[], CheckpointStore], folder: Path
) -> None:
    store = new_store()
    for name in "abc":
        (folder / name).write_text("old")
    target = take(store)
    for name in "abc":
        (folder / name).write_text("new")
    (folder / "d").write_text("new")
    with store.open() as git:
        plan = store.plan(git, target)
        entry = store.begin_rewind(plan, msgspec.structs.replace(request(moment="rewind"), operation="f" * 16))
    # A process that was killed: one file is done, one half written, and a person edited another since.
    (folder / "a").write_text("old")
    (folder / f".dragoman-{'f' * 16}").write_text("ha")
    (folder / "c").write_text("edited by a person")
    other = new_store()
    taken = take(other)
    assert folder_state(folder) == {
        b"a": ("file", b"old"),
        b"b": ("file", b"old"),
        b"c": ("file", b"edited by a person"),
    }
    assert entry.operation in [logged.operation for logged in other.read_log()]
    assert content(other, taken.tree, "c") == b"edited by a person"
    assert content(other, entry.tree, "c") == b"new"


# -- clean-up


def test_old_checkpoints_are_removed_with_their_contents(store: CheckpointStore, folder: Path) -> None:
    (folder / "a").write_text("old secret")
    old = take(store, request("old", at=100.0))
    (folder / "a").write_text("new")
    new = take(store, request("new", at=1000.0))
    store.prune(now=1100.0, max_age_s=500.0, max_bytes=10**9)
    assert [entry.run_id for entry in store.read_log()] == ["new"]
    assert content(store, new.tree, "a") == b"new"
    with pytest.raises(CheckpointError):
        content(store, old.tree, "a")


def test_the_oldest_checkpoints_go_when_the_folder_has_too_many_bytes_of_them(
    store: CheckpointStore, folder: Path
) -> None:
    for number in range(8):
        (folder / "a").write_bytes(os.urandom(90_000))
        take(store, request(f"run-{number}", at=float(number)))
    store.prune(now=10.0, max_age_s=1e9, max_bytes=500_000)
    runs = [entry.run_id for entry in store.read_log()]
    assert 1 <= len(runs) < 6
    assert runs[-1] == "run-7"
    assert take(store).tree == store.read_log()[-2].tree


def test_a_forgotten_session_leaves_no_content(store: CheckpointStore, folder: Path) -> None:
    (folder / "a").write_text("of the other session")
    other = take(store, request(session_id="other"))
    (folder / "a").write_text("of this session")
    gone = take(store, request(session_id="s"))
    (folder / "a").write_text("of the other session")
    take(store, request(session_id="other"))
    store.forget("s")
    assert content(store, other.tree, "a") == b"of the other session"
    with pytest.raises(CheckpointError):
        content(store, gone.tree, "a")
