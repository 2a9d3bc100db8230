"""Checkpoints of a workspace, their differences and rewinds, as programs and clients get them.

Paths are relative to the session's `cwd`, or absolute in another folder of its workspace. A byte of a name or a line
that is not UTF-8 is written as `\\xff`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from dragoman.protocol.models import Model

Moment: TypeAlias = Literal["opened", "before", "after", "rewind", "reverted"]
FileStatus: TypeAlias = Literal["added", "deleted", "modified", "renamed", "type changed"]
RewindAction: TypeAlias = Literal["create", "overwrite", "delete"]


class SkippedPath(Model, frozen=True, kw_only=True):
    """A file or folder that a checkpoint lacks, and why."""

    path: str
    reason: str


class RunRef(Model, frozen=True, kw_only=True):
    """A run, and the session that it is of."""

    session_id: str
    run_id: str


class Checkpoint(Model, frozen=True, kw_only=True):
    """The files of a workspace at one moment: when the session was opened, or before or after a run or a rewind.

    `other_runs`: of other sessions that were at work there. `more_skipped`: how many skipped paths are not listed.
    """

    at: float
    run_id: str | None
    moment: Moment
    skipped_paths: tuple[SkippedPath, ...] = ()
    more_skipped: int = 0
    other_runs: tuple[RunRef, ...] = ()


class Hunk(Model, frozen=True, kw_only=True):
    """A part of a difference. Each of `lines` begins with a space, `+` or `-`, or is git's remark about a missing
    newline at the end of the file (`\\ No newline …`)."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    heading: str = ""  # the line above that git shows for orientation, such as the name of the function
    lines: tuple[str, ...] = ()


class ComparedFile(Model, frozen=True, kw_only=True):
    """The difference of one file.

    `added` and `removed` are numbers of lines, None for a file that is not compared by lines. `next_line`: more lines
    follow from this one on, counted over all hunks. `is_claimed`: the agent reported that it changed this file.
    `hidden_reason`: why the lines are left out for this client.
    """

    path: str
    status: FileStatus
    old_path: str | None = None  # of a renamed file
    added: int | None = None
    removed: int | None = None
    old_mode: str | None = None  # 100644, 100755 (executable) or 120000 (a symbolic link); None where there is no file
    new_mode: str | None = None
    hunks: tuple[Hunk, ...] = ()
    next_line: int | None = None
    is_claimed: bool = False
    hidden_reason: str | None = None


class WorkspaceDiff(Model, frozen=True, kw_only=True):
    """The files that differ between two checkpoints, with their lines.

    `offset` is the number of files before these, `count` that of all, and `next_offset` the offset of the rest, if
    there is more. `added` and `removed` are numbers of lines, over all files.
    """

    run_id: str | None  # None: since the session was opened
    before: Checkpoint
    after: Checkpoint | None  # None: the files as they are now
    files: tuple[ComparedFile, ...]
    offset: int
    count: int
    added: int
    removed: int
    next_offset: int | None = None
    skipped_paths: tuple[SkippedPath, ...] = ()  # what at least one of the two checkpoints lacks
    other_runs: tuple[RunRef, ...] = ()  # runs of other sessions in the same folder meanwhile: changes may be theirs
    only_claimed_paths: tuple[str, ...] = ()  # paths that the agent reported as changed, and that do not differ


class RewindChange(Model, frozen=True, kw_only=True):
    path: str
    action: RewindAction


class Rewind(Model, frozen=True, kw_only=True):
    """The changes of a rewind, planned or made (`is_done`).

    `id` stands for the files as they are and as they will be: who confirms the rewind passes it, and is refused if they
    were changed since. `left_paths` stay as they are, because a checkpoint lacks them. `other_runs` are at work in the
    same folder; while there are any, a rewind is refused.
    """

    id: str
    target: str  # in words, such as "before run 3"
    run_id: str | None = None  # the run whose checkpoint it goes to; None to undo the last rewind
    before: bool = False  # the checkpoint before that run, not the one after it
    changes: tuple[RewindChange, ...] = ()
    left_paths: tuple[str, ...] = ()
    other_runs: tuple[RunRef, ...] = ()
    is_done: bool = False
    operation: str | None = None  # its id in the log, once it is done
