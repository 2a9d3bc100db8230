"""Checkpoints of folders that an agent has prepared to stop them, to mislead them, or to fill the disk."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.errors import CheckpointError
from dragoman.workspace.checkpoint_store import CheckpointStore, LogEntry
from dragoman.workspace.restore import FileVersion, FolderWriter
from dragoman.workspace.shadow import Snapshot

# Far more than a checkpoint of three files takes, on a slow machine too; git that waits for a FIFO would use all of it.
TIMEOUT_S = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a").write_text("a\n")
    return folder


@pytest.fixture
def store(tmp_path: Path, folder: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "home", folder, max_file_bytes=100_000, timeout_s=TIMEOUT_S)


def snapshot(store: CheckpointStore) -> Snapshot:
    taken, _ = store.take()
    return taken


def files_in(store: CheckpointStore, tree: str) -> list[bytes]:
    with store.open() as git:
        return git.run("ls-tree", "-r", "-z", "--name-only", tree).split(b"\0")[:-1]


def test_fifos_sockets_and_circles_of_links_are_no_files(
    store: CheckpointStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / "fifo")
    os.mkfifo(folder / ".gitmodules")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(folder)  # the name of a socket must be short
        listener.bind("socket")
    (folder / "circle").symlink_to("circle")
    (folder / "up").symlink_to("..")
    assert files_in(store, snapshot(store).tree) == [b"a", b"circle", b"up"]


def test_a_file_that_becomes_a_fifo_is_reported(store: CheckpointStore, folder: Path) -> None:
    before = snapshot(store)
    (folder / "a").unlink()
    os.mkfifo(folder / "a")
    after = snapshot(store)
    assert after.tree == before.tree
    assert [skipped.path for skipped in after.skipped_paths] == ["a"]


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
def test_a_list_that_git_cannot_read_is_named_at_once(store: CheckpointStore, folder: Path, name: str) -> None:
    os.mkfifo(folder / name)
    with pytest.raises(CheckpointError, match=f"{name} in .* is no regular file"):
        snapshot(store)
    (folder / name).unlink()
    with open(folder / name, "wb") as file:
        file.truncate(2 * 1024**3)
    with pytest.raises(CheckpointError, match="very large"):
        snapshot(store)
    (folder / name).unlink()
    assert files_in(store, snapshot(store).tree) == [b"a"]


def test_a_list_deep_down_that_git_cannot_read_is_named_after_the_first_time(
    store: CheckpointStore, folder: Path
) -> None:
    snapshot(store)
    (folder / "deep").mkdir()
    (folder / "deep" / "b").write_text("b\n")
    os.mkfifo(folder / "deep" / ".gitignore")
    with pytest.raises(CheckpointError, match="took too long"):
        store.take(timeout_s=0.5)
    with pytest.raises(CheckpointError, match=r"deep/\.gitignore in .* is no regular file"):
        snapshot(store)


def plant_a_link_to_a_device(link: Path, elsewhere: Path) -> None:
    link.write_text("gitdir: /dev/zero\n")


def plant_fifos(link: Path, elsewhere: Path) -> None:
    (elsewhere / "info").mkdir()
    for name in ("index", "commondir", "info/exclude"):
        os.mkfifo(elsewhere / name)
    link.write_text(f"gitdir: {elsewhere}\n")


def plant_devices(link: Path, elsewhere: Path) -> None:
    (elsewhere / "info").mkdir()
    for name in ("index", "commondir", "info/exclude"):
        (elsewhere / name).symlink_to("/dev/zero")
    link.write_text(f"gitdir: {elsewhere}\n")


def plant_garbage(link: Path, elsewhere: Path) -> None:
    (elsewhere / "index").write_bytes(b"DIRC" + b"\xff" * 5000)
    link.write_text(f"gitdir: {elsewhere}\n")


def plant_large_files(link: Path, elsewhere: Path) -> None:
    (elsewhere / "info").mkdir()
    for name in ("index", "commondir", "info/exclude"):
        with open(elsewhere / name, "wb") as file:
            file.truncate(8 * 1024**3)
    link.write_text(f"gitdir: {elsewhere}\n")


def plant_a_large_link(link: Path, elsewhere: Path) -> None:
    with open(link, "wb") as file:
        file.truncate(8 * 1024**3)


@pytest.mark.parametrize(
    "plant",
    [
        plant_a_link_to_a_device,
        plant_fifos,
        plant_devices,
        plant_garbage,
        plant_large_files,
        plant_a_large_link,
        lambda link, elsewhere: os.mkfifo(link),
        lambda link, elsewhere: link.symlink_to("/dev/zero"),
        lambda link, elsewhere: link.symlink_to(".git"),
        lambda link, elsewhere: link.write_bytes(b"gitdir: a\0b\n"),
        lambda link, elsewhere: link.write_bytes(b"gitdir: .git\n"),
        lambda link, elsewhere: link.write_bytes(b"\xff\xfe"),
    ],
)
def test_a_planted_link_to_a_repository_stops_nothing(
    store: CheckpointStore, folder: Path, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    plant(folder / ".git", tmp_path / "elsewhere")
    assert files_in(store, snapshot(store).tree) == [b"a"]


def test_a_name_that_is_too_long_for_the_system_is_reported(store: CheckpointStore, folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 100, dir_fd=descriptor)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    taken = snapshot(store)
    assert files_in(store, taken.tree) == [b"a"]
    assert [skipped.reason for skipped in taken.skipped_paths] == ["File name too long"]
    subprocess.run(["rm", "-rf", str(folder)], check=True)  # pytest could not


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read_is_reported_and_its_files_are_not_deleted(
    store: CheckpointStore, folder: Path
) -> None:
    (folder / "locked").mkdir()
    (folder / "locked" / "b").write_text("b\n")
    snapshot(store)
    (folder / "locked").chmod(0)
    taken = snapshot(store)
    (folder / "locked").chmod(0o700)
    assert files_in(store, taken.tree) == [b"a", b"locked/b"]
    assert [(skipped.path, skipped.reason) for skipped in taken.skipped_paths] == [("locked", "Permission denied")]


LIMITED = """
import resource, sys
from pathlib import Path
from dragoman.workspace.checkpoint_store import CheckpointStore
store = CheckpointStore(Path(sys.argv[1]), Path(sys.argv[2]), max_file_bytes=10_000_000, timeout_s=60.0)
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
store.take()
"""


def test_what_git_could_not_complete_does_not_stay_on_the_disk(
    store: CheckpointStore, folder: Path, tmp_path: Path
) -> None:
    """A limit of file sizes ends git in the middle of a file, as a full disk does."""
    snapshot(store)
    (folder / "large").write_bytes(os.urandom(3_000_000))
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "home"), str(folder)]
    failed = subprocess.run(command, capture_output=True, check=False)
    assert b"CheckpointError" in failed.stderr
    objects = store.path / "git" / "objects"
    assert [path.name for path in objects.rglob("tmp_*")] == []
    (folder / "large").unlink()
    assert files_in(store, snapshot(store).tree) == [b"a"]


def test_a_rewind_that_cannot_be_taken_back_as_a_whole_says_so_and_can_be_undone(
    store: CheckpointStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full: the second file cannot be written, and then not the first one again."""
    (folder / "b").write_text("b\n")
    entry = LogEntry(at=1.0, session_id="s", run_id="run", moment="before", tree="")
    _, (target,) = store.take([entry])
    assert target is not None
    (folder / "a").write_text("changed\n")
    (folder / "b").write_text("changed\n")
    put = FolderWriter._put
    written: list[bytes] = []

    def put_once(writer: FolderWriter, path: bytes, version: FileVersion, data: bytes) -> None:
        if written:
            raise OSError(28, "No space left on device")
        written.append(path)
        put(writer, path, version, data)

    with store.open() as git:
        plan = store.plan(git, target)
        begun = store.begin_rewind(plan, LogEntry(at=2.0, session_id="s", moment="rewind", tree=""))
        monkeypatch.setattr(FolderWriter, "_put", put_once)
        with pytest.raises(CheckpointError, match=r"No space left on device.* before it: a$"):
            store.apply_rewind(git, plan, begun)
        monkeypatch.undo()
        assert not store.is_rewinding
        assert [logged.moment for logged in store.read_log()] == ["before", "rewind"]
        undo = store.plan(git, begun)
        store.apply_rewind(
            git, undo, store.begin_rewind(undo, LogEntry(at=3.0, session_id="s", moment="rewind", tree=""))
        )
    assert ((folder / "a").read_text(), (folder / "b").read_text()) == ("changed\n", "changed\n")
