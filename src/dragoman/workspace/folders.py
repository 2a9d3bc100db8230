"""`Workspace`: the folders a session may touch, and whether a path is in them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import msgspec

from dragoman.errors import InputError
from dragoman.workspace.paths import OutsideWorkspace, Place, hold, resolve


class Workspace(msgspec.Struct, frozen=True):
    """`cwd`, and `additional` folders beside it: each exists, is absolute, and has no symbolic link in it.

    Promised by `resolve`: what it returns is inside one of these folders after every symbolic link on the way has been
    followed, the links at the end of the path and those to files that do not exist yet included, as the file system
    was at the moment of the call. A moment later it may lead elsewhere: whoever reads or writes there uses `hold`.
    """

    cwd: Path
    additional: tuple[Path, ...] = ()

    if TYPE_CHECKING:  # the fields are paths; what callers give may also be text

        def __init__(self, cwd: str | os.PathLike[str], additional: Iterable[str | os.PathLike[str]] = ()) -> None: ...

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "cwd", _folder(self.cwd, "cwd"))
        given: object = self.additional
        if isinstance(given, str | bytes | os.PathLike) or not isinstance(given, Iterable):
            raise InputError(f"additional is {given!r}; expected a list of folders")
        folders = tuple(_folder(folder, "additional") for folder in given)
        msgspec.structs.force_setattr(self, "additional", folders)

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.cwd, *self.additional)

    def contains(self, path: str | os.PathLike[str]) -> bool:
        """Whether `resolve` would accept it."""
        try:
            self.resolve(path)
        except OutsideWorkspace:
            return False
        return True

    def resolve(self, path: str | os.PathLike[str]) -> Path:
        """Where an absolute path leads; it need not exist. Raises `OutsideWorkspace`."""
        return resolve(self.folders, os.fspath(path))

    def hold(self, path: str | os.PathLike[str]) -> Place:
        """The place of a file, held open to be read or written. Raises `OutsideWorkspace` and `OSError`."""
        return hold(self.folders, os.fspath(path))

    def within(self, path: str | os.PathLike[str]) -> PurePath:
        """The resolved path as seen from the folder of the workspace that it is in (the outermost of them)."""
        real = self.resolve(path)
        return max((real.relative_to(folder) for folder in self.folders if real.is_relative_to(folder)), key=_depth)


def _depth(path: PurePath) -> int:
    return len(path.parts)


def _folder(given: str | os.PathLike[str], field: str) -> Path:
    try:
        path = Path(given)
        real = Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        raise InputError(
            f"{field}: the folder {os.path.abspath(given)} does not exist",
            guidance="Create it, or name another folder.",
        ) from None
    except (OSError, TypeError, ValueError) as problem:
        raise InputError(f"{field}: {given!r} cannot be used as a folder: {problem}") from None
    if not real.is_dir():
        raise InputError(f"{field}: {real} is not a folder", guidance="Name a folder, not a file.")
    return real
