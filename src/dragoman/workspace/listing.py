"""The files of a folder, to choose from in a prompt: list them, and rank them by what was typed.

Blocking; call it in a thread. In a git work tree, git lists the files; elsewhere folders that tools fill are left out.
Links are listed, not followed.
"""

from __future__ import annotations

import heapq
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

# Files that are listed. More do not help the choice, and a home folder has millions.
MAX_FILES: Final = 50_000

# Seconds for git to list the files.
GIT_TIMEOUT_S: Final = 5.0

_TOOL_FOLDERS: Final = frozenset({
    ".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".tox", ".cache", "dist", "build", "target", ".next", ".idea",
})  # fmt: skip


class FileListing(msgspec.Struct, frozen=True):
    """Paths within the folder, in order. `is_complete`: there are no others."""

    paths: tuple[str, ...]
    is_complete: bool


def list_folder(folder: Path) -> FileListing:
    git_paths = _list_with_git(folder)
    paths = []
    for path in git_paths if git_paths is not None else _walk_folder(folder):
        paths.append(path)
        if len(paths) == MAX_FILES:
            return FileListing(tuple(sorted(paths)), is_complete=False)
    return FileListing(tuple(sorted(paths)), is_complete=True)


def _list_with_git(folder: Path) -> Iterable[str] | None:
    # Without the programs of the repository's own configuration: listing must not run code from the repository.
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "ls-files", "-z", "--cached"]
    try:
        result = subprocess.run(
            [*command, "--others", "--exclude-standard"],
            cwd=folder,
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    names = (os.fsdecode(name) for name in result.stdout.split(b"\0") if name)
    return (name for name in names if _is_text(name))


def _walk_folder(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _TOOL_FOLDERS)
        relative = os.path.relpath(parent, folder)
        for name in sorted(files):
            path = name if relative == "." else f"{relative}/{name}"
            if _is_text(path):
                yield path


def _is_text(path: str) -> bool:
    """Return True if JSON can hold the path."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def rank_paths(query: str, paths: Iterable[str], limit: int) -> list[str]:
    """Return the paths that contain the letters of the query in their order; the best matches first."""
    letters = query.lower().replace(" ", "")
    scored_paths = ((score, path) for path in paths if (score := _score(letters, path)) is not None)
    return [path for _, path in heapq.nsmallest(limit, scored_paths)]


def _score(letters: str, path: str) -> tuple[int, int, int] | None:
    """Return the rank of a match: name before folders, adjacent before scattered, short before long; less is better."""
    text = path.lower()
    name = text.rpartition("/")[2]
    if not letters:
        return 0, path.count("/"), len(path)
    if letters in name:
        return (0 if name.startswith(letters) else 1), name.index(letters), len(path)
    if letters in text:
        return 2, text.index(letters), len(path)
    for rank, candidate in ((3, name), (4, text)):
        spread = _letter_spread(letters, candidate)
        if spread is not None:
            return rank, spread, len(path)
    return None


def _letter_spread(letters: str, text: str) -> int | None:
    """Return the distance of the first and last letter; None where the letters are not all there in their order."""
    index = first = -1
    for letter in letters:
        index = text.find(letter, index + 1)
        if index < 0:
            return None
        if first < 0:
            first = index
    return index - first
