"""`SessionCheckpoints`: the checkpoints of a session, over all folders of its workspace; their differences; rewinding.

Each folder has its own `CheckpointStore`, and sessions in the same folder share it. Git runs in threads: in one
process one at a time for each folder. Sessions that wait for a checkpoint of the same folder share the next one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Final, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from dragoman.errors import CheckpointError, InputError
from dragoman.protocol.checkpoints import (
    Checkpoint,
    ComparedFile,
    Moment,
    Rewind,
    RewindAction,
    RewindChange,
    RunRef,
    SkippedPath,
    WorkspaceDiff,
)
from dragoman.workspace import tree_diff
from dragoman.workspace.checkpoint_store import CheckpointStore, LogEntry, RewindPlan, partly_reverted
from dragoman.workspace.git import Git
from dragoman.workspace.shadow import all_repositories, path_text, repository_path
from dragoman.workspace.tree_diff import ListedFile

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Seconds for the first checkpoint of a folder, which is taken while the agent starts, and for a clean-up.
FIRST_TIMEOUT_S: Final = 600.0

# Seconds between two clean-ups.
PRUNE_INTERVAL_S: Final = 86_400.0

# Files of a difference in one answer.
MAX_FILES: Final = 200


class CheckpointSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`home` is our own folder. Times are in seconds, sizes in bytes."""

    home: Path
    is_default: bool = True  # they are taken in sessions that do not say otherwise
    max_file_bytes: int = 64 * 1024 * 1024
    timeout_s: float = 30.0  # for each checkpoint: a prompt waits for it
    max_age_s: float = 30 * 86_400.0
    max_bytes: int = 4 * 1024**3  # of each folder's repository


class _Folder:
    """A folder's checkpoints in this process. Checkpoints that wait for the same folder are taken as one."""

    def __init__(self, store: CheckpointStore) -> None:
        self.store = store
        self.lock = asyncio.Lock()
        self._requests: list[LogEntry] = []  # those that wait, and have not begun
        self._begun: list[LogEntry] = []
        self._next: asyncio.Task[dict[LogEntry, LogEntry | None]] | None = None

    async def take(self, request: LogEntry) -> LogEntry:
        self._requests.append(request)
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._take_next(), name="dragoman checkpoint")
            self._next.add_done_callback(_retrieve)
        entries = await asyncio.shield(self._next)
        entry = entries[request]
        assert entry is not None
        return entry

    def withdraw(self, request: LogEntry) -> None:
        """Log nothing for a request that nobody waits for any more, and end the work if it is for nobody else."""
        for requests in (self._requests, self._begun):
            if request in requests:
                requests.remove(request)
                if requests is self._begun and not requests:
                    self.store.repository.abort.kill()

    async def _take_next(self) -> dict[LogEntry, LogEntry | None]:
        async with self.lock:
            # Who comes from here on gets the checkpoint after this one, which begins later.
            requests, self._requests, self._next = self._requests, [], None
            if not requests:
                return {}
            self._begun = list(requests)
            is_first = any(request.moment == "opened" for request in requests)
            try:
                _, entries = await asyncio.to_thread(
                    self.store.take,
                    requests,
                    timeout_s=FIRST_TIMEOUT_S if is_first else None,
                    is_wanted=lambda request: request in self._begun,
                )
            finally:
                self._begun = []
            return dict(zip(requests, entries, strict=True))


def _retrieve(task: asyncio.Task[object]) -> None:
    """Take note of a failure: perhaps nobody waits for it any more."""
    if not task.cancelled():
        task.exception()


_folders: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[Path, _Folder]] = WeakKeyDictionary()


def _folder(settings: CheckpointSettings, folder: Path) -> _Folder:
    """Return the folder as all sessions of this event loop share it."""
    folders = _folders.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    key = repository_path(settings.home, folder)
    shared = folders.get(key)
    if shared is None:
        store = CheckpointStore(
            settings.home, folder, max_file_bytes=settings.max_file_bytes, timeout_s=settings.timeout_s
        )
        shared = folders[key] = _Folder(store)
    return shared


class _Point(msgspec.Struct, frozen=True):
    """A checkpoint with the entry of each folder's log. All of them have the same time, run and moment."""

    entries: dict[Path, LogEntry]

    @property
    def head(self) -> LogEntry:
        return next(iter(self.entries.values()))


class SessionCheckpoints:
    """The checkpoints of the session `session_id`, in these folders, the first of which is its `cwd`."""

    def __init__(self, settings: CheckpointSettings, session_id: str, folders: Sequence[Path]) -> None:
        self.settings = settings
        self._session_id = session_id
        self._cwd = folders[0]
        # A folder inside another one is a part of it.
        inner = {folder for folder in folders if any(folder != top and folder.is_relative_to(top) for top in folders)}
        outer = [folder for folder in dict.fromkeys(folders) if folder not in inner]
        self._folders = {folder: _folder(settings, folder) for folder in outer}

    # -- taking

    async def take(self, run_id: str | None, moment: Moment, at: float) -> Checkpoint:
        """Take a checkpoint. Raises `CheckpointError`."""
        request = LogEntry(at=at, session_id=self._session_id, run_id=run_id, moment=moment, tree="")
        taking = [folder.take(request) for folder in self._folders.values()]
        try:
            entries = await asyncio.gather(*taking)
        except BaseException:
            for folder in self._folders.values():
                folder.withdraw(request)
            raise
        return self._checkpoint(_Point(dict(zip(self._folders, entries, strict=True))))

    async def end_run(self, run_id: str) -> None:
        """Note that a run is over whose last checkpoint could not be taken."""
        for folder in self._folders.values():
            async with folder.lock:
                await asyncio.to_thread(folder.store.end_run, self._session_id, run_id)

    async def list_checkpoints(self) -> tuple[Checkpoint, ...]:
        """Return the checkpoints of the session, the oldest first. A rewind's is the one that was taken before it."""
        if not self._has_any():
            return ()
        return tuple(map(self._checkpoint, self._points(await self._logs())))

    def _has_any(self) -> bool:
        return any(folder.store.exists for folder in self._folders.values())

    async def list_rewinds(self) -> list[tuple[str, str, int]]:
        """Return the rewinds of the session that were done: the id, where to, and the number of changed files."""
        if not self._has_any():
            return []
        rewinds = _done_rewinds(self._points(await self._logs()))
        return [
            (
                point.head.operation or "",
                point.head.target or "",
                sum(entry.changed for entry in point.entries.values()),
            )
            for point in rewinds
        ]

    async def prune(self, now: float) -> None:
        """Remove old checkpoints, of all folders, unless that was done not long ago."""
        await asyncio.to_thread(_prune_all, self.settings, now)

    async def forget(self) -> None:
        """Remove all checkpoints of the session."""
        for folder in self._folders.values():
            async with folder.lock:
                await asyncio.to_thread(folder.store.forget, self._session_id)

    # -- comparing

    async def diff(
        self,
        run_id: str | None,
        *,
        path: str | None = None,
        offset: int = 0,
        first_line: int = 0,
        max_lines: int = tree_diff.MAX_LINES,
        is_whole: bool = False,
        claims: Iterable[str] = (),
    ) -> WorkspaceDiff:
        """Compare the files before and after a run; without a run, since the session was opened.

        A run that has not ended, or whose end was not recorded, is compared with the next checkpoint, or with the files
        as they are. `path`: only this file, from `first_line` on. `is_whole`: everything in one answer. `claims`: paths
        that the agent reported.
        """
        claimed = {self._shown(claim) for claim in claims}
        wanted_path = None if path is None else self._shown(path)

        def compare(opened: dict[Path, Git]) -> WorkspaceDiff:
            logs = self._read_logs()
            before, after = _range(self._points(logs), run_id)
            listed: list[tuple[_Trees, list[ListedFile]]] = []
            for folder, git in opened.items():
                if (trees := self._trees(git, folder, before, after)) is not None:
                    files = tree_diff.list_files(git, trees.old, trees.new, trees.scope)
                    listed.append((trees, [self._renamed(file, folder) for file in files]))
            names = {file.diff.path for _, files in listed for file in files}
            if wanted_path is not None:
                listed = [(trees, [each for each in files if each.diff.path == wanted_path]) for trees, files in listed]
            every = [file.diff for _, files in listed for file in files]
            limits = _Limits(sys.maxsize, sys.maxsize, sys.maxsize) if is_whole else _Limits(MAX_FILES, max_lines)
            shown = _read_page(listed, offset, first_line, limits)
            end = offset + len(shown)
            skipped = [*self._skipped(before), *(self._skipped(after) if after is not None else ())]
            return WorkspaceDiff(
                run_id=run_id,
                before=self._checkpoint(before),
                after=self._checkpoint(after) if after is not None else None,
                files=tuple(msgspec.structs.replace(file, is_claimed=file.path in claimed) for file in shown),
                offset=offset,
                count=len(every),
                added=sum(file.added or 0 for file in every),
                removed=sum(file.removed or 0 for file in every),
                next_offset=end if end < len(every) else None,
                skipped_paths=tuple(dict.fromkeys(skipped)),
                other_runs=_others(logs, before, after),
                only_claimed_paths=tuple(sorted(claimed - names)) if path is None else (),
            )

        return await self._with_stores(compare)

    async def patch(self, run_id: str | None, *, is_exact: bool = True) -> bytes:
        """Return the whole difference, as `diff` makes it, in the form that `git apply` reads; without `is_exact`, for
        people: it only names binary files."""

        def make_patch(opened: dict[Path, Git]) -> bytes:
            before, after = _range(self._points(self._read_logs()), run_id)
            found = [self._trees(git, folder, before, after) for folder, git in opened.items()]
            return b"".join(
                tree_diff.patch(trees.git, trees.old, trees.new, trees.scope, is_exact=is_exact)
                for trees in found
                if trees is not None
            )

        return await self._with_stores(make_patch)

    def _trees(self, git: Git, folder: Path, before: _Point, after: _Point | None) -> _Trees | None:
        """Return the two trees of a folder; None where it was added to the workspace later."""
        if folder not in before.entries or (after is not None and folder not in after.entries):
            return None
        repository = self._folders[folder].store.repository
        new = after.entries[folder].tree if after is not None else repository.snapshot(git).tree
        return _Trees(git, before.entries[folder].tree, new, repository.scope)

    # -- rewinding

    async def plan_rewind(self, run_id: str | None, *, before: bool = False, target: str = "") -> Rewind:
        """Return what a rewind would change: to the checkpoint after a run, or `before` it; without a run, to the files
        as they were before the last rewind. `target` says that in words. No file of the workspace is changed."""
        return await self._rewind(run_id, before, target or "before the last rewind", plan_id=None, at=0.0)

    async def rewind(self, plan: Rewind, *, at: float) -> Rewind:
        """Do what a plan says. Raises `CheckpointError` if files were changed since, or an agent is at work there."""
        return await self._rewind(plan.run_id, plan.before, plan.target, plan_id=plan.id, at=at)

    async def _rewind(self, run_id: str | None, before: bool, target: str, *, plan_id: str | None, at: float) -> Rewind:
        moment: Moment = "before" if before else "after"

        def rewind(opened: dict[Path, Git]) -> Rewind:
            points = self._points(self._read_logs())
            point = _last_rewind(points) if run_id is None else _find(points, run_id, moment)
            stores = {folder: self._folders[folder].store for folder in opened if folder in point.entries}
            plans = {folder: store.plan(opened[folder], point.entries[folder]) for folder, store in stores.items()}
            result = self._describe(plans, Rewind(id="", target=target, run_id=run_id, before=before, changes=()))
            if plan_id is None:
                return result
            if plan_id != result.id:
                raise CheckpointError(
                    "the files were changed since it was shown what the rewind would do; nothing was rewound",
                    guidance="Look at it again, then confirm.",
                )
            if result.other_runs:
                names = ", ".join(dict.fromkeys(run.session_id for run in result.other_runs))
                raise CheckpointError(
                    f"an agent is at work in this folder (session {names}); nothing was rewound",
                    guidance="Wait until its run has ended, or cancel it.",
                )
            operation = uuid.uuid4().hex[:16]
            entry = LogEntry(
                at=at,
                session_id=self._session_id,
                moment="rewind",
                tree="",
                operation=operation,
                target=target,
                undone_operation=point.head.operation if run_id is None else None,
            )
            # All of them are durable before the first file is changed: after a kill, each folder is completed.
            begun = {folder: stores[folder].begin_rewind(plan, entry) for folder, plan in plans.items()}
            done: list[Path] = []
            try:
                for folder, plan in plans.items():
                    stores[folder].apply_rewind(opened[folder], plan, begun[folder])
                    done.append(folder)
            except CheckpointError as error:
                left: list[bytes] = []
                for folder in [each for each in begun if each in done or stores[each].is_rewinding]:
                    changes = plans[folder].changes if folder in done else ()
                    left += stores[folder].revert_rewind(opened[folder], changes, begun[folder])
                if left:
                    raise partly_reverted(left, error) from error
                raise
            return msgspec.structs.replace(result, is_done=True, operation=operation)

        return await self._with_stores(rewind)

    def _describe(self, plans: dict[Path, RewindPlan], rewind: Rewind) -> Rewind:
        changes, left, others = [], [], []
        for folder, plan in plans.items():
            for change in plan.changes:
                action: RewindAction = (
                    "delete" if change.new is None else "create" if change.old is None else "overwrite"
                )
                changes.append(RewindChange(path=self._name(folder, path_text(change.path)), action=action))
            left += [self._name(folder, path) for path in plan.left_paths]
            others += self._folders[folder].store.active_runs()
        states = [f"{folder}\0{plan.snapshot.tree}\0{plan.target_tree}" for folder, plan in plans.items()]
        return msgspec.structs.replace(
            rewind,
            id=hashlib.sha256("\0".join(states).encode("utf-8", "surrogateescape")).hexdigest()[:16],
            changes=tuple(sorted(changes, key=lambda change: change.path)),
            left_paths=tuple(sorted(left)),
            other_runs=tuple(dict.fromkeys(others)),
        )

    # -- the stores

    async def _with_stores(self, work: Callable[[dict[Path, Git]], T]) -> T:
        """Call `work` in a thread with all stores locked and open."""
        if not self._has_any():  # nothing is created only to find that there is nothing
            raise _no_checkpoint("there are no checkpoints of this workspace")

        def call() -> T:
            with ExitStack() as stack:
                # In one order in all processes: two that wait for each other would wait for ever.
                for folder in sorted(self._folders):
                    opened[folder] = stack.enter_context(self._folders[folder].store.open())
                return work({folder: opened[folder] for folder in self._folders})

        opened: dict[Path, Git] = {}
        async with AsyncExitStack() as locks:
            for folder in sorted(self._folders):
                await locks.enter_async_context(self._folders[folder].lock)
            return await asyncio.to_thread(call)

    async def _logs(self) -> dict[Path, list[LogEntry]]:
        return await self._with_stores(lambda opened: self._read_logs())

    def _read_logs(self) -> dict[Path, list[LogEntry]]:
        return {folder: shared.store.read_log() for folder, shared in self._folders.items()}

    def _points(self, logs: dict[Path, list[LogEntry]]) -> list[_Point]:
        """Return the checkpoints of the session, the oldest first."""
        grouped: dict[tuple[float, str | None, Moment, str | None], dict[Path, LogEntry]] = {}
        for folder, entries in logs.items():
            for entry in entries:
                if entry.session_id == self._session_id:
                    key = (entry.at, entry.run_id, entry.moment, entry.operation)
                    grouped.setdefault(key, {})[folder] = entry
        points = [_Point(entries) for entries in grouped.values()]
        # Each log is in order, whatever the clock did meanwhile; between several logs only the time tells.
        return points if len(logs) == 1 else sorted(points, key=lambda point: point.head.at)

    def _checkpoint(self, point: _Point) -> Checkpoint:
        head = point.head
        return Checkpoint(
            at=head.at,
            run_id=head.run_id,
            moment=head.moment,
            skipped_paths=self._skipped(point),
            more_skipped=sum(entry.more_skipped for entry in point.entries.values()),
            other_runs=tuple(dict.fromkeys(run for entry in point.entries.values() for run in entry.other_runs)),
        )

    def _skipped(self, point: _Point) -> tuple[SkippedPath, ...]:
        return tuple(
            SkippedPath(path=self._name(folder, skipped.path), reason=skipped.reason)
            for folder, entry in point.entries.items()
            for skipped in entry.skipped_paths
        )

    # -- names of files

    def _name(self, folder: Path, path: str) -> str:
        """Return the name of a path of a tree: relative to `cwd`, or absolute in another folder."""
        scope = path_text(self._folders[folder].store.repository.scope)
        path = path.removeprefix(f"{scope}/") if scope else path
        return path if folder == self._cwd else os.path.join(path_text(os.fsencode(folder)), path)

    def _renamed(self, file: ListedFile, folder: Path) -> ListedFile:
        if folder == self._cwd:
            return file
        prefix = path_text(os.fsencode(folder))
        old_path = None if file.diff.old_path is None else os.path.join(prefix, file.diff.old_path)
        diff = msgspec.structs.replace(file.diff, path=os.path.join(prefix, file.diff.path), old_path=old_path)
        return ListedFile(file.path, file.old_path, diff)

    def _shown(self, path: str) -> str:
        """Return a path of anybody's in the form of `_name`."""
        real = os.path.normpath(os.path.join(self._cwd, path))
        return os.path.relpath(real, self._cwd) if Path(real).is_relative_to(self._cwd) else real


class _Trees(msgspec.Struct, frozen=True):
    git: Git
    old: str
    new: str
    scope: bytes


class _Limits(msgspec.Struct, frozen=True):
    """The limits of one answer."""

    files: int
    lines: int
    file_lines: int = tree_diff.MAX_FILE_LINES


def _read_page(
    listed: Sequence[tuple[_Trees, Sequence[ListedFile]]], offset: int, first_line: int, limits: _Limits
) -> list[ComparedFile]:
    """Return the files from `offset` on with their lines, as many as fit."""
    shown: list[ComparedFile] = []
    before = 0  # files of the folders that came before
    room = limits.lines
    for trees, files in listed:
        part = files[max(0, offset - before) : max(0, offset - before) + limits.files - len(shown)]
        before += len(files)
        if not part or before <= offset:
            continue
        skipped = first_line if not shown else 0
        diffs = tree_diff.read_lines(
            trees.git,
            trees.old,
            trees.new,
            part,
            first_line=skipped,
            max_file_lines=limits.file_lines,
            max_lines=room,
        )
        shown += diffs
        room -= sum(len(hunk.lines) for diff in diffs for hunk in diff.hunks)
        if len(diffs) < len(part) or room <= 0:
            break
    return shown


def _range(points: Sequence[_Point], run_id: str | None) -> tuple[_Point, _Point | None]:
    """Return the checkpoints that a difference compares; None stands for the files as they are."""
    taken = [point for point in points if point.head.moment in ("opened", "before", "after")]
    if run_id is None:
        if not taken:
            raise _no_checkpoint("this session has no checkpoints")
        last = taken[-1]
        return taken[0], last if last.head.moment == "after" else None
    before = _find(points, run_id, "before")
    later = taken[taken.index(before) + 1 :]
    ended = [point for point in later if point.head.run_id == run_id and point.head.moment == "after"]
    return before, next(iter(ended or later), None)


def _find(points: Sequence[_Point], run_id: str, moment: Moment) -> _Point:
    for point in reversed(points):
        if point.head.run_id == run_id and point.head.moment == moment:
            return point
    raise _no_checkpoint(f"there is no checkpoint {moment} this run")


def _done_rewinds(points: Sequence[_Point]) -> list[_Point]:
    reverted = {point.head.operation for point in points if point.head.moment == "reverted"}
    return [point for point in points if point.head.moment == "rewind" and point.head.operation not in reverted]


def _last_rewind(points: Sequence[_Point]) -> _Point:
    """Return the checkpoint before the last rewind that was not undone yet.

    An undo is such a rewind only where it overwrote what somebody had changed since the rewind: otherwise the files
    before it are those that the rewind brought, and `--undo` twice goes two rewinds back.
    """
    done = {point.head.operation: point for point in _done_rewinds(points)}
    undone = {point.head.undone_operation for point in done.values()}
    for operation, point in reversed(done.items()):
        earlier = done.get(point.head.undone_operation) if point.head.undone_operation is not None else None
        if operation not in undone and (earlier is None or _is_changed_since(earlier, point)):
            return point
    raise InputError(
        "there is no rewind to undo in this session",
        guidance="Rewind to a run instead: --to-run N, or with --before, to the files before it.",
    )


def _is_changed_since(rewind: _Point, point: _Point) -> bool:
    """Return whether files had been changed between a rewind and a later checkpoint."""
    return any(
        entry.tree != rewind.entries[folder].target_tree
        for folder, entry in point.entries.items()
        if folder in rewind.entries
    )


def _others(logs: dict[Path, list[LogEntry]], before: _Point, after: _Point | None) -> tuple[RunRef, ...]:
    """Return the runs of other sessions that overlapped the time between two checkpoints."""
    found: dict[RunRef, None] = {}
    session_id, start = before.head.session_id, before.head.at
    end = after.head.at if after is not None else float("inf")
    for folder, entries in logs.items():
        for entry in (before.entries.get(folder), after.entries.get(folder) if after is not None else None):
            found.update(dict.fromkeys(entry.other_runs if entry is not None else ()))
        for entry in entries:
            if entry.session_id != session_id and entry.run_id is not None and start < entry.at < end:
                found[RunRef(session_id=entry.session_id, run_id=entry.run_id)] = None
    return tuple(found)


def _no_checkpoint(message: str) -> InputError:
    return InputError(
        message,
        guidance="Checkpoints may be switched off, may have failed (the session says so), or are older than those that"
        " are kept.",
    )


def _prune_all(settings: CheckpointSettings, now: float) -> None:
    for path, folder in all_repositories(settings.home):
        marker = path / "pruned"
        try:
            if marker.exists() and now - marker.stat().st_mtime < PRUNE_INTERVAL_S:
                continue
            store = CheckpointStore(
                settings.home, folder, max_file_bytes=settings.max_file_bytes, timeout_s=FIRST_TIMEOUT_S
            )
            store.prune(now=now, max_age_s=settings.max_age_s, max_bytes=settings.max_bytes)
            marker.touch()
            os.utime(marker, (now, now))
        except (CheckpointError, OSError) as error:
            logger.info("old checkpoints were not removed: %s", error)  # the next time
