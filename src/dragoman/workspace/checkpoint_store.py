"""`CheckpointStore`: the checkpoints of one folder, and rewinding to them.

A checkpoint is a tree of the folder's `ShadowRepository`, and a line in a log beside it that says for which session,
run and moment it was taken.

Promised: only a rewind writes to the folder. Each content that it overwrites is in a checkpoint before. After a kill at
any moment, whoever opens the store next completes a rewind that was begun, as far as nobody has changed the files
since; no file is half written.

Blocking: call it in a thread.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from dragoman.errors import CheckpointError
from dragoman.fileio import atomic_write
from dragoman.proc._reaper_main import start_time
from dragoman.protocol.checkpoints import Moment, RunRef, SkippedPath
from dragoman.workspace.git import Git, GitError
from dragoman.workspace.restore import FileChange, FileConflict, FolderWriter
from dragoman.workspace.shadow import (
    ShadowRepository,
    Snapshot,
    all_repositories,
    list_names,
    path_text,
    write_durably,
)

logger = logging.getLogger(__name__)

# The file of a store with the runs that are active in its folder.
ACTIVE_NAME: Final = "active.json"

# Files that a message names.
MAX_NAMED_PATHS: Final = 10

# Loose objects after which a clean-up packs them, whether or not it is due.
MAX_LOOSE_FOLDER_FILES: Final = 30  # in one of the 256 folders: about 7,000 in all


class LogEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the log: a checkpoint, or a rewind, whose `tree` is the checkpoint that was taken before it."""

    at: float
    session_id: str
    run_id: str | None = None
    moment: Moment
    tree: str
    skipped_paths: tuple[SkippedPath, ...] = ()
    more_skipped: int = 0
    other_runs: tuple[RunRef, ...] = ()  # runs of other sessions that were active in the folder
    operation: str | None = None  # of a rewind
    target_tree: str | None = None  # the tree that it went to
    target: str | None = None  # the same in words, such as "before run 3"
    changed: int = 0  # the number of files that it changed in this folder
    undone_operation: str | None = None  # the operation that it undid


class _ActiveRun(msgspec.Struct, frozen=True):
    run: RunRef
    pid: int
    started: int


class _Operation(msgspec.Struct, frozen=True):
    """`operation.json`: a rewind that was begun. It is written before the first file is changed."""

    entry: LogEntry
    left_paths: tuple[str, ...]  # paths that are not to be touched


class RewindPlan(NamedTuple):
    """The files as they are, the tree to go to, the changes for that, and the paths that are left as they are."""

    snapshot: Snapshot
    target_tree: str
    changes: Sequence[FileChange]
    left_paths: Sequence[str]


class CheckpointStore:
    """The parameters are those of `ShadowRepository`."""

    def __init__(self, home: Path, folder: Path, *, max_file_bytes: int, timeout_s: float = 60.0) -> None:
        self._home = home
        self.repository = ShadowRepository(home, folder, max_file_bytes=max_file_bytes, timeout_s=timeout_s)
        self.path = self.repository.path

    @contextmanager
    def open(self, timeout_s: float | None = None, *, waits: bool = True) -> Iterator[Git]:
        """Lock the store, create it where it is missing, and complete what a killed process left."""
        with self.repository.open(timeout_s, waits=waits) as git:
            self._recover(git)
            yield git

    # -- checkpoints

    def take(
        self,
        requests: Sequence[LogEntry] = (),
        *,
        timeout_s: float | None = None,
        is_wanted: Callable[[LogEntry], bool] = lambda request: True,
    ) -> tuple[Snapshot, list[LogEntry | None]]:
        """Take a checkpoint, and log it for each of the requests, whose `tree` is still empty.

        Requests that are not wanted any more by then are not logged (None). A run is active from its entry `before` to
        its entry `after`, as long as this process lives.
        """
        with self.open(timeout_s) as git:
            snapshot = self.repository.snapshot(git)
            entries: list[LogEntry | None] = []
            for request in requests:
                if not is_wanted(request):
                    entries.append(None)
                    continue
                entry = msgspec.structs.replace(
                    request,
                    tree=snapshot.tree,
                    skipped_paths=snapshot.skipped_paths,
                    more_skipped=snapshot.more_skipped,
                    other_runs=self._note_active(request),
                )
                entries.append(entry)
            self._append(entry for entry in entries if entry is not None)
            return snapshot, entries

    def forget(self, session_id: str) -> None:
        """Remove the checkpoints of a session, with their contents."""
        if not self.exists:
            return
        with self.open() as git:
            self._rewrite(git, [entry for entry in self.read_log() if entry.session_id != session_id])

    def prune(self, *, now: float, max_age_s: float, max_bytes: int) -> None:
        """Remove checkpoints over this age, then the oldest until the repository is small enough.

        Raises `CheckpointError` if another process is busy with them.
        """
        with self.open(waits=False) as git:
            entries = self.read_log()
            remaining = [entry for entry in entries if entry.at >= now - max_age_s]
            has_loose = len(list_names(self.path / "git" / "objects" / "17")) > MAX_LOOSE_FOLDER_FILES
            if len(remaining) < len(entries) or has_loose:
                self._rewrite(git, remaining)
            while remaining and _size_of(self.path) > max_bytes:
                remaining = remaining[len(remaining) // 2 + 1 :]
                self._rewrite(git, remaining)

    def _rewrite(self, git: Git, remaining: Sequence[LogEntry]) -> None:
        """Keep these entries of the log and their trees, and nothing else."""
        atomic_write(self._log_path, b"".join(msgspec.json.encode(entry) + b"\n" for entry in remaining))
        trees = {tree for entry in remaining for tree in (entry.tree, entry.target_tree) if tree is not None}
        self.repository.drop_trees(git, trees)

    # -- rewinding

    def plan(self, git: Git, target: LogEntry) -> RewindPlan:
        """Return what a rewind to the tree of `target` would change. What it would overwrite is in a checkpoint now."""
        snapshot = self.repository.snapshot(git)
        left = {skipped.path for skipped in (*snapshot.skipped_paths, *target.skipped_paths)}
        changes, affected = self._changes(git, snapshot.tree, target.tree, left)
        # Files that are there, and in no checkpoint yet, because git ignores them.
        tree, unsaved = self.repository.save(git, [change.path for change in changes if change.old is None])
        left.update(skipped.path for skipped in unsaved)
        if tree != snapshot.tree or unsaved:
            snapshot = snapshot._replace(tree=tree)
            changes, affected = self._changes(git, tree, target.tree, left)
        ignored = self._ignored_at(git, changes, target.tree)
        changes = [change for change in changes if change.path not in ignored]
        return RewindPlan(snapshot, target.tree, changes, sorted({*affected, *map(path_text, ignored)}))

    @property
    def is_rewinding(self) -> bool:
        """True from `begin_rewind` to the end of the rewind."""
        return self._operation_path.exists()

    def begin_rewind(self, plan: RewindPlan, entry: LogEntry) -> LogEntry:
        """Make the rewind durable: from now on it is completed, also if this process is killed. Return its entry."""
        entry = msgspec.structs.replace(
            entry,
            moment="rewind",
            operation=entry.operation or uuid.uuid4().hex[:16],
            tree=plan.snapshot.tree,
            skipped_paths=plan.snapshot.skipped_paths,
            more_skipped=plan.snapshot.more_skipped,
            target_tree=plan.target_tree,
            changed=len(plan.changes),
        )
        write_durably(self._operation_path, msgspec.json.encode(_Operation(entry, tuple(plan.left_paths))))
        self._append([entry])
        return entry

    def apply_rewind(self, git: Git, plan: RewindPlan, entry: LogEntry) -> None:
        """Make the changes of a plan, all or none. Raises `CheckpointError` where a file was changed meanwhile, or the
        system refuses; the files are as before, or the message names those that are not."""
        applied: list[FileChange] = []
        try:
            with git.blobs() as blobs, self._writer(entry) as writer:
                writer.apply(plan.changes, blobs.read, on_applied=applied.append)
        except (FileConflict, GitError, OSError) as error:
            left = self.revert_rewind(git, applied, entry)
            if left:
                raise partly_reverted(left, error) from error
            guidance = "Move it away, or wait until nobody changes it, then rewind again."
            raise CheckpointError(
                f"nothing was rewound, because one file cannot be: {error}",
                guidance=guidance if isinstance(error, FileConflict) else "",
            ) from error
        self._operation_path.unlink()

    def revert_rewind(self, git: Git, applied: Sequence[FileChange], entry: LogEntry) -> list[bytes]:
        """Take back the changes that were made. Return the files for which that failed, or which somebody changed
        since; then the rewind counts as done, so that it can be undone."""
        with git.blobs() as blobs, self._writer(entry) as writer:
            left = writer.complete([change.inverse() for change in applied], blobs.read)
        if not left:
            self._append([msgspec.structs.replace(entry, moment="reverted")])
        self._operation_path.unlink(missing_ok=True)
        return left

    def _changes(self, git: Git, tree: str, target: str, left: Collection[str]) -> tuple[list[FileChange], set[str]]:
        """Return the changes between two trees without the paths of `left`, and which of these they concern."""
        changes, affected = [], set()
        for change in self.repository.changes(git, tree, target):
            covered = next((path for path in _with_parents(path_text(change.path)) if path in left), None)
            if covered is None:
                changes.append(change)
            else:
                affected.add(covered)
        return changes, affected

    def _ignored_at(self, git: Git, changes: Iterable[FileChange], target: str) -> set[bytes]:
        """Return the files that a rewind must not remove: when the checkpoint was taken they may have been there, and
        were ignored. It does not say that they were not."""
        return self.repository.ignored_by(git, target, [change.path for change in changes if change.new is None])

    def _recover(self, git: Git) -> None:
        """Complete a rewind that a killed process had begun; not while the folder is gone."""
        if not self.repository.is_in_place:
            return
        try:
            operation = msgspec.json.decode(self._operation_path.read_bytes(), type=_Operation)
        except FileNotFoundError:
            return
        except msgspec.MsgspecError:
            self._operation_path.unlink()  # not ours: it is written as a whole
            return
        entry = operation.entry
        if all(logged.operation != entry.operation for logged in self.read_log()):
            self._append([entry])
        try:
            self._complete(git, entry, operation.left_paths)
        except GitError as error:
            # It must not stand in the way of everything else for ever.
            logger.warning("a rewind of %s that was interrupted cannot be completed: %s", self.repository.folder, error)
            self._append([msgspec.structs.replace(entry, moment="reverted")])
            with suppress(GitError):
                self._complete(git, entry, operation.left_paths, is_inverse=True)
        self._operation_path.unlink()

    def _complete(self, git: Git, entry: LogEntry, left: Collection[str], *, is_inverse: bool = False) -> None:
        """Make the changes of a rewind that are not made yet; or take back those that are."""
        assert entry.target_tree is not None
        changes, _ = self._changes(git, entry.tree, entry.target_tree, frozenset(left))
        ignored = self._ignored_at(git, changes, entry.target_tree)
        changes = [change for change in changes if change.path not in ignored]
        with git.blobs() as blobs, self._writer(entry) as writer:
            writer.remove_temporary(change.path for change in changes)
            writer.complete([change.inverse() for change in changes] if is_inverse else changes, blobs.read)

    def _writer(self, entry: LogEntry) -> FolderWriter:
        repository = self.repository
        temporary = f".dragoman-{entry.operation}"
        return FolderWriter(repository.work_tree, temporary, keep=repository.scope, modes=repository.file_modes())

    # -- the log

    @property
    def exists(self) -> bool:
        """True once there is a checkpoint."""
        return self._log_path.exists()

    @property
    def _log_path(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def _operation_path(self) -> Path:
        return self.path / "operation.json"

    def _append(self, entries: Iterable[LogEntry]) -> None:
        data = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        if not data:
            return
        with open(self._log_path, "ab") as file:
            # After a line that a power failure cut off, a new one begins.
            if file.tell() and not _ends_with_newline(self._log_path):
                data = b"\n" + data
            file.write(data)

    def read_log(self) -> list[LogEntry]:
        """Return the log, oldest first. Lines that cannot be read are left out."""
        try:
            lines = self._log_path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        entries = []
        for line in lines:
            with suppress(msgspec.MsgspecError):
                entries.append(msgspec.json.decode(line, type=LogEntry))
        return entries

    # -- runs at work

    def active_runs(self) -> list[RunRef]:
        """Return the runs of living processes that are active in the folder, in one above it or in one inside of it."""
        mine = self.repository.folder
        overlapping = [
            path
            for path, folder in all_repositories(self._home)
            if path != self.path and (folder.is_relative_to(mine) or mine.is_relative_to(folder))
        ]
        return [active.run for path in (self.path, *overlapping) for active in _read_active(path)]

    def end_run(self, session_id: str, run_id: str) -> None:
        """Note that a run is over whose last checkpoint could not be taken."""
        with self.open():
            active = _read_active(self.path)
            running = [each for each in active if each.run != RunRef(session_id=session_id, run_id=run_id)]
            atomic_write(self.path / ACTIVE_NAME, msgspec.json.encode(running), sync=False)

    def _note_active(self, entry: LogEntry) -> tuple[RunRef, ...]:
        """Note the beginning or the end of a run, and return the runs of other sessions that are active."""
        active = _read_active(self.path)
        others = tuple(each.run for each in active if each.run.session_id != entry.session_id)
        mine = RunRef(session_id=entry.session_id, run_id=entry.run_id or "")
        running = [each for each in active if each.run != mine]
        if entry.moment == "before":
            running.append(_ActiveRun(mine, os.getpid(), start_time(os.getpid())))
        if running != active or entry.moment == "before":
            atomic_write(self.path / ACTIVE_NAME, msgspec.json.encode(running), sync=False)
        return others


def _read_active(path: Path) -> list[_ActiveRun]:
    """Return the active runs of the store at a path, those of processes that have died left out."""
    try:
        active = msgspec.json.decode((path / ACTIVE_NAME).read_bytes(), type=list[_ActiveRun])
    except (OSError, msgspec.MsgspecError):
        return []
    return [each for each in active if start_time(each.pid) == each.started and _is_alive(each.pid)]


def partly_reverted(left: Sequence[bytes], error: Exception) -> CheckpointError:
    """Return the error of a rewind that failed, and could not be taken back as a whole."""
    names = ", ".join(map(path_text, left[:MAX_NAMED_PATHS]))
    more = f" and {len(left) - MAX_NAMED_PATHS} more" if len(left) > MAX_NAMED_PATHS else ""
    return CheckpointError(
        f"the rewind failed ({error}), and these files could not be brought back to what they were before it:"
        f" {names}{more}",
        guidance="Their contents are in a checkpoint: undo the rewind when the reason is gone.",
    )


def _with_parents(path: str) -> Iterator[str]:
    """Yield a path, and the folders above it."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _ends_with_newline(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _size_of(folder: Path) -> int:
    return sum(
        os.lstat(os.path.join(parent, name)).st_blocks * 512 for parent, _, names in os.walk(folder) for name in names
    )
