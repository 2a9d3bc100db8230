"""`RemoteWorktrees`: the worktrees on a server, with the methods of `Worktrees` and `Worktree` on this machine."""

from __future__ import annotations

from pathlib import Path

from dragoman.protocol import requests
from dragoman.protocol.worktrees import Leftover, WorktreeApply, WorktreeChanges, WorktreeInfo, WorktreeMerge
from dragoman.remote.connection import ServerConnection


class RemoteWorktree:
    """A worktree on the server. `info` is its state when it was read."""

    def __init__(self, connection: ServerConnection, info: WorktreeInfo) -> None:
        self._connection = connection
        self.info = info

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def folder(self) -> Path:
        """The root of the worktree, on the server."""
        return Path(self.info.folder)

    async def changes(self) -> WorktreeChanges:
        """Return what was changed since the worktree was made."""
        return await self._connection.call(requests.WorktreeShow(worktree=self.info.id))

    async def apply(self, plan: WorktreeApply | None = None, *, undo: bool = False) -> WorktreeApply:
        """Plan the changes of the worktree as uncommitted changes of the checkout; with the plan, make them."""
        if plan is None:
            return await self._connection.call(requests.WorktreeApplyChanges(worktree=self.info.id, undo=undo))
        request = requests.WorktreeApplyChanges(worktree=self.info.id, undo=plan.undo, plan=plan.id)
        return await self._connection.call(request)

    async def merge(
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
        request = requests.WorktreeMergeBranch(
            worktree=self.info.id,
            into=into,
            commit=commit,
            message=message,
            no_ff=no_ff,
            conflicts=conflicts,
            trust_repository=trust_repository,
        )
        return await self._connection.call(request)

    async def drop(self, *, force: bool = False) -> WorktreeInfo:
        """Remove the folder and the branch. They can be recovered for 30 days."""
        return await self._connection.call(requests.WorktreeDrop(worktree=self.info.id, force=force))

    async def keep(self) -> WorktreeInfo:
        """Forget the worktree: its folder and branch stay."""
        return await self._connection.call(requests.WorktreeKeep(worktree=self.info.id))


class RemoteWorktrees:
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    async def list_worktrees(self, *, dropped: bool = False) -> tuple[WorktreeInfo, ...]:
        """Return all worktrees, the oldest first; with `dropped`, those that can be recovered."""
        return (await self._connection.call(requests.WorktreeList(dropped=dropped))).worktrees

    async def find(self, name: str) -> RemoteWorktree:
        """Return a worktree by its id, or its name where that is unique."""
        changes = await self._connection.call(requests.WorktreeShow(worktree=name))
        return RemoteWorktree(self._connection, changes.worktree)

    async def recover(self, name: str) -> RemoteWorktree:
        """Bring back a dropped worktree."""
        info = await self._connection.call(requests.WorktreeRecover(worktree=name))
        return RemoteWorktree(self._connection, info)

    async def prune(self, *, remove: bool = False) -> tuple[Leftover, ...]:
        """Return what no worktree needs any more; with `remove`, remove it."""
        return (await self._connection.call(requests.WorktreePrune(remove=remove))).leftovers
