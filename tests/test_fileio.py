"""Files replaced as a whole, and JSON files that several processes change."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from dragoman.errors import ConfigError
from dragoman.fileio import LockedJsonFile, atomic_write, folder_key, replacing


class Numbers(msgspec.Struct, frozen=True):
    numbers: tuple[int, ...] = ()


def test_the_new_content_takes_the_name_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640])
def test_the_file_has_the_mode_that_the_caller_names(tmp_path: Path, mode: int) -> None:
    before = os.umask(0o022)
    try:
        atomic_write(tmp_path / "file", b"", mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode & ~0o022


def test_only_the_owner_can_read_a_file_by_default(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o644)
    atomic_write(tmp_path / "file", b"")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_a_failure_midway_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail_midway() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_midway()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_disk_that_is_full_at_the_end_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        atomic_write(path, b"new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_reader_sees_the_old_content_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("untouched")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    atomic_write(tmp_path / "link", b"new")
    assert (tmp_path / "elsewhere").read_text() == "untouched"
    assert not (tmp_path / "link").is_symlink()


def test_a_file_in_an_open_folder_is_replaced_by_its_name(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        atomic_write("file", b"new", dir_fd=folder)
    finally:
        os.close(folder)
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_name_of_the_greatest_length_can_be_replaced(tmp_path: Path) -> None:
    atomic_write(tmp_path / ("n" * 255), b"new")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"new"


def test_a_missing_json_file_reads_as_empty_and_is_not_created(tmp_path: Path) -> None:
    assert LockedJsonFile(tmp_path / "a.json", Numbers()).read() == Numbers()
    assert not (tmp_path / "a.json").exists()


@pytest.mark.attempts("shared home")
def test_no_change_is_lost_when_many_change_the_file_at_once(tmp_path: Path) -> None:
    def add(number: int) -> None:
        file = LockedJsonFile(tmp_path / "a.json", Numbers())
        file.change(lambda content: Numbers((*content.numbers, number)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert sorted(LockedJsonFile(tmp_path / "a.json", Numbers()).read().numbers) == list(range(40))
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o600


def test_a_change_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    LockedJsonFile(tmp_path / "a.json", Numbers()).change(lambda content: content)
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"numbers": "x"}', b"\xff", b"[" * 100_000])
def test_a_file_that_cannot_be_read_is_an_error_and_is_never_overwritten(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    file = LockedJsonFile(path, Numbers())
    with pytest.raises(ConfigError, match=r"a\.json: this is not what Dragoman writes there"):
        file.change(lambda content: Numbers((1,)))
    assert path.read_bytes() == data


def test_a_folder_with_bytes_that_are_no_text_has_a_key(tmp_path: Path) -> None:
    assert folder_key(tmp_path) == str(tmp_path.resolve())
    assert folder_key(Path(os.fsdecode(b"/tmp/\xff"))).startswith("bytes:")
