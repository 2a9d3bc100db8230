"""`Workspace`: the folders a session may touch, and whether a path is in them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import msgspec

from dragoman.errors import InputError


class OutsideWorkspace(InputError):
    """A path that does not lead into the workspace, or that no file can have. `path` is the path as it was given."""

    default_guidance = (
        "Name an absolute path inside the workspace, or open the session with that folder in `additional`."
    )

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class Workspace(msgspec.Struct, frozen=True):
    """`cwd`, and `additional` folders beside it: each exists, is absolute, and has no symbolic link in it.

    Promised by `resolve`: what it returns is inside one of these folders after every symbolic link on the way has been
    followed, the links at the end of the path and those to files that do not exist yet included, as the file system
    was at the moment of the call. Whoever opens it at once and follows no link at its end reads and writes inside.
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
        real = _resolved(os.fspath(path))
        if not any(real.is_relative_to(folder) for folder in self.folders):
            raise OutsideWorkspace(self._outside(os.fspath(path), real), path=os.fspath(path))
        return real

    def within(self, path: str | os.PathLike[str]) -> PurePath:
        """The resolved path as seen from the folder of the workspace that it is in (the outermost of them)."""
        real = self.resolve(path)
        return max((real.relative_to(folder) for folder in self.folders if real.is_relative_to(folder)), key=_depth)

    def _outside(self, path: str, real: Path) -> str:
        leads = f" (it leads to {real})" if str(real) != path else ""
        return f"{path}{leads} is outside the workspace ({', '.join(map(str, self.folders))})"


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


def _resolved(path: str) -> Path:
    if "\0" in path:
        raise OutsideWorkspace(f"the path {path!r} has a NUL character in it", path=path)
    if not os.path.isabs(path):
        raise OutsideWorkspace(f"the path {path!r} is not absolute", path=path)
    if ".." in path.split("/"):
        # Where it leads depends on links that may not exist yet, and no tool needs it in an absolute path.
        raise OutsideWorkspace(f"the path {path!r} has `..` in it", path=path)
    try:
        # Not strict: the file may be about to be created. Links are followed also where they lead to nothing.
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as problem:  # characters that no file name can have
        raise OutsideWorkspace(f"the path {path!r} cannot be a file's: {problem}", path=path) from None
