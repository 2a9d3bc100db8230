"""`KeptFile`: one small JSON file of the home folder that several processes read and change.

Promised: it is for its user alone (0600); a reader sees it whole, as it was before a change or after; two changes at
the same time both hold. A file that cannot be read is an error that names it, never an empty one: what it held would
be lost with the next change.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from dragoman.config import make_home
from dragoman.errors import ConfigError, InputError

T = TypeVar("T", bound=msgspec.Struct)


def folder_key(folder: Path) -> str:
    """A folder's real path, as a text that JSON can hold whatever bytes its name has."""
    real = os.path.realpath(folder)
    try:
        real.encode()
    except UnicodeEncodeError:
        return f"bytes:{os.fsencode(real).hex()}"
    return real


class KeptFile(Generic[T]):
    """`empty` is what it holds while there is no such file."""

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
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InputError) as problem:
            raise ConfigError(
                f"this is not what Dragoman writes there: {problem}",
                where=str(self.path),
                guidance="Mend the file, or delete it: what it holds is then forgotten.",
            ) from None

    def change(self, decide: Callable[[T], T]) -> T:
        """Puts what `decide` makes of its content in its place. No other process changes it meanwhile."""
        folder = make_home(self.path.parent)
        try:
            # Beside it: the file itself is replaced, and a lock on what is gone would hold nobody.
            lock = os.open(folder / f"{self.path.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                old = self.read()
                new = decide(old)
                if new != old:
                    self._write(new)
            finally:
                os.close(lock)
        except OSError as error:
            raise ConfigError(f"the file cannot be written: {error.strerror}", where=str(self.path)) from None
        return new

    def _write(self, content: T) -> None:
        beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        data = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
