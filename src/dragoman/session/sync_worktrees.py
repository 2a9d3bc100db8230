"""`SyncWorktrees`: worktrees on this machine or on a server, for programs that are not async."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from dragoman.protocol.worktrees import Leftover, WorktreeApply, WorktreeChanges, WorktreeInfo, WorktreeMerge
from dragoman.session.sync import background


class AnyWorktree(Protocol):
    """A worktree, here or on a server."""

    @property
    def info(self) -> WorktreeInfo: ...
    def changes(self) -> Coroutine[Any, Any, WorktreeChanges]: ...
    def apply(self, plan: WorktreeApply | None = None, *, undo: bool = False) -> Coroutine[Any, Any, WorktreeApply]: ...
    def merge(
        self,
        *,
        into: str | None = None,
        commit: str | None = None,
        message: str | None = None,
        no_ff: bool = False,
        conflicts: bool = False,
        trust_repository: bool = False,
    ) -> Coroutine[Any, Any, WorktreeMerge]: ...
    def drop(self, *, force: bool = False) -> Coroutine[Any, Any, WorktreeInfo]: ...
    def keep(self) -> Coroutine[Any, Any, WorktreeInfo]: ...


class AnyWorktrees(Protocol):
    """The worktrees of this machine, or of a server."""

    def list_worktrees(self, *, dropped: bool = False) -> Coroutine[Any, Any, tuple[WorktreeInfo, ...]]: ...
    def find(self, name: str) -> Coroutine[Any, Any, AnyWorktree]: ...
    def recover(self, name: str) -> Coroutine[Any, Any, AnyWorktree]: ...
    def prune(self, *, remove: bool = False) -> Coroutine[Any, Any, tuple[Leftover, ...]]: ...


class SyncWorktree:
    def __init__(self, worktree: AnyWorktree) -> None:
        self._worktree = worktree

    @property
    def info(self) -> WorktreeInfo:
        return self._worktree.info

    def changes(self) -> WorktreeChanges:
        """Return what was changed since the worktree was made."""
        return background.call(self._worktree.changes())

    def apply(self, plan: WorktreeApply | None = None, *, undo: bool = False) -> WorktreeApply:
        """Plan the changes of the worktree as uncommitted changes of the checkout; with the plan, make them."""
        return background.call(self._worktree.apply(plan, undo=undo))

    def merge(
        self,
        *,
        into: str | None = None,
        commit: str | None = None,
        message: str | None = None,
        no_ff: bool = False,
        conflicts: bool = False,
        trust_repository: bool = False,
    ) -> WorktreeMerge:
        """Merge the branch of the worktree; with `conflicts`, bring these into the worktree, to be solved there."""
        return background.call(
            self._worktree.merge(
                into=into,
                commit=commit,
                message=message,
                no_ff=no_ff,
                conflicts=conflicts,
                trust_repository=trust_repository,
            )
        )

    def drop(self, *, force: bool = False) -> WorktreeInfo:
        """Remove the folder and the branch. They can be recovered for 30 days."""
        return background.call(self._worktree.drop(force=force))

    def keep(self) -> WorktreeInfo:
        """Forget the worktree: its folder and branch stay."""
        return background.call(self._worktree.keep())


class SyncWorktrees:
    def __init__(self, worktrees: AnyWorktrees) -> None:
        self._worktrees = worktrees

    def list_worktrees(self, *, dropped: bool = False) -> tuple[WorktreeInfo, ...]:
        """Return all worktrees, the oldest first; with `dropped`, those that can be recovered."""
        return background.call(self._worktrees.list_worktrees(dropped=dropped))

    def find(self, name: str) -> SyncWorktree:
        """Return a worktree by its id or name."""
        return SyncWorktree(background.call(self._worktrees.find(name)))

    def recover(self, name: str) -> SyncWorktree:
        """Bring back a dropped worktree."""
        return SyncWorktree(background.call(self._worktrees.recover(name)))

    def prune(self, *, remove: bool = False) -> tuple[Leftover, ...]:
        """Return what no worktree needs any more; with `remove`, remove it."""
        return background.call(self._worktrees.prune(remove=remove))
