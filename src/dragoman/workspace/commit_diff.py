"""`describe_changes`: what a commit would contain, as text of bounded length for an agent that proposes its message.

Reading it runs no program of the repository's configuration, as in `git_state`. Lines of files that the caller hides
are left out.

Blocking: call it in a thread.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dragoman.errors import GitActionError
from dragoman.workspace.git import GitError
from dragoman.workspace.git_actions import choose_entries
from dragoman.workspace.git_state import (
    SAFE_CONFIG,
    ReadingGit,
    Repository,
    StatusEntry,
    read_status,
    without_filters,
)
from dragoman.workspace.shadow import path_text
from dragoman.workspace.user_git import UserGit

# Characters of all lines, and of those of one file: a lock file must not hide all others.
MAX_LENGTH: Final = 48_000
MAX_FILE_LENGTH: Final = 8_000

# Files that are named, and files that are compared.
MAX_NAMED: Final = 300
MAX_COMPARED: Final = 100

# Subjects of the last commits, for the style.
MAX_SUBJECTS: Final = 10


class ChangesText(NamedTuple):
    """`files` has a line for each file, `patch` the lines that differ, `subjects` those of the last commits."""

    files: str
    patch: str
    subjects: tuple[str, ...]
    hidden_paths: tuple[str, ...]
    is_shortened: bool


def describe_changes(
    repository: Repository,
    *,
    paths: Sequence[str] | None = None,
    only_staged: bool = False,
    is_hidden: Callable[[Path], bool] = lambda path: False,
) -> ChangesText:
    """Describe what `commit` with the same arguments would commit. `GitActionError` where that is nothing.

    `is_hidden` is called with the path of each file.
    """
    git = ReadingGit(repository.root)
    try:
        headers, entries = read_status(git)
        chosen = choose_entries(entries, paths, repository.root) if paths is not None else entries
        if only_staged:
            chosen = [entry for entry in entries if entry.file.staged is not None]
        if not chosen:
            raise GitActionError("there is nothing to commit")
        hidden = {entry.path for entry in chosen if is_hidden(repository.root / os.fsdecode(entry.path))}
        shown = [entry for entry in chosen if entry.path not in hidden]
        parts = _tracked_parts(git, shown[:MAX_COMPARED], headers.get("branch.oid") == "(initial)", only_staged)
        if not only_staged:
            parts += [_new_file(repository.root, entry) for entry in shown[:MAX_COMPARED] if entry.file.is_untracked]
        subjects = git.call("log", f"-{MAX_SUBJECTS}", "--format=%s", "--no-show-signature", "--no-merges").stdout
    except GitError as error:
        raise GitActionError(f"the changes cannot be read: {error}", stderr=error.stderr) from None
    patch, is_shortened = _shorten(parts)
    return ChangesText(
        files="\n".join(map(_line_of, chosen[:MAX_NAMED])),
        patch=patch,
        subjects=tuple(path_text(line)[:200] for line in subjects.splitlines()),
        hidden_paths=tuple(entry.file.path for entry in chosen if entry.path in hidden),
        is_shortened=is_shortened or len(shown) > MAX_COMPARED or len(chosen) > MAX_NAMED,
    )


def _line_of(entry: StatusEntry) -> str:
    file = entry.file
    how = "added" if file.is_untracked else file.staged or file.unstaged or file.conflict or "changed"
    return f"{how}: {file.path}" if file.old_path is None else f"{how}: {file.old_path} -> {file.path}"


def _tracked_parts(git: UserGit, entries: Sequence[StatusEntry], is_unborn: bool, only_staged: bool) -> list[str]:
    """Return the differences of the files that git knows, one text each."""
    tracked = [entry for entry in entries if not entry.file.is_untracked]
    if not tracked:
        return []
    base = git.line("hash-object", "-t", "tree", "--stdin") if is_unborn else "HEAD"
    names = [path for entry in tracked for path in (entry.path, entry.old_path) if path is not None]
    patch = git.run(
        *("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "-M"),
        *(("--cached",) if only_staged else ()),
        base,
        "--",
        *names,
        config=(*SAFE_CONFIG, *without_filters(git)),
    )
    return [part for part in re.split(r"^(?=diff --git )", path_text(patch), flags=re.MULTILINE) if part]


def _new_file(root: Path, entry: StatusEntry) -> str:
    """Return the beginning of a file that git does not know as if it were a difference."""
    heading = f"new file {entry.file.path}\n"
    try:
        descriptor = os.open(root / os.fsdecode(entry.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return heading
            data = file.read(MAX_FILE_LENGTH + 1)
    except OSError:  # a link, a folder, or it is gone
        return heading
    if b"\0" in data:
        return f"{heading}(binary)\n"
    return heading + "".join(f"+{line}\n" for line in path_text(data).splitlines())


def _shorten(parts: Sequence[str]) -> tuple[str, bool]:
    short = [part if len(part) <= MAX_FILE_LENGTH else f"{part[:MAX_FILE_LENGTH]}\n(shortened)\n" for part in parts]
    text = "".join(short)
    if len(text) > MAX_LENGTH:
        return f"{text[:MAX_LENGTH]}\n(shortened)\n", True
    return text, any(len(part) > MAX_FILE_LENGTH for part in parts)
