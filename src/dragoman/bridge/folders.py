"""A folder that a client names."""

from __future__ import annotations

import os
from pathlib import Path

from dragoman.bridge.refusal import Refusal


def folder_of(cwd: str, field: str = "cwd") -> Path:
    """`Refusal` where it is no folder of this machine, named by its whole path (`~` is the user's own)."""
    folder = Path(os.path.expanduser(cwd)) if "\0" not in cwd else Path()
    if not folder.is_absolute() or not folder.is_dir():
        raise Refusal("invalid", f"{cwd!r} is no folder on this machine", guidance="Name its whole path.", field=field)
    return folder
