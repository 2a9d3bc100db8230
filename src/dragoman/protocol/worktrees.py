"""Worktrees of sessions, as programs and clients get them.

Paths of files are relative to the root of the worktree. A byte of a name that is not UTF-8 is written as `\\xff`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from dragoman.protocol.checkpoints import ComparedFile, RewindChange, RunRef, SkippedPath
from dragoman.protocol.models import Model

WorktreeState: TypeAlias = Literal["creating", "ready", "applied", "merged", "dropped"]
MergeKind: TypeAlias = Literal["fast-forward", "merge commit", "nothing to merge"]
LeftoverKind: TypeAlias = Literal[
    "unfinished worktree",
    "folder without a record",
    "record without a folder",
    "branch without a worktree",
    "expired drop",
]


class WorktreeChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The worktree that a session is to have: an existing one by its `name`, or a new one.

    `base` is a branch or a commit, by default what is checked out. `setup` is a command that runs in the new worktree,
    in place of the configured one; empty for none. `keep_failed`: the worktree stays if that command fails.
    """

    name: str | None = None
    base: str | None = None
    setup: str | None = None
    keep_failed: bool = False


class SessionWorktree(msgspec.Struct, frozen=True, kw_only=True):
    """The worktree that a session works in, as its handle stores it.

    `cwd` is the folder that was asked for, `git_dir` that of the repository.
    """

    name: str
    checkout: str
    git_dir: str
    branch: str
    cwd: str


class WorktreeInfo(Model, frozen=True, kw_only=True):
    """A worktree. `id` is unique on this machine, `name` in its repository.

    `checkout` is the work tree from which it was made, `base_ref` the branch that was checked out there or named;
    None for a commit. Times are seconds since 1970.
    """

    id: str
    name: str
    state: WorktreeState
    checkout: str
    folder: str
    branch: str
    base_ref: str | None
    base_commit: str
    session_ids: tuple[str, ...] = ()
    created_at: float
    changed_at: float
    is_missing: bool = False  # its folder is gone
    expires_at: float | None = None  # of a dropped one: it can be recovered until then


class WorktreeChanges(Model, frozen=True, kw_only=True):
    """The changes of a worktree since it was made: commits, and files, committed or not, untracked ones included.

    `skipped_paths` are not compared, and not applied. `active_runs` are at work in it.
    """

    worktree: WorktreeInfo
    commits: tuple[str, ...] = ()  # "1a2b3c4 Subject", the newest first
    uncommitted: int = 0  # number of files that differ from the branch
    files: tuple[ComparedFile, ...] = ()
    count: int = 0
    added: int = 0
    removed: int = 0
    skipped_paths: tuple[SkippedPath, ...] = ()
    active_runs: tuple[RunRef, ...] = ()


class WorktreeApply(Model, frozen=True, kw_only=True):
    """The changes of a worktree in the checkout, planned or made (`is_done`).

    With `conflicts`, which are files that both sides changed or that git ignores in the checkout, nothing is changed.
    `id` stands for the files as they are and as they will be: who confirms passes it, and is refused if they were
    changed since. `left_paths` stay as they are, because no checkpoint can hold them.
    """

    id: str
    worktree: WorktreeInfo
    undo: bool = False
    changes: tuple[RewindChange, ...] = ()
    conflicts: tuple[str, ...] = ()
    left_paths: tuple[str, ...] = ()
    active_runs: tuple[RunRef, ...] = ()
    is_done: bool = False


class WorktreeMerge(Model, frozen=True, kw_only=True):
    """The merge of a worktree's branch; with `conflicts` it was not made.

    `is_in_worktree`: the target was merged into the worktree's branch instead, and the conflicts wait there.
    """

    worktree: WorktreeInfo
    target: str
    kind: MergeKind
    commits: int = 0  # that the target does not have
    commit: str | None = None  # of the target afterwards
    conflicts: tuple[str, ...] = ()
    is_in_worktree: bool = False
    checked_out_at: str | None = None  # the folder whose files are updated
    is_done: bool = False


class Leftover(Model, frozen=True, kw_only=True):
    """Something that no worktree needs any more. `note` says what is done with it."""

    kind: LeftoverKind
    name: str
    path: str
    note: str = ""
    is_removed: bool = False
