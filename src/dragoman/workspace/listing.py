"""The files of a folder, to be mentioned: which there are, and which fit what was typed. Blocking; call it in a thread.

Where the folder is a git work tree, git says which files are its own; elsewhere folders that tools fill are left out.
Links are listed, and not followed.
"""

from __future__ import annotations

import heapq
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

# Files that are looked at. A list to choose from gains nothing by more, and a home folder has millions.
MOST_FILES: Final = 50_000

# Seconds for git to list them.
GIT_LIMIT: Final = 5.0

_FILLED_BY_TOOLS: Final = frozenset({
    ".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".tox", ".cache", "dist", "build", "target", ".next", ".idea",
})  # fmt: skip


class Files(msgspec.Struct, frozen=True):
    """Paths within the folder, in order. `complete`: there are no others."""

    paths: tuple[str, ...]
    complete: bool


def files_of(folder: Path) -> Files:
    found = _of_git(folder)
    paths = []
    for path in found if found is not None else _walked(folder):
        paths.append(path)
        if len(paths) == MOST_FILES:
            return Files(tuple(sorted(paths)), complete=False)
    return Files(tuple(sorted(paths)), complete=True)


def _of_git(folder: Path) -> Iterable[str] | None:
    # Without the repository's own configuration for programs: listing must not run what somebody put there.
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "ls-files", "-z", "--cached"]
    try:
        done = subprocess.run(
            [*command, "--others", "--exclude-standard"],
            cwd=folder,
            capture_output=True,
            timeout=GIT_LIMIT,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    names = (os.fsdecode(name) for name in done.stdout.split(b"\0") if name)
    return (name for name in names if _is_text(name))


def _walked(folder: Path) -> Iterator[str]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _FILLED_BY_TOOLS)
        within = os.path.relpath(where, folder)
        for name in sorted(files):
            path = name if within == "." else f"{within}/{name}"
            if _is_text(path):
                yield path


def _is_text(path: str) -> bool:
    """Whether JSON can hold it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def ranked(query: str, paths: Iterable[str], limit: int) -> list[str]:
    """The paths that have the letters of the query in their order; those that fit best first."""
    wanted = query.lower().replace(" ", "")
    scored = ((score, path) for path in paths if (score := _score(wanted, path)) is not None)
    return [path for _, path in heapq.nsmallest(limit, scored)]


def _score(wanted: str, path: str) -> tuple[int, int, int] | None:
    """Less is better: in the name before in the folders, together before scattered, short before long."""
    text = path.lower()
    name = text.rpartition("/")[2]
    if not wanted:
        return 0, path.count("/"), len(path)
    if wanted in name:
        return (0 if name.startswith(wanted) else 1), name.index(wanted), len(path)
    if wanted in text:
        return 2, text.index(wanted), len(path)
    for step, among in ((3, name), (4, text)):
        spread = _spread(wanted, among)
        if spread is not None:
            return step, spread, len(path)
    return None


def _spread(wanted: str, text: str) -> int | None:
    """How far apart its letters stand; None where they are not all there, in their order."""
    at = first = -1
    for letter in wanted:
        at = text.find(letter, at + 1)
        if at < 0:
            return None
        if first < 0:
            first = at
    return at - first
