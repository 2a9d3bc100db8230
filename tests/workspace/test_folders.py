"""`Workspace`: what is inside, and what only looks so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.errors import InputError
from dragoman.workspace import OutsideWorkspace, Workspace


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    return folder


def test_a_folder_may_be_a_string_and_relative(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inside.parent)
    assert Workspace("repo").cwd == inside.resolve()


def test_a_link_to_a_folder_is_resolved_once(inside: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(inside)
    assert Workspace(tmp_path / "link").cwd == inside.resolve()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cwd: the folder .*/nowhere does not exist"):
        Workspace(tmp_path / "nowhere")


def test_a_file_is_no_folder(inside: Path) -> None:
    (inside / "file").touch()
    with pytest.raises(InputError, match=r"cwd: .*/file is not a folder"):
        Workspace(inside / "file")


@pytest.mark.parametrize("given", ["a\0b", 5, None, b"bytes"])
def test_a_value_that_is_no_folder_is_an_input_error(given: object) -> None:
    with pytest.raises(InputError, match="cwd"):
        Workspace(given)  # type: ignore[arg-type]  # the very thing under test


def test_a_bad_additional_folder_is_named_with_its_field(inside: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"additional: the folder .*/nowhere does not exist"):
        Workspace(inside, [tmp_path / "nowhere"])


def test_a_single_string_is_not_a_list_of_additional_folders(inside: Path) -> None:
    with pytest.raises(InputError, match="additional is '/usr'; expected a list"):
        Workspace(inside, "/usr")


def test_additional_folders_are_inside_too(inside: Path, outside: Path) -> None:
    workspace = Workspace(inside, [str(outside)])
    assert workspace.additional == (outside.resolve(),)
    assert workspace.contains(outside / "secret.txt")
    assert workspace.folders == (inside.resolve(), outside.resolve())


def test_files_that_do_not_exist_yet_are_inside(inside: Path) -> None:
    assert Workspace(inside).resolve(inside / "new" / "deep" / "file.txt") == inside.resolve() / "new/deep/file.txt"


def test_a_folder_contains_itself_but_not_its_namesake(inside: Path) -> None:
    workspace = Workspace(inside)
    assert workspace.contains(inside)
    (inside.parent / "repository").mkdir()
    assert not workspace.contains(f"{inside}sitory")


def test_a_link_that_stays_inside_is_followed(inside: Path) -> None:
    (inside / "real.txt").touch()
    (inside / "link.txt").symlink_to("real.txt")
    assert Workspace(inside).resolve(inside / "link.txt") == inside.resolve() / "real.txt"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("file.txt", "not absolute"),
        ("./file.txt", "not absolute"),
        ("~/file.txt", "not absolute"),
        ("", "not absolute"),
        ("file:///{inside}/file.txt", "not absolute"),
        ("{inside}/../elsewhere/secret.txt", r"`\.\.`"),
        ("{inside}/missing/../../elsewhere/secret.txt", r"`\.\.`"),
        ("{inside}/sub/..", r"`\.\."),
        ("{outside}/secret.txt", "outside the workspace"),
        ("/etc/passwd", "outside the workspace"),
        ("/", "outside the workspace"),
        ("/proc/self/root{outside}/secret.txt", "outside the workspace"),
        ("{inside}/link-to-file", "outside the workspace"),
        ("{inside}/link-to-folder/secret.txt", "outside the workspace"),
        ("{inside}/link-to-folder/new.txt", "outside the workspace"),
        ("{inside}/link-to-nothing", "outside the workspace"),
        ("{inside}/link-to-link", "outside the workspace"),
        ("{inside}/file\0.txt", "NUL"),
        ("{inside}/\ud800.txt", "cannot be a file's"),
    ],
)
def test_no_path_leads_out_of_the_workspace(inside: Path, outside: Path, path: str, reason: str) -> None:
    (inside / "link-to-file").symlink_to(outside / "secret.txt")
    (inside / "link-to-folder").symlink_to(outside)
    (inside / "link-to-nothing").symlink_to(outside / "not-there-yet.txt")
    (inside / "link-to-link").symlink_to("link-to-file")
    workspace = Workspace(inside)
    given = path.format(inside=inside, outside=outside)
    assert not workspace.contains(given)
    with pytest.raises(OutsideWorkspace, match=reason) as caught:
        workspace.resolve(given)
    assert caught.value.path == given


def test_a_loop_of_links_is_an_error(inside: Path) -> None:
    (inside / "a").symlink_to("b")
    (inside / "b").symlink_to("a")
    with pytest.raises(OutsideWorkspace, match="cannot be looked up: Too many levels of symbolic links"):
        Workspace(inside).resolve(inside / "a")


@pytest.mark.parametrize(("name", "reason"), [("x" * 300, "File name too long"), ("x" * 5000, "the limit is 4095")])
def test_a_name_that_is_too_long_is_no_file(inside: Path, name: str, reason: str) -> None:
    with pytest.raises(OutsideWorkspace, match=reason):
        Workspace(inside).resolve(inside / name)


def test_a_name_that_is_not_utf8_is_inside(inside: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (inside / name).touch()
    assert Workspace(inside).contains(inside / name)


def test_a_path_is_relative_to_the_outermost_folder(inside: Path) -> None:
    (inside / ".git").mkdir()
    workspace = Workspace(inside, [inside / ".git"])
    assert str(workspace.relative_path(inside / ".git" / "config")) == ".git/config"
