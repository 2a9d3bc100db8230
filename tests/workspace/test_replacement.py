"""A file replaced whole: what the new one keeps of the old one, and what it must not keep."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.workspace.paths import replace_file

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("old")
    return path


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o4755, 0o6711, 0o200, 0o1644])
def test_the_mode_is_preserved_without_setuid_and_setgid(folder: int, file: Path, mode: int) -> None:
    file.chmod(mode)
    replace_file(folder, "file", b"new")
    assert stat.S_IMODE(file.stat().st_mode) == mode & 0o1777
    file.chmod(0o600)
    assert file.read_text() == "new"


def test_a_file_that_only_its_owner_can_read_is_never_readable_by_others(
    folder: int, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    sync = os.fsync

    def look(descriptor: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        sync(descriptor)

    dress = os.fchmod

    def look_before(descriptor: int, mode: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        dress(descriptor, mode)

    file.chmod(0o600)
    monkeypatch.setattr(os, "fsync", look)
    monkeypatch.setattr(os, "fchmod", look_before)
    replace_file(folder, "file", b"new")
    assert modes == [0o600, 0o600]


@as_root
def test_owner_and_group_are_preserved_where_possible(folder: int, file: Path) -> None:
    os.chown(file, 12345, 23456)
    file.chmod(0o640)
    replace_file(folder, "file", b"new")
    status = file.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 23456, 0o640)


@pytest.mark.parametrize(("mode", "expected"), [(0o660, 0o600), (0o664, 0o644), (0o775, 0o755), (0o755, 0o755)])
def test_another_group_does_not_get_the_rights_of_the_old_one(
    folder: int, file: Path, monkeypatch: pytest.MonkeyPatch, mode: int, expected: int
) -> None:
    file.chmod(mode)
    status = os.stat

    def of_others(*args: Any, **more: Any) -> os.stat_result:
        fields = list(status(*args, **more))
        fields[stat.ST_GID] += 1
        return os.stat_result(fields)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "stat", of_others)
    monkeypatch.setattr(os, "fchown", refuse)
    replace_file(folder, "file", b"new")
    monkeypatch.undo()
    assert stat.S_IMODE(file.stat().st_mode) == expected


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="this system has no such attributes")
def test_the_users_own_attributes_are_preserved(folder: int, file: Path) -> None:
    try:
        os.setxattr(file, "user.dragoman", b"kept")
    except OSError as problem:
        pytest.skip(f"this disk has no such attributes: {problem}")
    replace_file(folder, "file", b"new")
    assert os.getxattr(file, "user.dragoman") == b"kept"


def test_a_hard_links_other_name_keeps_the_old_content(folder: int, file: Path, tmp_path: Path) -> None:
    os.link(file, tmp_path / "other")
    replace_file(folder, "file", b"new")
    assert ((tmp_path / "other").read_text(), file.read_text()) == ("old", "new")


def test_a_link_is_replaced_itself(folder: int, file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    replace_file(folder, "link", b"new")
    assert (file.read_text(), (tmp_path / "link").read_text()) == ("old", "new")


def test_a_failure_leaves_no_temporary_file(
    folder: int, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken_away(beside: str, *_: object, **__: object) -> None:
        (tmp_path / beside).unlink()
        raise FileNotFoundError(2, "No such file or directory", beside)

    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(folder, "folder", b"new")
    monkeypatch.setattr(os, "replace", taken_away)
    with pytest.raises(FileNotFoundError):
        replace_file(folder, "file", b"new")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    assert file.read_text() == "old"
