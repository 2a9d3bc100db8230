"""Paths as Codex tells them: relative to a folder, of either slash, or as `file://` addresses. Made absolute here."""

from __future__ import annotations

import posixpath
import re
from typing import Final
from urllib.parse import unquote

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\")


def local(path: str) -> str:
    """A path, of a path or an address."""
    if not path.startswith("file://"):
        return path
    found = unquote(path.removeprefix("file://"))
    return found[1:] if _DRIVE.match(found[1:]) else found


def absolute(path: str, folder: str) -> str:
    """The path as seen from a folder; as it stands where the folder is not known."""
    path, folder = local(path), local(folder)
    if not path or not folder or path.startswith(("/", "~")) or _DRIVE.match(path):
        return path
    if _DRIVE.match(folder) and "/" not in folder:
        return folder.rstrip("\\") + "\\" + path.removeprefix(".\\").replace("/", "\\")
    return posixpath.normpath(posixpath.join(folder, path))
