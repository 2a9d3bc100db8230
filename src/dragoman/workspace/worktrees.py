"""`Worktrees`: folders and branches of their own for sessions, as linked work trees of the user's git repository.

Promised: the checkout stays as it is until the user applies or merges. Nothing is committed to a branch of the user's
unasked. What a dropped worktree contained, commits and files that git does not ignore, can be recovered for 30 days.
Only folders and branches that were made here are removed. A process that is killed leaves a record by which the next
command, or `prune`, finds what is left.

Git runs in threads; the lock of the repository is held while something is changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from dragoman.errors import CheckpointError, WorktreeError
from dragoman.protocol.worktrees import (
    Leftover,
    WorktreeApply,
    WorktreeChanges,
    WorktreeChoice,
    WorktreeInfo,
    WorktreeMerge,
)
from dragoman.workspace import tree_diff, worktree_create, worktree_merge, worktree_removal
from dragoman.workspace.git import GitError
from dragoman.workspace.git_state import SAFE_CONFIG, ReadingGit, without_filters
from dragoman.workspace.worktree_git import git_in, lines
from dragoman.workspace.worktree_merge import active_runs_in, changing, open_store
from dragoman.workspace.worktree_store import WorktreeRecord, WorktreeSettings, WorktreeStore, is_in

T = TypeVar("T")

MAX_COMMITS: Final = 50
MAX_FILES: Final = 500

_LOG: Final = ("log", "--no-show-signature", f"--max-count={MAX_COMMITS}", "--format=%h %s")
_STATUS: Final = ("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty")


class Worktree:
    """One worktree. `info` is its state when it was read, `cwd` the folder in it for a session."""

    def __init__(self, worktrees: Worktrees, record: WorktreeRecord, cwd: Path | None = None) -> None:
        self._worktrees = worktrees
        self._record = record
        self.cwd = cwd or Path(record.folder)

    @property
    def info(self) -> WorktreeInfo:
        return self._record.info(self._worktrees.settings.drop_age_s)

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def folder(self) -> Path:
        """The root of the worktree."""
        return Path(self._record.folder)

    @property
    def git_dir(self) -> Path:
        """The folder of the user's repository, which all its work trees share."""
        return Path(self._record.git_dir)

    async def add_session(self, session_id: str) -> None:
        """Note that a session works here."""
        await self._change(lambda record: self._worktrees.store.add_session(record, session_id))

    async def changes(self) -> WorktreeChanges:
        """Return what was changed since the worktree was made."""
        return await self._worktrees.in_thread(_changes_of, self._worktrees.store, self._record)

    async def patch(self) -> bytes:
        """Return the same in the form that `git apply` reads."""
        return await self._worktrees.in_thread(_patch_of, self._worktrees.store, self._record)

    async def apply(
        self, plan: WorktreeApply | None = None, *, undo: bool = False, plan_id: str | None = None
    ) -> WorktreeApply:
        """Plan the changes of the worktree as uncommitted changes of the checkout; with the plan, or its id, make them.

        `undo`: take back the last ones instead. Conflicts are listed, and nothing is changed then.
        """
        if plan is not None:
            plan_id, undo = plan.id, plan.undo

        def work(record: WorktreeRecord) -> tuple[WorktreeRecord, WorktreeApply]:
            store = self._worktrees.store
            return worktree_merge.apply(store, record, plan_id=plan_id, undo=undo, at=store.now())

        return await self._change_with(work)

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
        """Merge the branch of the worktree into the branch that it was made from, or `into` another one.

        `commit`: first commit what is not committed, with this message. `no_ff`: make a merge commit, with this
        `message`, also where a fast-forward is possible. Where there are conflicts they are listed, and nothing is
        changed; with `conflicts`, the other branch is merged into the worktree, where they wait to be solved.
        `trust_repository`: run hooks and filters also if they were changed since agents work there.
        """
        store = self._worktrees.store

        def work(record: WorktreeRecord) -> tuple[WorktreeRecord, WorktreeMerge]:
            return worktree_merge.merge(
                store,
                record,
                into=into,
                commit=commit,
                message=message,
                no_ff=no_ff,
                brings_conflicts=conflicts,
                trust_repository=trust_repository,
                at=store.now(),
            )

        return await self._change_with(work)

    async def drop(self, *, recoverable: bool = True, force: bool = False) -> WorktreeInfo:
        """Remove the folder and the branch. What they contain can be recovered for 30 days, if it is `recoverable`.

        Refused while a run is active there, and where files cannot be saved, unless with `force`.
        """
        return await self._worktrees.in_thread(
            worktree_removal.drop, self._worktrees.store, self._record, recoverable=recoverable, force=force
        )

    async def discard_unused(self) -> None:
        """Remove a worktree without a trace that no session has begun to work in."""
        await self._worktrees.in_thread(worktree_removal.discard_unused, self._worktrees.store, self._record)

    async def keep(self) -> WorktreeInfo:
        """Forget the worktree: its folder and branch are the user's from now on."""
        return await self._worktrees.in_thread(worktree_removal.keep, self._worktrees.store, self._record)

    async def _change(self, work: Callable[[WorktreeRecord], WorktreeRecord]) -> None:
        await self._change_with(lambda record: (work(record), None))

    async def _change_with(self, work: Callable[[WorktreeRecord], tuple[WorktreeRecord, T]]) -> T:
        def call() -> T:
            with changing(self._worktrees.store, self._record) as record:
                self._record, result = work(record)
                return result

        return await self._worktrees.in_thread(call)


class Worktrees:
    """The worktrees of a user, as `settings` say. `clock` returns the time in seconds since 1970."""

    def __init__(self, settings: WorktreeSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.store = WorktreeStore(settings, clock)

    async def in_thread(self, work: Callable[..., T], *args: object, **options: object) -> T:
        """Call `work` in a thread, to its end, even if the caller is cancelled: half a change must not be left."""
        task = asyncio.ensure_future(asyncio.to_thread(lambda: _explaining(work, *args, **options)))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    async def list_worktrees(self, *, dropped: bool = False) -> tuple[WorktreeInfo, ...]:
        """Return all worktrees, the oldest first; with `dropped`, those that can be recovered."""
        records = await self.in_thread(self._list, dropped)
        return tuple(record.info(self.settings.drop_age_s) for record in records)

    def _list(self, dropped: bool) -> list[WorktreeRecord]:
        records = self.store.records(dropped=dropped)
        expired = [record for record in records if dropped and worktree_removal.is_expired(self.store, record)]
        return [record for record in records if record not in expired]

    async def find(self, name: str, near: Path | None = None) -> Worktree:
        """Return a worktree by its id or name, first of the repository that the folder `near` is in."""
        return Worktree(self, await self.in_thread(self.store.find, name, near))

    async def at(self, folder: Path) -> Worktree | None:
        """Return the worktree that a folder is in."""
        records = await self.in_thread(self.store.records)
        return next((Worktree(self, record, folder) for record in records if is_in(record, folder)), None)

    async def create(
        self,
        cwd: Path,
        choice: WorktreeChoice | None = None,
        *,
        prompt: str = "",
        session_id: str | None = None,
        keeps_base: bool = True,
        on_progress: Callable[[str], None] = lambda line: None,
    ) -> Worktree:
        """Make a worktree of the repository that `cwd` is in; where `choice` names an existing one, return that.

        `prompt`: the name is made from it, where none is chosen. `on_progress` gets lines for people. Without
        `keeps_base` the files are not recorded: it is faster, and their changes cannot be shown or applied.
        """
        loop = asyncio.get_running_loop()

        def report(line: str) -> None:
            loop.call_soon_threadsafe(on_progress, line)

        def make() -> WorktreeRecord:
            return worktree_create.create(
                self.store, cwd, choice or WorktreeChoice(), prompt, session_id, keeps_base, report
            )

        task = asyncio.ensure_future(asyncio.to_thread(lambda: _explaining(make)))
        try:
            record = await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None and task.result().session_ids in ((), (session_id,)):
                await asyncio.to_thread(worktree_removal.discard_unused, self.store, task.result())
            raise
        try:
            return Worktree(self, record, await self.in_thread(worktree_create.folder_in, record, cwd))
        except WorktreeError:
            if record.session_ids in ((), (session_id,)):
                await self.in_thread(worktree_removal.discard_unused, self.store, record)
            raise

    async def recover(self, name: str, near: Path | None = None) -> Worktree:
        """Bring back a dropped worktree: its folder with all files, and its branch with all commits."""
        return Worktree(self, await self.in_thread(worktree_removal.recover, self.store, name, near))

    async def prune(self, *, remove: bool = False) -> tuple[Leftover, ...]:
        """Return what no worktree needs any more; with `remove`, remove it."""
        return await self.in_thread(worktree_removal.prune, self.store, remove)


def _changes_of(store: WorktreeStore, record: WorktreeRecord) -> WorktreeChanges:
    with changing(store, record) as current:
        git = git_in(current, kind=ReadingGit)
        commits = lines(git, *_LOG, f"{record.base_commit}..HEAD")
        uncommitted = [
            each for each in git.run(*_STATUS, config=(*SAFE_CONFIG, *without_filters(git))).split(b"\0") if each
        ]
        result = WorktreeChanges(
            worktree=current.info(store.settings.drop_age_s),
            commits=tuple(commits),
            uncommitted=len(uncommitted),
            active_runs=active_runs_in(store.settings, [Path(current.folder)]),
        )
        if current.base_tree is None:
            return result
        with open_store(store.settings, Path(current.folder)) as (checkpoints, shadow):
            snapshot = checkpoints.repository.snapshot(shadow)
            files = tree_diff.list_files(shadow, current.base_tree, snapshot.tree, b"")
            return msgspec.structs.replace(
                result,
                files=tuple(file.diff for file in files[:MAX_FILES]),
                count=len(files),
                added=sum(file.diff.added or 0 for file in files),
                removed=sum(file.diff.removed or 0 for file in files),
                skipped_paths=snapshot.skipped_paths,
            )


def _patch_of(store: WorktreeStore, record: WorktreeRecord) -> bytes:
    if record.base_tree is None:
        raise WorktreeError(f"the files of {record.name} were not recorded when it was made")
    with changing(store, record), open_store(store.settings, Path(record.folder)) as (checkpoints, shadow):
        tree = checkpoints.repository.snapshot(shadow).tree
        return tree_diff.patch(shadow, record.base_tree, tree, b"")


def _explaining(work: Callable[..., T], *args: object, **options: object) -> T:
    """Call `work`; what git, the shadow repository or the system refuses is an error of worktrees."""
    try:
        return work(*args, **options)
    except (GitError, CheckpointError) as error:
        raise WorktreeError(str(error), guidance=error.guidance) from error
    except OSError as error:
        raise WorktreeError(f"{error.filename or 'a file'}: {error.strerror or error}") from error
