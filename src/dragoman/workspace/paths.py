"""`Place`: a place inside the workspace, held open; and the walk that finds where a path leads.

A path is walked from `/`, name by name: each folder is opened from the one above it and never through a link. Links are
read, not followed: their way is walked like the path itself. What is found is therefore a chain of folders none of
which was a link when it was opened, and whether it is inside is judged by these names alone.

Promised: a `Place` is below one of the folders it was looked for in. What is read or written there goes through the
folder that is held open, and through no link: whoever puts a link in the place of a folder or a file, before, between
or after, gains nothing. A link inside that leads inside is followed, to another folder of the workspace too. What is
mounted inside is inside. A refusal tells nothing of what is outside, not even whether it exists.

Not promised: that a folder stays where it is while it is held. Who can move it out of the workspace can write there.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from dragoman.errors import InputError
from dragoman.workspace.replacing import replace

# As many as Linux itself follows; macOS gives up at 32.
LINKS: Final = 40

# Names walked for one path. The longest path has 2,048; links that name long ways again and again would take minutes.
STEPS: Final = 16_384

# Bytes of a path, with the one that ends it in C. A walk by names could go deeper, to where no other program can.
PATH_LIMIT: Final = os.pathconf("/", "PC_PATH_MAX")

# A folder to step through. Where the system can (Linux), without reading it: search permission is enough.
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# Not to wait for the other end of a FIFO, and not to get a terminal that we did not ask for.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class OutsideWorkspace(InputError):
    """A path that does not lead into the workspace, or that no file can have. `path` is the path as it was given."""

    default_guidance = (
        "Name an absolute path inside the workspace, or open the session with that folder in `additional`."
    )

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class Place:
    """Where a file is or could be: `path` by its names, none of them a link. To be closed, best by `with`.

    Its methods raise `OSError`; a link that was put there meanwhile is one (`ELOOP`), not a way.
    """

    def __init__(self, path: Path, folder: int, missing: Sequence[str]) -> None:
        self.path = path
        self._folder = folder  # a descriptor; -1 once it is closed
        self._missing = missing  # folders that do not exist, below the one that is open

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def status(self) -> os.stat_result | None:
        """What is there; None where nothing is. Never that of what a link leads to."""
        if self._missing:
            return None
        try:
            return os.stat(self.path.name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def writable(self) -> bool:
        """Whether the file that is there may be changed: by its mode, also where we are root, and by the system."""
        status = self.status()
        return status is None or (status.st_mode & 0o222 != 0 and _may_write(self.path.name, self._folder))

    def open(self) -> BinaryIO:
        """To be read. It may be anything: a device, a FIFO or a folder too, which is for the caller to look at."""
        if self._missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        return open(os.open(self.path.name, _READ, dir_fd=self._folder), "rb")

    def replace(self, data: bytes) -> None:
        """Put a file with this content there, whole or not at all, and make the folders above it."""
        made: list[tuple[int, str]] = []  # folders that were not there, each with the one that it is in
        try:
            for name in self._missing:
                try:
                    os.mkdir(name, dir_fd=self._folder)
                    made.append((os.dup(self._folder), name))
                except FileExistsError:
                    pass  # meanwhile; whether it is a folder is seen now
                below = os.open(name, _FOLDER, dir_fd=self._folder)
                os.close(self._folder)
                self._folder = below
            self._missing = ()
            replace(self._folder, self.path.name, data)
        except BaseException:
            for folder, name in reversed(made):
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError:
                    break  # someone uses it already
            raise
        finally:
            for folder, _ in made:
                os.close(folder)


def hold(folders: Iterable[Path], path: str) -> Place:
    """The place of a file that is, or could be, below one of the folders. These have no links in them.

    Raises `OutsideWorkspace`, and `OSError` where no file can be there.
    """
    folders = tuple(folders)
    way = _look_up(folders, path)
    code = errno.EISDIR if way.real in folders else errno.ENOTDIR if way.blocked else 0
    if code:
        os.close(way.folder)
        raise OSError(code, os.strerror(code), path)
    return Place(way.real, way.folder, way.rest[:-1])


def resolve(folders: Iterable[Path], path: str) -> Path:
    """Where a path leads that is in one of the folders, or one of them; it need not exist. Raises `OutsideWorkspace`.

    To look and to judge by. What is to be read or written needs `hold`: this one may lead elsewhere a moment later.
    """
    way = _look_up(tuple(folders), path)
    os.close(way.folder)
    return way.real


class _Way(NamedTuple):
    """How far a walk came: `folder` is open, and was reached by the names `done`; `rest` is not walked.

    Without a problem the rest is one name, that of what the path leads to, or none for `/`.
    """

    folder: int
    done: Sequence[str]
    rest: Sequence[str]
    problem: OSError | None = None

    @property
    def real(self) -> Path:
        # As far as names can tell: what is above something that is no folder, nobody knows.
        return Path("/", *self.done, *itertools.takewhile("..".__ne__, self.rest))

    @property
    def blocked(self) -> bool:
        """Whether something that is no folder stands in the place of one."""
        return isinstance(self.problem, NotADirectoryError)


def _look_up(folders: Sequence[Path], path: str) -> _Way:
    _check(path)
    way = _walk(path)
    refusal = _refusal(folders, path, way)
    if refusal is not None:
        os.close(way.folder)
        raise OutsideWorkspace(refusal, path=path)
    return way


def _refusal(folders: Sequence[Path], path: str, way: _Way) -> str | None:
    real, problem = way.real, way.problem
    holding = [folder for folder in folders if real.is_relative_to(folder)]
    if not holding:
        # Not where it leads: the agent is not to learn what links there are outside.
        leads = "leads" if any(Path(path).is_relative_to(folder) for folder in folders) else "is"
        return f"{path} {leads} outside the workspace ({', '.join(map(str, folders))})"
    if problem is not None and not (way.blocked or isinstance(problem, FileNotFoundError)):
        return f"{path} cannot be looked up: {problem.strerror}"
    if ".." in way.rest:
        return f"{path} leads nowhere: a link in it goes back from a folder that does not exist"
    if len(os.fsencode(real)) >= PATH_LIMIT:
        return f"{path} cannot be looked up: {os.strerror(errno.ENAMETOOLONG)}"
    # Else the workspace's own folder would be made anew, which would be done outside of it.
    if not any(real == folder or len(folder.parts) <= len(way.done) + 1 for folder in holding):
        return f"{path} cannot be looked up: the workspace's folder {holding[0]} does not exist any more"
    return None


def _check(path: str) -> None:
    """What can be told from the path alone."""
    if "\0" in path:
        raise OutsideWorkspace(f"the path {path!r} has a NUL character in it", path=path)
    if not path.startswith("/"):
        raise OutsideWorkspace(f"the path {path!r} is not absolute", path=path)
    if ".." in path.split("/"):
        # Where it leads depends on links that may not exist yet, and no tool needs it in an absolute path.
        raise OutsideWorkspace(f"the path {path!r} has `..` in it", path=path)
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError as problem:  # characters that no file name can have
        raise OutsideWorkspace(f"the path {path!r} cannot be a file's: {problem}", path=path) from None
    if size >= PATH_LIMIT:
        raise OutsideWorkspace(
            f"the path {path[:80]}… cannot be a file's: it has {size} bytes, the limit is {PATH_LIMIT - 1}", path=path
        )


def _walk(path: str) -> _Way:
    """As far as the path leads. The folder that it ends in is the caller's to close."""
    todo = deque(_names(path))
    done: list[str] = []
    name, links = "", 0
    folder = os.open("/", _FOLDER)
    try:
        for _ in range(STEPS):
            if not todo:
                return _Way(folder, done, ())
            name = todo.popleft()
            if name == "..":
                todo.extendleft(reversed(done[:-1]))
            else:
                below = _below(folder, name) if todo else None
                if below is not None:
                    os.close(folder)
                    folder = below
                    done.append(name)
                    continue
                target = _target(folder, name)
                if target is None:
                    blocked = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
                    return _Way(folder, done, (name, *todo), blocked if todo else None)
                links += 1
                if links > LINKS:
                    return _Way(folder, done, (name, *todo), OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
                todo.extendleft(reversed([*([] if target.startswith("/") else done), *_names(target)]))
            # Anew, by names that were no links a moment ago: what is above a folder that is open may have changed.
            top = os.open("/", _FOLDER)
            os.close(folder)
            folder = top
            done = []
    except OSError as problem:
        return _Way(folder, done, (name, *todo), problem)
    return _Way(folder, done, tuple(todo), OSError(errno.ELOOP, "its links lead too long a way"))


def _may_write(name: str, folder: int) -> bool:
    # Not every system can tell it of a link itself. Where one was put there just now, the answer is of no use anyway.
    follow = os.access not in os.supports_follow_symlinks
    return os.access(name, os.W_OK, dir_fd=folder, follow_symlinks=follow)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _below(folder: int, name: str) -> int | None:
    """The folder of this name, opened; None where it is a link or something else."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENOTDIR):  # which of them a link gives differs between systems
            return None
        raise


def _target(folder: int, name: str) -> str | None:
    """What the link of this name says; None where it is no link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as problem:
        if problem.errno == errno.EINVAL:
            return None
        raise
