"""`FolderWriter`: bring files back to earlier versions, by names that lead through no link.

A version is what git keeps of a file: its content, its executable bit, or the target of a link. `FileModes` keeps the
rest of the mode, so that a private file that was deleted is private again. A file is replaced only
if it still is what the caller expects; whoever changed it meanwhile keeps the change. Promised: no file is ever half
written, and nothing outside the folder is read or written, whatever is swapped for a link meanwhile.

Blocking: call it in a thread.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

import msgspec

from dragoman.errors import DragomanError
from dragoman.fileio import atomic_write
from dragoman.workspace.paths import replace_file

REGULAR: Final = 0o100644
EXECUTABLE: Final = 0o100755
SYMLINK: Final = 0o120000

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# Why a folder is still there where a file has to be: all files that are in a checkpoint were removed from it.
_FULL_FOLDER: Final = "a folder with files that are in no checkpoint is in its place"

_CHUNK_BYTES: Final = 1024 * 1024


class FileVersion(NamedTuple):
    """`mode` is one of the three above, `object_id` git's digest of the content or of the link's target."""

    mode: int
    object_id: str


class FileChange(NamedTuple):
    """The path is relative to the folder. `old` and `new` are None where there is no file."""

    path: bytes
    old: FileVersion | None
    new: FileVersion | None

    def inverse(self) -> FileChange:
        return FileChange(self.path, self.new, self.old)


class NotAFile(NamedTuple):
    """A folder, a device, or something that cannot be read is where a file was expected."""

    reason: str


class FileConflict(DragomanError):
    """A file cannot be changed: it is not what was expected, or the system refuses."""

    category = "input"

    def __init__(self, path: bytes, reason: str) -> None:
        super().__init__(f"{path.decode('utf-8', 'backslashreplace')}: {reason}")
        self.path = path


def object_id_of(size: int, chunks: Iterable[bytes]) -> str:
    """Return the id that git gives a content."""
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


class FileModes:
    """Modes that git does not keep, such as that of a private file, by path: those as of the last recorded content.

    They are in a file of their own, without the modes that every new file gets here.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def note(self, seen: Mapping[bytes, int]) -> None:
        """Note the modes of files that are recorded now."""
        modes = self._read()
        before = dict(modes)
        usual = {mode & ~_umask() for mode in (0o666, 0o777)}
        for path, mode in seen.items():
            if mode in usual:
                modes.pop(_key(path), None)
            else:
                modes[_key(path)] = mode
        if modes != before:
            atomic_write(self._file, msgspec.json.encode(modes), sync=False)

    def of(self, path: bytes, *, is_executable: bool) -> int | None:
        """Return the mode of a file that is gone; None where it was a usual one."""
        mode = self._known.get(_key(path))
        if mode is None:
            return None
        return mode | (mode & 0o444) >> 2 if is_executable else mode & ~0o111

    @cached_property
    def _known(self) -> dict[str, int]:
        return self._read()

    def _read(self) -> dict[str, int]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, int])
        except (OSError, msgspec.MsgspecError):
            return {}


def _key(path: bytes) -> str:
    return path.decode("latin-1")  # each byte a character: JSON cannot hold every name


def _umask() -> int:
    """Return the umask. To ask the system, it would have to be changed for all threads for a moment."""
    with suppress(OSError, StopIteration), open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return int(next(line for line in status if line.startswith("Umask:")).split()[1], 8)
    return 0o022


class FolderWriter:
    """Writes below `root`, which contains no link. `temporary` is the name of files that are being written.

    `keep` is a folder below the root, or the root: it is not removed when its last file is. `modes` are those of files
    that are created again.
    """

    def __init__(self, root: Path, temporary: str, *, keep: bytes = b"", modes: FileModes | None = None) -> None:
        self._temporary = temporary
        self._keep = keep
        self._modes = modes
        self._names: list[bytes] = []  # of the folders that are open, below the root
        self._folders = [os.open(root, _FOLDER_FLAGS)]

    def __enter__(self) -> FolderWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in reversed(self._folders):
            os.close(descriptor)
        self._folders.clear()

    # -- reading

    def version(self, path: bytes) -> FileVersion | NotAFile | None:
        """Return what is at a path now; None where nothing is."""
        try:
            folder = self._open_folder(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return None if error.errno == errno.ELOOP else NotAFile(error.strerror or "it cannot be read")
        name = os.path.basename(path)
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                target = os.fsencode(os.readlink(name, dir_fd=folder))
                return FileVersion(SYMLINK, object_id_of(len(target), [target]))
            if not stat.S_ISREG(status.st_mode):
                return NotAFile(_FULL_FOLDER if stat.S_ISDIR(status.st_mode) else "it is no regular file")
            with open(os.open(name, _READ_FLAGS, dir_fd=folder), "rb") as file:
                status = os.fstat(file.fileno())
                chunks = iter(lambda: file.read(_CHUNK_BYTES), b"")
                mode = EXECUTABLE if status.st_mode & stat.S_IXUSR else REGULAR
                return FileVersion(mode, object_id_of(status.st_size, chunks))
        except FileNotFoundError:
            return None
        except OSError as error:
            return NotAFile(error.strerror or "it cannot be read")

    # -- writing

    def apply(
        self,
        changes: Sequence[FileChange],
        read: Callable[[str], bytes],
        *,
        on_applied: Callable[[FileChange], None] = lambda change: None,
    ) -> None:
        """Make all changes, removals first. `read` returns the content of an id. Raises `FileConflict` at the first
        that cannot be made; those before it were passed to `on_applied`."""
        for change in ordered(changes):
            current = self._version_to_replace(change)
            if current != change.old:
                reason = current.reason if isinstance(current, NotAFile) else "it was changed meanwhile"
                raise FileConflict(change.path, reason)
            self._make(change, read)
            on_applied(change)

    def complete(self, changes: Sequence[FileChange], read: Callable[[str], bytes]) -> list[bytes]:
        """Make those of the changes that an interrupted `apply` did not; return the paths that it must leave alone,
        because somebody changed them since or the system refuses."""
        left = []
        for change in ordered(changes):
            current = self._version_to_replace(change)
            if current == change.new:
                continue
            if current == change.old or (current is None and change.new is not None):
                try:
                    self._make(change, read)
                    continue
                except FileConflict:
                    pass
            left.append(change.path)
        return left

    def remove_temporary(self, paths: Iterable[bytes]) -> None:
        """Remove the temporary file that a killed process left beside one of these paths."""
        for folder in sorted({os.path.dirname(path) for path in paths}):
            with suppress(OSError):
                os.unlink(self._temporary, dir_fd=self._open_folder(os.path.join(folder, b"name")))

    def _version_to_replace(self, change: FileChange) -> FileVersion | NotAFile | None:
        """Return what is at the path of a change. A folder without files, which git does not record, makes room."""
        current = self.version(change.path)
        if not isinstance(current, NotAFile) or change.new is None:
            return current
        with suppress(OSError):
            _remove_empty(os.path.basename(change.path), self._open_folder(change.path))
        return self.version(change.path)

    def _make(self, change: FileChange, read: Callable[[str], bytes]) -> None:
        try:
            if change.new is None:
                self._remove(change.path)
            else:
                self._put(change.path, change.new, read(change.new.object_id))
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST):
                reason = _FULL_FOLDER
            raise FileConflict(change.path, reason) from None

    def _put(self, path: bytes, version: FileVersion, data: bytes) -> None:
        folder = self._open_folder(path, create=True)
        name = os.fsdecode(os.path.basename(path))
        if version.mode != SYMLINK:
            is_executable = version.mode == EXECUTABLE
            mode = self._modes.of(path, is_executable=is_executable) if self._modes is not None else None
            replace_file(
                folder,
                name,
                data,
                is_executable=is_executable,
                new_mode=mode,
                temporary=self._temporary,
                sync=False,
            )
            return
        os.symlink(data, os.fsencode(self._temporary), dir_fd=folder)
        try:
            os.replace(self._temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(self._temporary, dir_fd=folder)
            raise

    def _remove(self, path: bytes) -> None:
        folder = self._open_folder(path)
        os.unlink(os.path.basename(path), dir_fd=folder)
        parent = os.path.dirname(path)
        while parent and parent != self._keep:
            above = self._open_folder(parent)  # closes the folder itself
            try:
                os.rmdir(os.path.basename(parent), dir_fd=above)
            except OSError:
                return  # it has other files
            parent = os.path.dirname(parent)

    def _open_folder(self, path: bytes, *, create: bool = False) -> int:
        """Return the open folder of a path, which stays open for the next one. Raises `OSError`, also for a link."""
        names = path.split(b"/")[:-1]
        common = 0
        while common < min(len(names), len(self._names)) and names[common] == self._names[common]:
            common += 1
        while len(self._names) > common:
            self._names.pop()
            os.close(self._folders.pop())
        for name in names[common:]:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=self._folders[-1])
            descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=self._folders[-1])
            self._names.append(name)
            self._folders.append(descriptor)
        return self._folders[-1]


def _remove_empty(name: bytes, folder: int) -> None:
    """Remove a folder that has no files, only such folders; `folder` is the descriptor of the one above it."""
    descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    try:
        for inner in os.listdir(descriptor):
            _remove_empty(os.fsencode(inner), descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=folder)


def ordered(changes: Sequence[FileChange]) -> list[FileChange]:
    """Return removals first, the deepest first, so that a folder can make room for a file and the other way round."""
    removals = [change for change in changes if change.new is None]
    others = [change for change in changes if change.new is not None]
    return [*sorted(removals, reverse=True), *sorted(others)]
