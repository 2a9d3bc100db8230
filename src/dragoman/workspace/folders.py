"""`Workspace`: the folders that a session may touch, and the check that a path is inside them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import msgspec

from dragoman.errors import InputError
from dragoman.workspace.paths import OutsideWorkspace, PinnedPath, pin, resolve


class Workspace(msgspec.Struct, frozen=True):
    """`cwd`, and `additional` folders beside it: each exists, is absolute, and contains no symbolic link.

    `resolve` promises: the returned path is inside one of these folders after every symbolic link on the way has been
    followed, including links at the end of the path and links to files that do not exist yet, as the file system was at
    the moment of the call. A moment later the path may lead elsewhere: code that reads or writes there uses `pin`.

    `origin` is the folder that the user chose, where `cwd` is a worktree or a copy of it.
    """

    cwd: Path
    additional: tuple[Path, ...] = ()
    origin: Path | None = None

    if TYPE_CHECKING:  # the fields are paths; callers may also pass text

        def __init__(
            self,
            cwd: str | os.PathLike[str],
            additional: Iterable[str | os.PathLike[str]] = (),
            origin: Path | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "cwd", _folder(self.cwd, "cwd"))
        value: object = self.additional
        if isinstance(value, str | bytes | os.PathLike) or not isinstance(value, Iterable):
            raise InputError(f"additional is {value!r}; expected a list of folders")
        folders = tuple(_folder(folder, "additional") for folder in value)
        msgspec.structs.force_setattr(self, "additional", folders)

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.cwd, *self.additional)

    @property
    def rules_folder(self) -> Path:
        """The folder whose rules and remembered answers hold: that which the user chose."""
        return self.origin or self.cwd

    def contains(self, path: str | os.PathLike[str]) -> bool:
        """Return True if `resolve` accepts the path."""
        try:
            self.resolve(path)
        except OutsideWorkspace:
            return False
        return True

    def resolve(self, path: str | os.PathLike[str]) -> Path:
        """Return the real path of an absolute path, which need not exist. Raises `OutsideWorkspace`."""
        return resolve(self.folders, os.fspath(path))

    def pin(self, path: str | os.PathLike[str]) -> PinnedPath:
        """Return the path of a file to read or write, its folder held open. Raises `OutsideWorkspace`, `OSError`."""
        return pin(self.folders, os.fspath(path))

    def relative_path(self, path: str | os.PathLike[str]) -> PurePath:
        """Return the resolved path relative to the folder of the workspace that contains it (the outermost of them)."""
        real = self.resolve(path)
        return max((real.relative_to(folder) for folder in self.folders if real.is_relative_to(folder)), key=_depth)


def _depth(path: PurePath) -> int:
    return len(path.parts)


def _folder(value: str | os.PathLike[str], field: str) -> Path:
    try:
        path = Path(value)
        real = Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        raise InputError(
            f"{field}: the folder {os.path.abspath(value)} does not exist",
            guidance="Create it, or name another folder.",
        ) from None
    except (OSError, TypeError, ValueError) as error:
        raise InputError(f"{field}: {value!r} cannot be used as a folder: {error}") from None
    if not real.is_dir():
        raise InputError(f"{field}: {real} is not a folder", guidance="Name a folder, not a file.")
    return real
