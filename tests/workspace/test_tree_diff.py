"""The difference of two checkpoints: files, hunks, and parts of long ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dragoman.protocol.checkpoints import ComparedFile, Hunk
from dragoman.workspace import tree_diff
from dragoman.workspace.checkpoint_store import CheckpointStore
from dragoman.workspace.git import Git
from dragoman.workspace.tree_diff import cut_hunks, list_files, read_lines
from workspace.folder_state import folder_state, run_git


class Compared:
    """A folder whose two states are compared."""

    def __init__(self, base: Path) -> None:
        self.folder = base / "work"
        self.folder.mkdir()
        self._repository = CheckpointStore(base / "home", self.folder, max_file_bytes=10**8)
        self._first = ""

    def first(self) -> None:
        self._first = self._repository.take()[0].tree

    def open(self) -> tuple[Git, str, str]:
        second = self._repository.take()[0].tree
        with self._repository.open() as git:
            return git, self._first, second  # reading needs no lock: nobody else is at work

    def files(self, **limits: int) -> list[ComparedFile]:
        git, first, second = self.open()
        return read_lines(git, first, second, list_files(git, first, second), **limits)


@pytest.fixture
def compared(tmp_path: Path) -> Compared:
    return Compared(tmp_path)


def test_files_are_listed_with_status_names_modes_and_counts(compared: Compared) -> None:
    folder = compared.folder
    (folder / "changed").write_text("one\ntwo\nthree\n")
    (folder / "gone").write_text("x\n")
    (folder / "old name").write_text("".join(f"line {number}\n" for number in range(20)))
    (folder / "tool").write_text("run\n")
    (folder / "kind").write_text("file\n")
    compared.first()
    (folder / "changed").write_text("one\n2\nthree\nfour\n")
    (folder / "gone").unlink()
    (folder / "old name").rename(folder / "new name")
    (folder / "tool").chmod(0o755)
    (folder / "kind").unlink()
    (folder / "kind").symlink_to("changed")
    (folder / "added").write_bytes(b"\0binary")
    files = {file.path: file for file in compared.files()}
    assert [(file.path, file.status, file.added, file.removed) for file in files.values()] == [
        ("added", "added", None, None),
        ("changed", "modified", 2, 1),
        ("gone", "deleted", 0, 1),
        ("kind", "type changed", 1, 1),
        ("new name", "renamed", 0, 0),
        ("tool", "modified", 0, 0),
    ]
    assert files["new name"].old_path == "old name"
    assert (files["tool"].old_mode, files["tool"].new_mode) == ("100644", "100755")
    assert (files["kind"].old_mode, files["kind"].new_mode) == ("100644", "120000")
    assert (files["added"].old_mode, files["gone"].new_mode) == (None, None)
    assert files["changed"].hunks == (
        Hunk(
            old_start=1,
            old_lines=3,
            new_start=1,
            new_lines=4,
            lines=(" one", "-two", "+2", " three", "+four"),
        ),
    )
    assert [line for hunk in files["kind"].hunks for line in hunk.lines] == [
        "-file",
        "+changed",
        "\\ No newline at end of file",
    ]


def test_lines_that_look_like_the_head_of_a_difference_are_lines(compared: Compared) -> None:
    (compared.folder / "a").write_text("-- a\n++ b\n@@ -1 +1 @@\ndiff --git a/x b/x\n")
    (compared.folder / "b").write_text("same\n")
    compared.first()
    (compared.folder / "a").write_text("")
    (compared.folder / "b").write_text("same\r\n")
    first, second = compared.files()
    assert first.hunks[0].lines == ("--- a", "-++ b", "-@@ -1 +1 @@", "-diff --git a/x b/x")
    assert second.hunks[0].lines == ("-same", "+same\r")


def test_names_and_lines_that_are_not_utf8_are_shown_with_their_bytes(compared: Compared) -> None:
    compared.first()
    with open(bytes(compared.folder) + b"/\xffname", "wb") as file:
        file.write(b"caf\xe9\n")
    (compared.folder / "tab\tand\nnewline").write_text("x\n")
    files = compared.files()
    assert [file.path for file in files] == ["tab\tand\nnewline", "\\xffname"]
    assert files[1].hunks[0].lines == ("+caf\\xe9",)


def test_attributes_of_the_workspace_hide_no_line(compared: Compared) -> None:
    (compared.folder / ".gitattributes").write_text("* -diff\n*.bin binary\n")
    (compared.folder / "a.bin").write_text("one\n")
    compared.first()
    (compared.folder / "a.bin").write_text("two\n")
    (file,) = compared.files()
    assert file.hunks[0].lines == ("-one", "+two")


def test_a_long_difference_comes_in_parts_that_join(compared: Compared) -> None:
    compared.first()
    (compared.folder / "long").write_text("".join(f"line {number}\n" for number in range(2500)))
    lines: list[str] = []
    starts = []
    next_line: int | None = 0
    while next_line is not None:
        (file,) = compared.files(first_line=next_line)
        assert file.added == 2500
        starts.append(file.hunks[0].new_start)
        lines += [line for hunk in file.hunks for line in hunk.lines]
        next_line = file.next_line
    assert lines == [f"+line {number}" for number in range(2500)]
    assert starts == [1, 1001, 2001]


def test_files_that_do_not_fit_any_more_begin_the_next_part(compared: Compared) -> None:
    compared.first()
    for name in "abcd":
        (compared.folder / name).write_text("".join(f"{number}\n" for number in range(40)))
    assert [file.path for file in compared.files(max_lines=100)] == ["a", "b"]
    assert all(file.next_line is None for file in compared.files(max_lines=100))


def test_a_file_over_the_limit_is_compared_as_a_whole(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_diff, "_THRESHOLD", "core.bigFileThreshold=1000")
    (compared.folder / "a").write_text("x\n" * 1000)
    compared.first()
    (compared.folder / "a").write_text("y\n" * 1000)
    (file,) = compared.files()
    assert file.added is None
    assert file.hunks == ()


def test_a_part_of_a_hunk_counts_its_own_lines() -> None:
    hunk = Hunk(old_start=10, old_lines=3, new_start=10, new_lines=3, lines=(" a", "-b", "+c", " d"))
    (part,), next_line = cut_hunks([hunk], 1, 2)
    assert part == Hunk(old_start=11, old_lines=1, new_start=11, new_lines=1, lines=("-b", "+c"))
    assert next_line == 3
    assert cut_hunks([hunk], 4, 10) == ((), None)


def test_the_whole_difference_can_be_applied_by_git(compared: Compared, tmp_path: Path) -> None:
    folder = compared.folder
    (folder / "a").write_bytes(b"one\r\ntwo\r\n")
    (folder / "b").write_bytes(b"\0\1\2")
    (folder / "gone").write_text("gone\n")
    compared.first()
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", folder, copy], check=True)
    (folder / "a").write_bytes(b"one\r\n2\r\n")
    (folder / "b").write_bytes(b"\0\2\3")
    (folder / "gone").unlink()
    (folder / "link").symlink_to("a")
    (folder / "tool").write_text("run\n")
    (folder / "tool").chmod(0o755)
    git, first, second = compared.open()
    (tmp_path / "patch").write_bytes(tree_diff.patch(git, first, second))
    run_git(copy, "apply", "--whitespace=nowarn", str(tmp_path / "patch"))
    assert folder_state(copy) == folder_state(folder)
