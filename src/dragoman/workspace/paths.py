"""The safe lookup of a path inside the workspace, and `PinnedPath`, a path whose folder is held open.

A path is walked from `/`, name by name: each folder is opened from the one above it, never through a link. Links are
read, not followed by the kernel: their targets are walked like the path itself. The result is a chain of folders, none
of which was a link when it was opened, and these names alone decide whether the path is inside.

Promised: a `PinnedPath` is below one of the folders of the workspace. Reads and writes go through the open folder and
through no link: replacing a folder or a file by a link, at any moment, gains an attacker nothing. A link inside the
workspace that leads inside is followed, also to another folder of the workspace. A mount inside is inside. A refusal
reveals nothing about the outside, not even whether a file exists.

Not promised: that a folder stays where it is while it is open. Who can move it out of the workspace can write there.

A file is replaced as a whole (`replace_file`): the new content is written beside the old file, and takes its name at
the end. Promised: a reader of the name gets the old content or the new one, also after a power failure; a hard link of
the old file elsewhere keeps its content; on any failure the old file is unchanged, and no other file is left. The new
file has the mode of the old one, and its owner, group, access list and attributes as far as this user may set them. A
new file gets its mode from the folder and the umask.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from dragoman.errors import InputError
from dragoman.fileio import replacing

# Without setuid and setgid, which were granted to the old content: the kernel, too, clears them on a write.
_COPIED_MODE: Final = 0o7777 & ~(stat.S_ISUID | stat.S_ISGID)

# The user's own attributes and the access list. The system sets the others.
_COPIED_ATTRIBUTES: Final = ("user.", "system.posix_acl_access")


def replace_file(
    folder: int,
    name: str,
    data: bytes,
    *,
    is_executable: bool | None = None,
    new_mode: int | None = None,
    temporary: str | None = None,
    sync: bool = True,
) -> None:
    """Write the file of this name in a folder (a descriptor), whether it exists or not. Raises `OSError`.

    `is_executable` sets or clears the executable bits, which otherwise stay as they are. `new_mode` is the mode of a
    file that does not exist. `temporary` and `sync` are those of `replacing`.
    """
    try:
        old = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        old = None  # a link has no mode to copy
    # Readable only by its owner until the mode is copied: a private file must not become readable.
    mode = 0o600 if old is not None or new_mode is not None else 0o777 if is_executable else 0o666
    with replacing(name, mode=mode, dir_fd=folder, temporary=temporary, sync=sync) as file:
        file.write(data)
        if old is not None:
            file.flush()  # a later write would clear some of the mode's bits
            _copy_owner_and_mode(file.fileno(), old)
            _copy_attributes(folder, name, file.fileno())
            if is_executable is not None and is_executable != bool(old.st_mode & stat.S_IXUSR):
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                os.fchmod(file.fileno(), mode | (mode & 0o444) >> 2 if is_executable else mode & ~0o111)
        elif new_mode is not None:
            os.fchmod(file.fileno(), new_mode)


def _copy_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    """Give the new file the owner, group and mode of the old one."""
    mode = stat.S_IMODE(old.st_mode) & _COPIED_MODE
    new = os.fstat(descriptor)
    for uid, gid in ((old.st_uid, -1), (-1, old.st_gid)):  # one by one: often only the group can be set
        if (uid, gid) not in ((new.st_uid, -1), (-1, new.st_gid)):
            with suppress(PermissionError):
                os.fchown(descriptor, uid, gid)
    if os.fstat(descriptor).st_gid != old.st_gid:
        # Another group does not get the rights of the old group, only those of everyone.
        mode = mode & ~0o070 | (mode & 0o007) << 3
    os.fchmod(descriptor, mode)


def _copy_attributes(folder: int, name: str, descriptor: int) -> None:
    """Copy the attributes as far as possible: not every system, disk or file has them."""
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
        try:
            for attribute in os.listxattr(source):
                if attribute.startswith(_COPIED_ATTRIBUTES):
                    with suppress(OSError):
                        os.setxattr(descriptor, attribute, os.getxattr(source, attribute))
        finally:
            os.close(source)


# Links that are followed: as many as Linux itself follows; macOS stops at 32.
MAX_LINKS: Final = 40

# Names that are walked for one path. The longest path has 2,048; links to links would take minutes.
MAX_STEPS: Final = 16_384

# Bytes of a path, with the NUL byte at its end. A walk by names could go deeper than any other program.
MAX_PATH_BYTES: Final = os.pathconf("/", "PC_PATH_MAX")

# Open a folder on the way. On Linux this needs only search permission, not read permission.
_FOLDER_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# Open a file for reading, without waiting for the other end of a FIFO, and without getting a controlling terminal.
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class OutsideWorkspace(InputError):
    """A path that does not lead into the workspace, or that no file can have. `path` is the path of the caller."""

    default_guidance = (
        "Name an absolute path inside the workspace, or open the session with that folder in `additional`."
    )

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class PinnedPath:
    """The path of a file that exists or could exist: no name in `path` is a link. Close it, best by `with`.

    Its methods raise `OSError`, also (`ELOOP`) for a link that was put there meanwhile.
    """

    def __init__(self, path: Path, folder: int, missing: Sequence[str]) -> None:
        self.path = path
        self._folder = folder  # a descriptor; -1 once it is closed
        self._missing = missing  # missing folders below the open one

    def __enter__(self) -> PinnedPath:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def status(self) -> os.stat_result | None:
        """Return the status of the file, or of the link itself; None where nothing is there."""
        if self._missing:
            return None
        try:
            return os.stat(self.path.name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def is_writable(self) -> bool:
        """Return True if the file may be changed: by its mode, also for root, and by the system."""
        status = self.status()
        return status is None or (status.st_mode & 0o222 != 0 and _may_write(self.path.name, self._folder))

    def open(self) -> BinaryIO:
        """Open for reading. It may also be a device, a FIFO or a folder; the caller checks."""
        if self._missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        return open(os.open(self.path.name, _READ_FLAGS, dir_fd=self._folder), "rb")

    def replace(self, data: bytes) -> None:
        """Write a file with this content, as a whole or not at all, and create the folders above it."""
        created: list[tuple[int, str]] = []  # created folders, each with the descriptor of its parent
        try:
            for name in self._missing:
                try:
                    os.mkdir(name, dir_fd=self._folder)
                    created.append((os.dup(self._folder), name))
                except FileExistsError:
                    pass  # created meanwhile; if it is no folder, opening it fails now
                subfolder = os.open(name, _FOLDER_FLAGS, dir_fd=self._folder)
                os.close(self._folder)
                self._folder = subfolder
            self._missing = ()
            replace_file(self._folder, self.path.name, data)
        except BaseException:
            for folder, name in reversed(created):
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError:
                    break  # already in use
            raise
        finally:
            for folder, _ in created:
                os.close(folder)


def pin(folders: Iterable[Path], path: str) -> PinnedPath:
    """Return the pinned path of a file below one of the folders, which contain no links.

    Raises `OutsideWorkspace`, and `OSError` where no file can be there.
    """
    folders = tuple(folders)
    lookup = _look_up(folders, path)
    code = errno.EISDIR if lookup.real_path in folders else errno.ENOTDIR if lookup.is_blocked else 0
    if code:
        os.close(lookup.folder)
        raise OSError(code, os.strerror(code), path)
    return PinnedPath(lookup.real_path, lookup.folder, lookup.remaining[:-1])


def resolve(folders: Iterable[Path], path: str) -> Path:
    """Return the real path of a path in one of the folders, or of a folder; it need not exist.

    Raises `OutsideWorkspace`. For decisions only: reading and writing need `pin`, because the path may lead elsewhere a
    moment later.
    """
    lookup = _look_up(tuple(folders), path)
    os.close(lookup.folder)
    return lookup.real_path


class _Lookup(NamedTuple):
    """The result of a walk: `folder` is open, and was reached by the names `walked`; `remaining` was not walked.

    Without an error, `remaining` is one name, the last of the path, or none for `/`.
    """

    folder: int
    walked: Sequence[str]
    remaining: Sequence[str]
    error: OSError | None = None

    @property
    def real_path(self) -> Path:
        # As far as names can tell: `..` after something that is no folder has no meaning.
        return Path("/", *self.walked, *itertools.takewhile("..".__ne__, self.remaining))

    @property
    def is_blocked(self) -> bool:
        """True if something else is where a folder should be."""
        return isinstance(self.error, NotADirectoryError)


def _look_up(folders: Sequence[Path], path: str) -> _Lookup:
    _check(path)
    lookup = _walk(path)
    refusal = _refusal(folders, path, lookup)
    if refusal is not None:
        os.close(lookup.folder)
        raise OutsideWorkspace(refusal, path=path)
    return lookup


def _refusal(folders: Sequence[Path], path: str, lookup: _Lookup) -> str | None:
    real_path, error = lookup.real_path, lookup.error
    containing = [folder for folder in folders if real_path.is_relative_to(folder)]
    if not containing:
        # Without the target: the agent must not learn about links outside.
        verb = "leads" if any(Path(path).is_relative_to(folder) for folder in folders) else "is"
        return f"{path} {verb} outside the workspace ({', '.join(map(str, folders))})"
    if error is not None and not (lookup.is_blocked or isinstance(error, FileNotFoundError)):
        return f"{path} cannot be looked up: {error.strerror}"
    if ".." in lookup.remaining:
        return f"{path} leads nowhere: a link in it goes back from a folder that does not exist"
    if len(os.fsencode(real_path)) >= MAX_PATH_BYTES:
        return f"{path} cannot be looked up: {os.strerror(errno.ENAMETOOLONG)}"
    # Else a write would create the workspace's own folder, outside of it.
    if not any(real_path == folder or len(folder.parts) <= len(lookup.walked) + 1 for folder in containing):
        return f"{path} cannot be looked up: the workspace's folder {containing[0]} does not exist any more"
    return None


def _check(path: str) -> None:
    """Check the text of the path."""
    if "\0" in path:
        raise OutsideWorkspace(f"the path {path!r} has a NUL character in it", path=path)
    if not path.startswith("/"):
        raise OutsideWorkspace(f"the path {path!r} is not absolute", path=path)
    if ".." in path.split("/"):
        # Its meaning depends on links that may not exist yet, and no tool needs it in an absolute path.
        raise OutsideWorkspace(f"the path {path!r} has `..` in it", path=path)
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError as error:  # characters that no file name can have
        raise OutsideWorkspace(f"the path {path!r} cannot be a file's: {error}", path=path) from None
    if size >= MAX_PATH_BYTES:
        raise OutsideWorkspace(
            f"the path {path[:80]}… cannot be a file's: it has {size} bytes, the limit is {MAX_PATH_BYTES - 1}",
            path=path,
        )


def _walk(path: str) -> _Lookup:
    """Walk the path as far as it leads. The caller closes the folder of the result."""
    names = deque(_names(path))
    walked: list[str] = []
    name, links = "", 0
    folder = os.open("/", _FOLDER_FLAGS)
    try:
        for _ in range(MAX_STEPS):
            if not names:
                return _Lookup(folder, walked, ())
            name = names.popleft()
            if name == "..":
                names.extendleft(reversed(walked[:-1]))
            else:
                subfolder = _open_subfolder(folder, name) if names else None
                if subfolder is not None:
                    os.close(folder)
                    folder = subfolder
                    walked.append(name)
                    continue
                target = _read_link(folder, name)
                if target is None:
                    is_blocked = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
                    return _Lookup(folder, walked, (name, *names), is_blocked if names else None)
                links += 1
                if links > MAX_LINKS:
                    return _Lookup(folder, walked, (name, *names), OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
                names.extendleft(reversed([*([] if target.startswith("/") else walked), *_names(target)]))
            # Start again by names that were no links a moment ago: the parents of an open folder may have changed.
            root = os.open("/", _FOLDER_FLAGS)
            os.close(folder)
            folder = root
            walked = []
    except OSError as error:
        return _Lookup(folder, walked, (name, *names), error)
    return _Lookup(folder, walked, tuple(names), OSError(errno.ELOOP, "its links lead too far"))


def _may_write(name: str, folder: int) -> bool:
    # Not every system can check a link itself. For a link that was put there just now the answer does not matter.
    follow = os.access not in os.supports_follow_symlinks
    return os.access(name, os.W_OK, dir_fd=folder, follow_symlinks=follow)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _open_subfolder(folder: int, name: str) -> int | None:
    """Open the folder of this name; return None for a link or anything else."""
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):  # systems differ in the error for a link
            return None
        raise


def _read_link(folder: int, name: str) -> str | None:
    """Return the target of the link of this name; None where it is no link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
