"""The difference of two checkpoints: which files, and their changed lines, in parts of bounded size.

Blocking: call it in a thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from dragoman.protocol.checkpoints import ComparedFile, FileStatus, Hunk
from dragoman.workspace.git import Git

# Larger files are compared as wholes, like binary ones.
MAX_COMPARED_BYTES: Final = 8 * 1024 * 1024

# Lines of the difference of one file, and of all files, that one answer has.
MAX_FILE_LINES: Final = 1000
MAX_LINES: Final = 5000

# Files whose lines one call of git compares: their names must fit on a command line.
_FILES_AT_ONCE: Final = 50

_STATUSES: Final[dict[str, FileStatus]] = {
    "A": "added",
    "D": "deleted",
    "M": "modified",
    "R": "renamed",
    "T": "type changed",
}

_HUNK_HEAD: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")


class ListedFile(msgspec.Struct, frozen=True):
    """A file in which two trees differ, by the bytes of its name."""

    path: bytes
    old_path: bytes | None
    diff: ComparedFile


def list_files(git: Git, old_tree: str, new_tree: str, scope: bytes = b"") -> list[ListedFile]:
    """Return the files in which two trees differ, without their lines. Names are relative to the `scope`."""
    output = git.run(
        "diff-tree", "-r", "-z", "-M", "--raw", "--numstat", "--no-abbrev", old_tree, new_tree, config=[_THRESHOLD]
    )
    fields = iter(output.split(b"\0"))
    heads: list[tuple[str, str, FileStatus, bytes | None, bytes]] = []
    counts: list[tuple[int | None, int | None]] = []
    for field in fields:
        if field.startswith(b":"):
            old_mode, new_mode, _, _, letter = field[1:].decode().split(" ")
            path = next(fields)
            old_path = path if letter[0] == "R" else None
            heads.append((old_mode, new_mode, _STATUSES[letter[0]], old_path, next(fields) if old_path else path))
        elif field:
            added_lines, removed_lines, path = field.split(b"\t", 2)
            if not path:  # of a renamed file: both names follow
                next(fields), next(fields)
            counts.append((None, None) if added_lines == b"-" else (int(added_lines), int(removed_lines)))
    prefix = scope + b"/" if scope else b""
    files = []
    for (old_mode, new_mode, status, old_path, path), (added, removed) in zip(heads, counts, strict=True):
        shown_old = None if old_path is None else _text(old_path.removeprefix(prefix))
        diff = ComparedFile(
            path=_text(path.removeprefix(prefix)),
            status=status,
            old_path=shown_old,
            added=added,
            removed=removed,
            old_mode=None if status == "added" else old_mode,
            new_mode=None if status == "deleted" else new_mode,
        )
        files.append(ListedFile(path, old_path, diff))
    return files


def read_lines(
    git: Git,
    old_tree: str,
    new_tree: str,
    files: Sequence[ListedFile],
    *,
    first_line: int = 0,
    max_file_lines: int = MAX_FILE_LINES,
    max_lines: int = MAX_LINES,
) -> list[ComparedFile]:
    """Return the files with their changed lines; as many files as fit, but one at least.

    `first_line` skips lines of the first file, for one that does not fit into one answer.
    """
    complete: list[ComparedFile] = []
    room = max_lines
    for start in range(0, len(files), _FILES_AT_ONCE):
        part = files[start : start + _FILES_AT_ONCE]
        hunks = _hunks_of(git, old_tree, new_tree, part)
        for file in part:
            skipped = first_line if not complete else 0
            limit = min(max_file_lines, room) if complete else max_file_lines
            shown, next_line = cut_hunks(hunks.get(file.path, ()), skipped, limit)
            if complete and next_line is not None and room < max_file_lines:
                return complete  # it begins the next answer
            complete.append(msgspec.structs.replace(file.diff, hunks=shown, next_line=next_line))
            room -= sum(len(hunk.lines) for hunk in shown)
            if room <= 0:
                return complete
    return complete


def cut_hunks(hunks: Sequence[Hunk], first: int, limit: int) -> tuple[tuple[Hunk, ...], int | None]:
    """Return the lines of hunks from `first` on, at most `limit`; and the line after them, if there is one."""
    shown: list[Hunk] = []
    line, end = 0, first + limit
    for hunk in hunks:
        count = len(hunk.lines)
        if line + count > first and line < end:
            shown.append(_part_of(hunk, max(0, first - line), min(count, end - line)))
        line += count
    return tuple(shown), (end if line > end else None)


def _part_of(hunk: Hunk, start: int, stop: int) -> Hunk:
    if (start, stop) == (0, len(hunk.lines)):
        return hunk
    before, lines = hunk.lines[:start], hunk.lines[start:stop]
    return Hunk(
        old_start=hunk.old_start + _count(before, " -"),
        old_lines=_count(lines, " -"),
        new_start=hunk.new_start + _count(before, " +"),
        new_lines=_count(lines, " +"),
        heading=hunk.heading,
        lines=lines,
    )


def _count(lines: Sequence[str], marks: str) -> int:
    return sum(line[:1] in marks for line in lines)


_THRESHOLD: Final = f"core.bigFileThreshold={MAX_COMPARED_BYTES}"
_PATCH_OPTIONS: Final = ("-r", "-p", "-M", "--no-color", "--no-ext-diff", "--no-textconv")


def patch(git: Git, old_tree: str, new_tree: str, scope: bytes = b"", *, is_exact: bool = True) -> bytes:
    """Return the whole difference as `git apply` reads it, relative to the scope; of binary files, only with `is_exact`
    what they contain."""
    options = [*_PATCH_OPTIONS, *(["--binary", "--full-index"] if is_exact else [])]
    relative = ["--relative=" + os.fsdecode(scope)] if scope else []
    return git.run("diff-tree", *options, *relative, old_tree, new_tree)


def _hunks_of(git: Git, old_tree: str, new_tree: str, files: Sequence[ListedFile]) -> dict[bytes, tuple[Hunk, ...]]:
    paths = [path for file in files for path in (file.old_path, file.path) if path is not None]
    status_options = ("-r", "-z", "-M", "--name-status")
    listed = git.run("diff-tree", *status_options, old_tree, new_tree, "--", *paths, config=[_THRESHOLD])
    names = iter(listed.split(b"\0")[:-1])
    output = git.run("diff-tree", *_PATCH_OPTIONS, old_tree, new_tree, "--", *paths, config=[_THRESHOLD])
    differences = _split(output)  # in the same order
    hunks: dict[bytes, tuple[Hunk, ...]] = {}
    for status in names:
        path = next(names)
        if status.startswith(b"R"):
            path = next(names)
        # A file that becomes a link is shown as removed, and as added.
        parts = [next(differences, []) for _ in range(2 if status == b"T" else 1)]
        hunks[path] = tuple(hunk for part in parts for hunk in part)
    return hunks


def _split(output: bytes) -> Iterator[list[Hunk]]:
    """Yield the hunks of each file of a patch. Lines end with a newline and nothing else."""
    hunks: list[Hunk] | None = None
    head: re.Match[bytes] | None = None
    lines: list[str] = []
    old_left = new_left = 0

    def finish() -> None:
        if head is not None and hunks is not None:
            old_start, old_lines, new_start, new_lines, heading = head.groups()
            hunks.append(
                Hunk(
                    old_start=int(old_start),
                    old_lines=int(old_lines or 1),
                    new_start=int(new_start),
                    new_lines=int(new_lines or 1),
                    heading=_text(heading),
                    lines=tuple(lines),
                )
            )

    for line in output.split(b"\n")[:-1]:
        if old_left > 0 or new_left > 0 or line.startswith(b"\\ "):
            lines.append(_text(line))
            old_left -= line[:1] in (b" ", b"-")
            new_left -= line[:1] in (b" ", b"+")
        elif line.startswith(b"diff --git "):
            finish()
            if hunks is not None:
                yield hunks
            hunks, head, lines = [], None, []
        elif (found := _HUNK_HEAD.match(line)) is not None:
            finish()
            head, lines = found, []
            old_left, new_left = int(found[2] or 1), int(found[4] or 1)
    finish()
    if hunks is not None:
        yield hunks


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
