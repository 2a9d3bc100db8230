"""Files that are replaced as a whole, and `LockedJsonFile`, a small JSON file that several processes read and change.

`replacing` and `atomic_write` promise: a reader of the path gets the old content or the new one, also after a power
failure; on any failure the old file stays as it was, and no temporary file is left beside it. They do not promise that
two writers exclude each other: the later one wins. `LockedJsonFile` adds that promise with a lock file.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Generic, TypeVar

import msgspec

from dragoman.config import make_home
from dragoman.errors import ConfigError, InputError

PRIVATE: Final = 0o600
"""The mode of a file for its owner alone: most of our files contain conversations with agents, or keys."""

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

T = TypeVar("T", bound=msgspec.Struct)


@contextmanager
def replacing(
    path: str | Path, *, mode: int = PRIVATE, dir_fd: int | None = None, temporary: str | None = None, sync: bool = True
) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`. It takes the name `path` when the block ends without an exception.

    `mode` is that of the new file, less the umask. With `dir_fd`, `path` is a name in that open folder. `temporary` is
    the name of the temporary file, for callers that look for it after a kill. Without `sync`, a power failure may leave
    an empty file. Raises `OSError`.
    """
    name = temporary or f".dragoman-{secrets.token_hex(8)}"  # unguessable, so that nobody can have put a link there
    beside = Path(path).with_name(name) if dir_fd is None else name
    descriptor = os.open(beside, _CREATE, mode, dir_fd=dir_fd)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            # Before the rename: some disks report only now that they are full, and after a power failure a new name
            # can be there with nothing behind it.
            if sync:
                os.fsync(descriptor)
        os.replace(beside, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        with suppress(FileNotFoundError):  # its disappearance may be the very failure
            os.unlink(beside, dir_fd=dir_fd)
        raise


def atomic_write(
    path: str | Path, data: bytes, *, mode: int = PRIVATE, dir_fd: int | None = None, sync: bool = True
) -> None:
    """Replace the file at `path` by one with this content, or leave it as it was. Raises `OSError`.

    Without `sync`, a power failure may leave an empty file.
    """
    with replacing(path, mode=mode, dir_fd=dir_fd, sync=sync) as file:
        file.write(data)


def folder_key(folder: Path) -> str:
    """Return a folder's real path as a text that JSON can carry, whatever bytes its name has."""
    real = os.path.realpath(folder)
    try:
        real.encode()
    except UnicodeEncodeError:
        return f"bytes:{os.fsencode(real).hex()}"
    return real


class LockedJsonFile(Generic[T]):
    """A small JSON file of the home folder that several processes read and change.

    Promised: only its owner can read it (0600); a reader sees it whole, before a change or after it; of two changes at
    the same time neither is lost. A file that cannot be read raises a `ConfigError` that names it. It never counts as
    empty, because the next change would then lose its content.

    `empty` is the content while there is no such file.
    """

    def __init__(self, path: Path, empty: T) -> None:
        self.path = path
        self._empty = empty

    def read(self) -> T:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return self._empty
        except OSError as error:
            raise ConfigError(f"the file cannot be read: {error.strerror}", where=str(self.path)) from None
        try:
            return msgspec.json.decode(data, type=type(self._empty))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InputError) as error:
            raise ConfigError(
                f"this is not what Dragoman writes there: {error}",
                where=str(self.path),
                guidance="Correct the file, or delete it: Dragoman then starts with an empty one.",
            ) from None

    def change(self, decide: Callable[[T], T]) -> T:
        """Replace the content by `decide(content)` and return it. No other process changes the file meanwhile."""
        folder = make_home(self.path.parent)
        try:
            # A file of its own: the JSON file is replaced, and a lock on a file that is gone excludes nobody.
            lock = os.open(folder / f"{self.path.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                old = self.read()
                new = decide(old)
                if new != old:
                    atomic_write(self.path, msgspec.json.format(msgspec.json.encode(new), indent=2) + b"\n")
            finally:
                os.close(lock)
        except OSError as error:
            raise ConfigError(f"the file cannot be written: {error.strerror}", where=str(self.path)) from None
        return new
