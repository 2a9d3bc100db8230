"""Bringing the work of a worktree to the user: `apply`, as uncommitted changes, and `merge`, into a branch.

Both compute the result first, as trees: conflicts are found before anything is changed, and then nothing is. Files are
written like a rewind (`CheckpointStore`): what they overwrite is in a checkpoint before, each file is replaced as a
whole and only if it is still what was seen, and after a kill the next command completes what was begun, or finds that
nothing was.

`apply` compares the files of the worktree, of the checkout, and as they were when the worktree was made, in our shadow
repository; the user's repository is not opened. `merge` moves a branch of the user's repository. Where that branch is
checked out, its files and its index follow; git's lock of the index is held meanwhile.

Blocking: call it in a thread, with the lock of the repository.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from dragoman.errors import CheckpointError, InputError, WorktreeError
from dragoman.protocol.checkpoints import RewindAction, RewindChange, RunRef, SkippedPath
from dragoman.protocol.worktrees import WorktreeApply, WorktreeMerge
from dragoman.workspace.checkpoint_store import CheckpointStore, LogEntry, RewindPlan
from dragoman.workspace.git import Git
from dragoman.workspace.restore import FileVersion, FolderWriter
from dragoman.workspace.shadow import all_repositories, path_text
from dragoman.workspace.user_git import UserGit, failure
from dragoman.workspace.worktree_git import LONG_TIMEOUT_S, check_trust, git_in, work_trees
from dragoman.workspace.worktree_store import MergeOperation, WorktreeRecord, WorktreeSettings, WorktreeStore

logger = logging.getLogger(__name__)

# The first state of the files, in the shadow repository of a worktree.
BASE_REF: Final = "refs/worktree/base"

# Files that an error lists.
MAX_LISTED: Final = 20

# Submodules, and repositories that an agent made below, have settings of their own, which nobody has looked at.
_NO_SUBMODULES: Final = "--ignore-submodules=dirty"
_SUBMODULES: Final = ("diff.ignoreSubmodules=dirty", "submodule.recurse=false")

# Files of git that are there while a merge or the like waits for the user.
_IN_PROGRESS: Final = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")


@contextmanager
def open_store(settings: WorktreeSettings, folder: Path) -> Iterator[tuple[CheckpointStore, Git]]:
    """Open the shadow repository of a folder, and complete what a killed process left there."""
    store = CheckpointStore(settings.home, folder, max_file_bytes=settings.max_file_bytes, timeout_s=LONG_TIMEOUT_S)
    with store.open() as git:
        yield store, git


def active_runs_in(settings: WorktreeSettings, folders: Sequence[Path]) -> tuple[RunRef, ...]:
    """Return the runs that are active in one of these folders, above or below it."""
    found: dict[RunRef, None] = {}
    for _, recorded in all_repositories(settings.home):
        if any(recorded.is_relative_to(folder) or folder.is_relative_to(recorded) for folder in folders):
            store = CheckpointStore(settings.home, recorded, max_file_bytes=settings.max_file_bytes)
            found.update(dict.fromkeys(store.active_runs()))
    return tuple(found)


def check_idle(settings: WorktreeSettings, folders: Sequence[Path], what: str) -> None:
    """Raise `WorktreeError` while a run is active in one of these folders."""
    if runs := active_runs_in(settings, folders):
        names = ", ".join(dict.fromkeys(run.session_id for run in runs))
        raise WorktreeError(
            f"an agent is at work there (session {names}); nothing was {what}",
            guidance="Wait until its run has ended, or cancel it.",
        )


@contextmanager
def changing(store: WorktreeStore, record: WorktreeRecord) -> Iterator[WorktreeRecord]:
    """Lock a worktree, read its record again, and complete a merge that a killed process had begun."""
    with store.lock(record.key):
        current = store.read(record.key, record.name)
        if current is None or current.created_at != record.created_at:
            store.find(record.id)  # says that it was dropped
            raise WorktreeError(f"the worktree {record.name} was replaced by another one")
        yield _complete_merge(store, current)


# -- applying


class _Merged(NamedTuple):
    tree: str
    conflicts: tuple[str, ...]


def apply(
    store: WorktreeStore, record: WorktreeRecord, *, plan_id: str | None, undo: bool, at: float
) -> tuple[WorktreeRecord, WorktreeApply]:
    """Plan the changes of a worktree in the checkout, or with the id of the plan make them; return the new record."""
    settings = store.settings
    folder, checkout = Path(record.folder), Path(record.checkout)
    for each, what in ((folder, "worktree"), (checkout, "checkout")):
        if not each.is_dir():
            raise WorktreeError(f"the {what} of {record.name} is gone: {each}")
    if record.base_tree is None:
        raise WorktreeError(f"the files of {record.name} were not recorded when it was made: merge its branch instead")
    runs = active_runs_in(settings, [folder, checkout])
    with ExitStack() as stack:
        opened = {each: stack.enter_context(open_store(settings, each)) for each in sorted((folder, checkout))}
        target, git = opened[checkout]
        source, source_git = opened[folder]
        ours = target.repository.snapshot(git)
        undone: LogEntry | None = None
        skipped: tuple[SkippedPath, ...] = ()
        if undo:
            undone = _last_apply(target, record)
            assert undone.target_tree is not None
            theirs = undone.tree
            merged = _merge_trees(git, undone.target_tree, ours.tree, theirs)
        else:
            snapshot = source.repository.snapshot(source_git)
            theirs, skipped = snapshot.tree, snapshot.skipped_paths
            merged = _merge_from(git, source, record, ours.tree, theirs)
        conflicts = merged.conflicts or _ignored_files_in_the_way(target, git, ours.tree, merged.tree)
        result = WorktreeApply(
            id="", worktree=record.info(settings.drop_age_s), undo=undo, conflicts=conflicts, active_runs=runs
        )
        if conflicts:
            if plan_id is not None:
                raise _conflict_error(record, conflicts)
            return record, result
        entry = LogEntry(
            at=at,
            session_id=_log_name(record),
            moment="rewind",
            tree=merged.tree,
            skipped_paths=skipped,
            operation=uuid.uuid4().hex[:16],
            target=f"{'before' if undo else 'after'} worktree {record.name} was applied",
            undone_operation=None if undone is None else undone.operation,
        )
        plan = target.plan(git, entry)
        _check_unchanged(target, git, ours.tree, plan)
        result = _describe(result, plan, theirs, skipped)
        if plan_id is None:
            return record, result
        if plan_id != result.id:
            raise WorktreeError(
                "the files were changed since it was shown what would be applied; nothing was changed",
                guidance="Look at it again, then confirm.",
            )
        check_idle(settings, [folder, checkout], "applied")
        target.apply_rewind(git, plan, target.begin_rewind(plan, msgspec.structs.replace(entry, skipped_paths=())))
        if not undo:
            source_git.run("update-ref", f"refs/worktree/applied/{theirs}", f"refs/trees/{theirs}")
    applied = record.applied_trees[:-1] if undo else (*record.applied_trees, theirs)
    record = msgspec.structs.replace(
        record, state="applied" if applied else "ready", applied_trees=applied, changed_at=at
    )
    store.write(record)
    return record, msgspec.structs.replace(result, worktree=record.info(settings.drop_age_s), is_done=True)


def _merge_from(git: Git, source: CheckpointStore, record: WorktreeRecord, ours: str, theirs: str) -> _Merged:
    """Merge the files of a worktree into those of the checkout.

    They are compared with the files as the worktree began. If that gives conflicts, and it was applied before, with the
    files as they were applied last: the checkout may have these.
    """
    assert record.base_tree is not None
    bases = {record.base_tree: BASE_REF}
    bases |= {tree: f"refs/worktree/applied/{tree}" for tree in record.applied_trees[-1:]}
    wanted = {**bases, theirs: f"refs/trees/{theirs}"}
    refs = [f"+{ref}:refs/trees/{tree}" for tree, ref in wanted.items()]
    git.run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", source.path / "git", *refs)
    results = [_merge_trees(git, base, ours, theirs) for base in bases]
    return next((merged for merged in results if not merged.conflicts), results[0])


def _merge_trees(git: Git, base: str, ours: str, theirs: str) -> _Merged:
    """Merge two trees that began as `base`. Where there are conflicts, the tree is of no use."""
    commits = []
    root = git.run("commit-tree", "-m", "base", base).decode().strip()
    for tree in (ours, theirs):
        commits.append(git.run("commit-tree", "-m", "side", "-p", root, tree).decode().strip())
    return _read_merge(git.run("merge-tree", "--write-tree", "-z", "--name-only", *commits, ok_codes=(0, 1)))


def _read_merge(output: bytes) -> _Merged:
    """Read the output of `git merge-tree`: the tree, then the files with conflicts, then an empty field."""
    tree, *names = output.split(b"\0")
    end = names.index(b"") if b"" in names else len(names)
    return _Merged(tree.decode(), tuple(dict.fromkeys(map(path_text, names[:end]))))


def _ignored_files_in_the_way(store: CheckpointStore, git: Git, ours: str, merged: str) -> tuple[str, ...]:
    """Return the files that git ignores in the checkout, and that other contents would replace."""
    created = [change for change in store.repository.changes(git, ours, merged) if change.old is None]
    with FolderWriter(store.repository.work_tree, "") as reader:
        return tuple(
            path_text(change.path)
            for change in created
            if isinstance(version := reader.version(change.path), FileVersion) and version != change.new
        )


def _check_unchanged(store: CheckpointStore, git: Git, seen: str, plan: RewindPlan) -> None:
    """Refuse a plan that would take back what somebody changed since the trees were merged.

    Only ignored files that are as they are to be may have been added.
    """
    wanted = {change.path: change.new for change in store.repository.changes(git, seen, plan.target_tree)}
    for change in store.repository.changes(git, seen, plan.snapshot.tree):
        if change.old is not None or wanted.get(change.path) != change.new:
            raise WorktreeError("files were changed meanwhile; nothing was changed", guidance="Try it again.")


def _describe(result: WorktreeApply, plan: RewindPlan, theirs: str, skipped: Iterable[SkippedPath]) -> WorktreeApply:
    changes = []
    for change in plan.changes:
        action: RewindAction = "delete" if change.new is None else "create" if change.old is None else "overwrite"
        changes.append(RewindChange(path=path_text(change.path), action=action))
    state = "\0".join((plan.snapshot.tree, plan.target_tree, theirs))
    return msgspec.structs.replace(
        result,
        id=hashlib.sha256(state.encode()).hexdigest()[:16],
        changes=tuple(sorted(changes, key=lambda change: change.path)),
        left_paths=tuple(sorted({*plan.left_paths, *(each.path for each in skipped)})),
    )


def _last_apply(store: CheckpointStore, record: WorktreeRecord) -> LogEntry:
    """Return the last time that this worktree was applied, and not undone since."""
    entries = [entry for entry in store.read_log() if entry.session_id == _log_name(record)]
    over = {entry.operation for entry in entries if entry.moment == "reverted"}
    over |= {entry.undone_operation for entry in entries if entry.moment == "rewind" and entry.operation not in over}
    for entry in reversed(entries):
        if entry.moment == "rewind" and entry.operation not in over and entry.undone_operation is None:
            return entry
    raise InputError(f"nothing of the worktree {record.name} was applied that could be undone")


def _log_name(record: WorktreeRecord) -> str:
    """Return the name in the log of checkpoints, in the place of a session's id."""
    return f"worktree {record.id} {record.created_at}"


def _conflict_error(record: WorktreeRecord, conflicts: Sequence[str]) -> WorktreeError:
    listed = "".join(f"\n  {path}" for path in conflicts[:MAX_LISTED])
    return WorktreeError(
        f"the checkout and the worktree {record.name} changed the same lines; nothing was changed:{listed}",
        guidance="Solve them in the worktree: dragoman worktree merge --conflicts, or --ask-agent.",
    )


# -- merging


def merge(
    store: WorktreeStore,
    record: WorktreeRecord,
    *,
    into: str | None,
    commit: str | None,
    message: str | None,
    no_ff: bool,
    brings_conflicts: bool,
    trust_repository: bool,
    at: float,
) -> tuple[WorktreeRecord, WorktreeMerge]:
    """Merge the branch of a worktree into another one; return the new record.

    `brings_conflicts`: where there are conflicts, merge the other branch into the worktree, where they wait to be
    solved.
    """
    settings = store.settings
    check_idle(settings, [Path(record.folder)], "merged")
    git = git_in(record, timeout_s=LONG_TIMEOUT_S)
    target = _target_of(git, record, into)
    folder = next((folder for folder, branch in work_trees(git) if branch == target), None)
    checkout = None if folder is None else _git_of_checkout(record, folder)
    check_trust(store, Path(record.checkout), [git, *([checkout] if checkout else [])], trust=trust_repository)
    if brings_conflicts and (waiting := _waiting_conflicts(git, record)):
        return record, WorktreeMerge(
            worktree=record.info(settings.drop_age_s),
            target=target.removeprefix("refs/heads/"),
            kind="merge commit",
            commit=git.line("rev-parse", target),
            conflicts=waiting,
            is_in_worktree=True,
        )
    _check_branch(git, record)
    if uncommitted := _uncommitted(git):
        if commit is None:
            raise WorktreeError(
                f"the worktree {record.name} has uncommitted changes in {_count(uncommitted)}",
                guidance="Commit them first: --commit MESSAGE.",
            )
        git.stage(*_to_stage(uncommitted))
        git.run("commit", "--quiet", "-m", commit, config=_SUBMODULES)
    old, tip = git.line("rev-parse", target), git.line("rev-parse", f"refs/heads/{record.branch}")
    result = WorktreeMerge(
        worktree=record.info(settings.drop_age_s),
        target=target.removeprefix("refs/heads/"),
        kind="nothing to merge",
        commits=int(git.line("rev-list", "--count", f"{old}..{tip}")),
        commit=old,
    )
    if result.commits == 0:
        return record, result
    if not no_ff and git.call("merge-base", "--is-ancestor", old, tip).exit_code == 0:
        result, new = msgspec.structs.replace(result, kind="fast-forward"), tip
    else:
        result = msgspec.structs.replace(result, kind="merge commit")
        merged = _merge_commits(git, old, tip)
        if merged.conflicts and brings_conflicts:
            waiting = _bring_conflicts(git, record, target)
            return record, msgspec.structs.replace(result, conflicts=waiting, is_in_worktree=True)
        if merged.conflicts:
            return record, msgspec.structs.replace(result, conflicts=merged.conflicts)
        new = _commit_merge(git, merged.tree, old, tip, message or f"Merge branch '{record.branch}'")
    if folder is not None:
        check_idle(settings, [folder], "merged")
    record = _move_branch(store, record, git, MergeOperation(target, old, new), checkout, at)
    return record, msgspec.structs.replace(
        result,
        worktree=record.info(settings.drop_age_s),
        commit=new,
        checked_out_at=None if folder is None else str(folder),
        is_done=True,
    )


def _bring_conflicts(git: UserGit, record: WorktreeRecord, target: str) -> tuple[str, ...]:
    """Merge the target branch into the worktree; return the files with conflicts, which wait there to be solved."""
    done = git.call("merge", "--no-edit", "--quiet", target, config=_SUBMODULES)
    conflicts = _waiting_conflicts(git, record)
    if done.exit_code != 0 and not conflicts:
        raise failure(("merge",), done)
    return conflicts


def _waiting_conflicts(git: UserGit, record: WorktreeRecord) -> tuple[str, ...]:
    """Return the files with conflicts of a merge that is not finished in the worktree."""
    if not (Path(record.linked_dir) / "MERGE_HEAD").exists():
        return ()
    listed = git.run("diff", "--name-only", "--no-ext-diff", "--diff-filter=U", "-z", _NO_SUBMODULES).split(b"\0")
    return tuple(path_text(path) for path in listed if path)


def _git_of_checkout(record: WorktreeRecord, folder: Path) -> UserGit:
    """Return git in the work tree that has the target branch. Its `.git` may be of another repository by now."""
    git = UserGit(folder)
    git_dir = Path(os.path.realpath(git.line("rev-parse", "--absolute-git-dir")))
    common_dir = Path(os.path.realpath(git.line("rev-parse", "--path-format=absolute", "--git-common-dir")))
    if common_dir != Path(record.git_dir):
        raise WorktreeError(
            f"{folder}, where the branch should be checked out, is no work tree of {record.git_dir} any more",
            guidance="Look at its .git; or merge into another branch: --into BRANCH",
        )
    return UserGit(folder, git_dir=git_dir, common_dir=common_dir, timeout_s=LONG_TIMEOUT_S)


def _target_of(git: UserGit, record: WorktreeRecord, into: str | None) -> str:
    name = into or record.base_ref
    if name is None:
        raise InputError(
            f"the worktree {record.name} was made from a commit, not from a branch",
            guidance="Name the branch to merge into: --into BRANCH",
        )
    ref = f"refs/heads/{name}"
    if name.startswith("-") or git.call("show-ref", "--verify", "--quiet", ref).exit_code != 0:
        raise InputError(f"there is no branch {name!r}", guidance="Name another one: --into BRANCH")
    if ref == f"refs/heads/{record.branch}":
        raise InputError("a branch cannot be merged into itself")
    return ref


def _check_branch(git: UserGit, record: WorktreeRecord) -> None:
    head = git.call("symbolic-ref", "--quiet", "HEAD").stdout.decode("utf-8", "replace").strip()
    if head != f"refs/heads/{record.branch}":
        where = head.removeprefix("refs/heads/") or "a commit without a branch"
        raise WorktreeError(
            f"the worktree {record.name} is on {where}, not on its own branch {record.branch}",
            guidance=f"Switch back to it there, or merge by hand: cd {record.folder}",
        )
    if waiting := _in_progress(Path(record.linked_dir)):
        raise WorktreeError(
            f"a merge or rebase is not finished in the worktree {record.name} ({waiting})",
            guidance=f"Finish it there first: cd {record.folder}. Or have its agent solve conflicts: --ask-agent",
        )


def _in_progress(git_dir: Path) -> str | None:
    return next((name for name in _IN_PROGRESS if (git_dir / name).exists()), None)


def _uncommitted(git: UserGit) -> list[bytes]:
    """Return the lines of `git status`: two letters, and the name of a file."""
    output = git.run("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", _NO_SUBMODULES)
    return [line for line in output.split(b"\0") if line]


def _to_stage(uncommitted: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return the files of `git status` that were changed, and those that were deleted; not what is staged already."""
    deleted = {line: None for line in uncommitted if line[1:2] == b"D" and line[:1] not in b"UD"}  # these are conflicts
    changed = [line for line in uncommitted if line[1:2] != b" " and line not in deleted]
    return [line[3:] for line in changed], [line[3:] for line in deleted]


def _merge_commits(git: UserGit, old: str, tip: str) -> _Merged:
    args = ("merge-tree", "--write-tree", "-z", "--name-only", old, tip)
    done = git.call(*args)
    if done.exit_code not in (0, 1):
        raise failure(args, done)
    return _read_merge(done.stdout)


def _commit_merge(git: UserGit, tree: str, old: str, tip: str, message: str) -> str:
    """Make the merge commit, under the user's name, and signed where all commits are."""
    signs = git.call("config", "--type=bool", "--get", "commit.gpgSign").stdout.strip() == b"true"
    sign = ("-S",) if signs else ()
    return git.line("commit-tree", *sign, "-p", old, "-p", tip, "-m", message, tree)


def _move_branch(
    store: WorktreeStore,
    record: WorktreeRecord,
    git: UserGit,
    move: MergeOperation,
    checkout: UserGit | None,
    at: float,
) -> WorktreeRecord:
    """Move a branch, and where it is checked out its files and index: all of it or nothing, also after a kill."""
    move = msgspec.structs.replace(move, operation=uuid.uuid4().hex[:16])
    record = msgspec.structs.replace(record, changed_at=at)
    if checkout is None:
        _update_ref(git, move, record)
    else:
        _move_checked_out(store, record, git, move, checkout)
    record = msgspec.structs.replace(record, merge=None, state="merged")
    store.write(record)
    return record


def _move_checked_out(
    store: WorktreeStore, record: WorktreeRecord, git: UserGit, move: MergeOperation, target_git: UserGit
) -> None:
    folder = target_git.work_tree
    move = msgspec.structs.replace(move, folder=str(folder), git_dir=str(target_git.git_dir))
    checkout = _Checkout(record, move)
    checkout.check()
    with open_store(store.settings, folder) as (target, shadow), checkout.planned(target, shadow) as plan:
        entry = LogEntry(
            at=record.changed_at,
            session_id=_log_name(record),
            moment="rewind",
            tree="",
            operation=move.operation,
            target=f"after worktree {record.name} was merged",
        )
        store.write(msgspec.structs.replace(record, merge=move))
        try:
            checkout.lock_index()
            entry = target.begin_rewind(plan, entry)
            target.apply_rewind(shadow, plan, entry)
            try:
                _update_ref(git, move, record)
            except BaseException:
                target.revert_rewind(shadow, plan.changes, entry)
                raise
        except BaseException:
            checkout.unlock_index()
            store.write(record)
            raise
        checkout.replace_index()


def _complete_merge(store: WorktreeStore, record: WorktreeRecord) -> WorktreeRecord:
    """Complete a merge that a killed process had begun, or forget one that had changed nothing yet."""
    move = record.merge
    if move is None:
        return record
    git = UserGit(Path(record.git_dir), git_dir=Path(record.git_dir))
    is_merged = False
    try:
        if move.folder is not None and move.git_dir is not None and os.path.isdir(move.folder):
            checkout = _Checkout(record, move)
            with open_store(store.settings, Path(move.folder)) as (target, _):  # completes the files
                logged = [entry for entry in target.read_log() if entry.operation == move.operation]
            is_merged = bool(logged) and all(entry.moment != "reverted" for entry in logged)
            if is_merged:
                _update_ref(git, move, record)
                checkout.replace_index()
            else:
                checkout.unlock_index()
        else:
            is_merged = git.line("rev-parse", move.target) == move.new
    except (WorktreeError, CheckpointError, OSError) as error:
        logger.warning("a merge of worktree %s that was interrupted cannot be completed: %s", record.name, error)
    record = msgspec.structs.replace(record, merge=None, state="merged" if is_merged else record.state)
    store.write(record)
    return record


def _update_ref(git: UserGit, move: MergeOperation, record: WorktreeRecord) -> None:
    """Move the branch, unless somebody else has moved it."""
    done = git.call("update-ref", "-m", f"merge {record.branch}: by dragoman", move.target, move.new, move.old)
    if done.exit_code != 0 and git.line("rev-parse", move.target) != move.new:
        raise WorktreeError(
            f"{move.target.removeprefix('refs/heads/')} was changed meanwhile, and was not merged into:"
            f" {done.stderr.strip()}",
            guidance="Try it again.",
        )


class _Checkout:
    """The work tree in which the branch of a merge is checked out."""

    def __init__(self, record: WorktreeRecord, move: MergeOperation) -> None:
        assert move.folder is not None
        assert move.git_dir is not None
        self._folder = Path(move.folder)
        self._git_dir = git_dir = Path(move.git_dir)
        self._move = move
        common_dir = Path(record.git_dir)
        self._git = UserGit(self._folder, git_dir=git_dir, common_dir=common_dir, timeout_s=LONG_TIMEOUT_S)
        self._index = git_dir / "index"
        self._lock = git_dir / "index.lock"
        self._new_index = git_dir / f"index.dragoman-{move.operation}"
        self._paths: list[bytes] = []
        self._deleted: set[bytes] = set()

    def check(self) -> None:
        """Raise `WorktreeError` unless the files that the merge changes are as they were committed."""
        if waiting := _in_progress(self._git_dir):
            raise WorktreeError(
                f"a merge or rebase is not finished in {self._folder} ({waiting})", guidance="Finish it there first."
            )
        if self._git.call("config", "--type=bool", "--get", "core.sparseCheckout").stdout.strip() == b"true":
            raise WorktreeError(
                f"{self._folder} is a sparse checkout, whose files only git itself can update",
                guidance="Merge there by hand: git merge BRANCH",
            )
        output = self._git.run(
            "diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", self._move.old, self._move.new
        )
        fields = output.split(b"\0")
        changed = dict(zip(fields[1::2], fields[:-1:2], strict=True))
        status = self._git.run("status", "--porcelain", "-z", "--untracked-files=no", "--no-renames", _NO_SUBMODULES)
        dirty = {line[3:] for line in status.split(b"\0") if line}
        problems = sorted(path for path in changed if path in dirty)
        # Links to commits of submodules are in the index only.
        self._paths = sorted(path for path, head in changed.items() if b"160000" not in head.split()[:2])
        self._deleted = {path for path in self._paths if changed[path].split()[1] == b"000000"}
        new_paths = [path for path in self._paths if changed[path].startswith(b":000000 ")]
        with FolderWriter(self._folder, "") as reader:
            problems += [
                path
                for path in new_paths
                if path not in dirty and reader.version(path) is not None and not self._vanishes(path, changed)
            ]
        if problems:
            listed = "".join(f"\n  {path_text(path)}" for path in problems[:MAX_LISTED])
            raise WorktreeError(
                f"nothing was merged, because {self._folder} has uncommitted changes in the same files:{listed}",
                guidance="Commit or stash them there, then merge again.",
            )

    def _vanishes(self, path: bytes, changed: Container[bytes]) -> bool:
        """Return whether there is a folder in the place of a file, and the merge deletes all that is in it."""
        folder = os.path.join(os.fsencode(self._folder), path)
        if os.path.islink(folder) or not os.path.isdir(folder):
            return False
        inner = [os.path.join(above, name) for above, folders, names in os.walk(folder) for name in (*names, *folders)]
        files = [name for name in inner if os.path.islink(name) or not os.path.isdir(name)]
        return all(os.path.relpath(name, os.fsencode(self._folder)) in changed for name in files)

    @contextmanager
    def planned(self, store: CheckpointStore, git: Git) -> Iterator[RewindPlan]:
        """Plan the new files, as the user's git writes them: with its filters and line ends."""
        with tempfile.TemporaryDirectory(prefix="merge-", dir=store.path) as temporary:
            new_files = Path(temporary, "files")
            new_files.mkdir()
            self._check_out(Path(temporary, "index"), new_files)
            snapshot = store.repository.snapshot(git)
            tree, _ = store.repository.save(git, self._paths)
            tree = tree if self._paths else snapshot.tree
            index = Path(temporary, "shadow-index")
            changed = git.on_work_tree(new_files)
            changed.run_on_index(index, "read-tree", tree)
            deleted = b"".join(path + b"\0" for path in self._deleted)
            changed.run_on_index(index, "update-index", "--force-remove", "-z", "--stdin", stdin=deleted)
            written = b"".join(path + b"\0" for path in self._paths if path not in self._deleted)
            changed.run_on_index(index, "update-index", "--add", "--replace", "-z", "--stdin", stdin=written)
            target = changed.run_on_index(index, "write-tree").decode().strip()
            plan = store.plan(git, LogEntry(at=0.0, session_id="", moment="after", tree=target))
            if outside := {change.path for change in plan.changes} - set(self._paths):
                raise WorktreeError(f"{path_text(min(outside))} was changed meanwhile", guidance="Try it again.")
            yield plan

    def _check_out(self, index: Path, new_files: Path) -> None:
        env = {"GIT_INDEX_FILE": str(index)}
        self._git.run("read-tree", self._move.new, env=env)
        names = set(self._git.run("ls-files", "-z", env=env).split(b"\0"))
        listed = b"".join(path + b"\0" for path in self._paths if path in names)
        if listed:
            self._git.run("checkout-index", f"--prefix={new_files}/", "-z", "--stdin", stdin=listed, env=env)

    def lock_index(self) -> None:
        """Prepare the new index, and take git's lock of the index: no other command of git changes it from now on.

        The lock is a second name of the new index, so that after a kill it is known whose it is.
        """
        before = _identity(self._index)
        if self._index.exists():
            shutil.copyfile(self._index, self._new_index)
        env = {"GIT_INDEX_FILE": str(self._new_index)}
        self._git.run("read-tree", "-i", "-m", self._move.old, self._move.new, env=env)
        try:
            os.link(self._new_index, self._lock)
        except FileExistsError:
            self._new_index.unlink()
            raise WorktreeError(
                f"another command of git is at work in {self._folder}; nothing was merged",
                guidance=f"Wait for it. If there is none, remove {self._lock}.",
            ) from None
        if _identity(self._index) != before:
            self.unlock_index()
            raise WorktreeError(f"{self._folder} was changed meanwhile; nothing was merged", guidance="Try it again.")

    def unlock_index(self) -> None:
        """Leave the index as it is, and give its lock back if it is ours."""
        if self._has_lock():
            self._lock.unlink()
        self._new_index.unlink(missing_ok=True)

    def replace_index(self) -> None:
        """Let the new index be the index, and git note the times of the files."""
        if not self._has_lock() and not _same_file(self._index, self._new_index):
            self._new_index.unlink(missing_ok=True)
            self.lock_index()
        if self._has_lock():
            os.replace(self._lock, self._index)
        self._new_index.unlink(missing_ok=True)
        self._git.call("update-index", "-q", "--refresh")

    def _has_lock(self) -> bool:
        return _same_file(self._lock, self._new_index)


def _same_file(first: Path, second: Path) -> bool:
    with suppress(OSError):
        return os.path.samefile(first, second)
    return False


def _identity(path: Path) -> tuple[int, int, int] | None:
    with suppress(OSError):
        status = path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None


def _count(paths: Iterable[bytes]) -> str:
    number = len(list(paths))
    return f"{number:,} file{'' if number == 1 else 's'}"
