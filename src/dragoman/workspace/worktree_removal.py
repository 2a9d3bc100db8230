"""Removing worktrees: `drop`, which saves their content first, `recover`, `keep`, and `prune`, which finds leftovers.

What a dropped worktree contained is stored as a tree in its shadow repository, which has all files that git does not
ignore, and a bundle of its commits. Only folders and branches that were made here are removed.

Blocking: call it in a thread.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.errors import CheckpointError, DragomanError, WorktreeError
from dragoman.proc._reaper_main import start_time
from dragoman.protocol.worktrees import Leftover, WorktreeInfo
from dragoman.workspace.checkpoint_store import CheckpointStore, LogEntry
from dragoman.workspace.git import GitError
from dragoman.workspace.git_state import ReadingGit
from dragoman.workspace.shadow import list_names
from dragoman.workspace.user_git import UserGit, failure
from dragoman.workspace.worktree_git import (
    LONG_TIMEOUT_S,
    delete_branch,
    entry_for,
    git_in,
    has_branch,
    is_elsewhere,
    is_linked_dir,
    lines,
    linked_dir_of,
    trusted_config,
    work_trees,
)
from dragoman.workspace.worktree_merge import changing, check_idle, open_store
from dragoman.workspace.worktree_store import (
    SavedContent,
    WorktreeRecord,
    WorktreeSettings,
    WorktreeStore,
    repository_key,
)


def drop(store: WorktreeStore, record: WorktreeRecord, *, recoverable: bool, force: bool) -> WorktreeInfo:
    with changing(store, record) as current:
        folder = Path(current.folder)
        if not force:
            check_idle(store.settings, [folder], "dropped")
        expire(store)
        if recoverable:
            saved = _save_content(store, current, force=force)
            current = msgspec.structs.replace(current, state="dropped", saved=saved, changed_at=store.now())
            store.write(current)
            store.remove(msgspec.structs.replace(current, state="ready"))
            _remove_from_git(store, current)
        else:
            discard(store, current)
            current = msgspec.structs.replace(current, state="dropped")
        return current.info(store.settings.drop_age_s)


def _save_content(store: WorktreeStore, record: WorktreeRecord, *, force: bool) -> SavedContent:
    """Store the files in the shadow repository, and the commits in a bundle beside the record."""
    git = git_in(record, timeout_s=LONG_TIMEOUT_S, kind=ReadingGit)
    head = git.line("rev-parse", "--verify", "HEAD")
    now = store.now()
    token = f"{record.name}-{int(now * 1000)}"
    with open_store(store.settings, Path(record.folder)) as (checkpoints, shadow):
        snapshot = checkpoints.repository.snapshot(shadow)
        if snapshot.skipped_paths and not force:
            listed = "".join(f"\n  {each.path} ({each.reason})" for each in snapshot.skipped_paths[:20])
            raise WorktreeError(
                f"nothing was dropped, because these could not be recovered:{listed}",
                guidance="Move them away, or drop it with --force.",
            )
        commit = shadow.run("commit-tree", "-m", "dropped", snapshot.tree).decode().strip()
        shadow.run("update-ref", f"refs/dropped/{token}", commit)
    tip = git.line("rev-parse", f"refs/heads/{record.branch}") if has_branch(git, record.branch) else head
    bundle = _bundle(store, record, git, f"{token}.bundle", {tip: f"refs/heads/{record.branch}", head: "HEAD"})
    return SavedContent(now, snapshot.tree, f"refs/dropped/{token}", tip if tip != record.base_commit else head, bundle)


def _bundle(store: WorktreeStore, record: WorktreeRecord, git: UserGit, name: str, refs: dict[str, str]) -> str | None:
    """Write a file with the commits of a worktree, and return its name; None where there are none."""
    if set(refs) == {record.base_commit}:
        return None
    path = store.dropped_folder(record.key) / name
    done = git.call("bundle", "create", "--quiet", path, *refs.values(), "--not", record.base_commit)
    if "empty bundle" in done.stderr:  # the branch went back to before its base
        return None
    if done.exit_code != 0:
        raise failure(("bundle",), done)
    git.run("bundle", "verify", "--quiet", path)
    return name


def keep(store: WorktreeStore, record: WorktreeRecord) -> WorktreeInfo:
    with changing(store, record) as current:
        store.mark_kept(current)
        store.remove(current)
        return current.info(store.settings.drop_age_s)


def discard_unused(store: WorktreeStore, record: WorktreeRecord) -> None:
    """Remove a worktree that nobody was told of."""
    with suppress(DragomanError), changing(store, record) as current:
        if len(current.session_ids) <= 1:
            discard(store, current)


def discard(store: WorktreeStore, record: WorktreeRecord) -> None:
    """Remove folder, branch and record for good."""
    _remove_from_git(store, record)
    store.remove(record)
    # Its checkpoints go too, unless an earlier worktree in the same folder can still be recovered from there.
    shadow = CheckpointStore(store.settings.home, Path(record.folder), max_file_bytes=1).path
    if not any(each.folder == record.folder for each in store.records(dropped=True)):
        shutil.rmtree(shadow, ignore_errors=True)


def _remove_from_git(store: WorktreeStore, record: WorktreeRecord) -> None:
    """Remove the folder, git's entry for it, and the branch. Only what belongs to this record."""
    folder = Path(record.folder)
    _check_ours(store.settings, folder)
    _remove_folder(folder)
    linked = Path(record.linked_dir) if record.linked_dir else entry_for(Path(record.git_dir), folder)
    if linked is not None and is_linked_dir(linked, Path(record.git_dir)):
        shutil.rmtree(linked, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()  # of the repository, if it was the last one
    if not os.path.isdir(record.git_dir):
        return
    git = UserGit(Path(record.git_dir), git_dir=Path(record.git_dir))
    with suppress(OSError):
        (Path(record.git_dir) / "worktrees").rmdir()
    is_used = any(branch == f"refs/heads/{record.branch}" for _, branch in work_trees(git))
    if has_branch(git, record.branch) and not is_used:
        delete_branch(git, record.branch)


def recover(store: WorktreeStore, name: str, near: Path | None) -> WorktreeRecord:
    dropped = store.find(name, near, dropped=True)
    assert dropped.saved is not None
    saved = dropped.saved
    with store.lock(dropped.key):
        git_dir = Path(dropped.git_dir)
        if not git_dir.is_dir():
            raise WorktreeError(f"the repository of {dropped.name} is gone: {git_dir}")
        git = UserGit(git_dir, git_dir=git_dir, timeout_s=LONG_TIMEOUT_S)
        if (bundle := store.bundle_path(dropped)) is not None:
            git.run("bundle", "unbundle", bundle)
        if git.call("cat-file", "-e", f"{saved.head}^{{commit}}").exit_code != 0:
            raise WorktreeError(f"the repository does not have the commit {saved.head} any more")
        if store.read(dropped.key, dropped.name) is not None or has_branch(git, dropped.branch):
            raise WorktreeError(
                f"there is a worktree or a branch with the name of {dropped.name} again",
                guidance=f"Drop or rename it first: dragoman worktree drop {dropped.name}",
            )
        folder = Path(dropped.folder)
        if os.path.lexists(folder):
            raise WorktreeError(
                f"the place of the worktree {dropped.name} is taken: {folder} exists already",
                guidance="Move that away, then recover it.",
            )
        record = msgspec.structs.replace(
            dropped, state="creating", saved=None, linked_dir="", pid=os.getpid(), pid_started=start_time(os.getpid())
        )
        store.write(record)
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            config, _ = trusted_config(store, Path(dropped.checkout))
            add = ("worktree", "add", "--quiet", "--no-checkout", "-b", record.branch, folder, saved.head)
            git.run(*add, config=config)
            record = msgspec.structs.replace(record, linked_dir=str(linked_dir_of(folder, git_dir)))
            git_in(record, timeout_s=LONG_TIMEOUT_S).run("checkout", "--force", "--quiet", record.branch, config=config)
            with open_store(store.settings, folder) as (checkpoints, shadow):
                target = LogEntry(at=saved.at, session_id=f"worktree {record.id}", moment="after", tree=saved.tree)
                plan = checkpoints.plan(shadow, target)
                checkpoints.apply_rewind(shadow, plan, checkpoints.begin_rewind(plan, target))
                shadow.run("update-ref", "-d", saved.ref)
        except BaseException:
            _remove_from_git(store, record)
            store.remove(record)
            raise
        record = store.save(record, state="ready")
        store.remove(dropped)
        return record


def prune(store: WorktreeStore, remove: bool) -> tuple[Leftover, ...]:
    found: list[Leftover] = []
    for key in sorted({record.key for record in store.records()} | set(list_names(store.settings.folder))):
        with store.lock(key):
            found += _leftovers(store, key, remove)
    for record in store.records(dropped=True):
        if is_expired(store, record):
            found.append(Leftover(kind="expired drop", name=record.name, path=record.folder, is_removed=remove))
    if remove:
        expire(store)
    return tuple(found)


def _leftovers(store: WorktreeStore, key: str, remove: bool) -> Iterator[Leftover]:
    records = [record for record in store.records() if record.key == key]
    for record in records:
        if record.is_abandoned:
            if remove:
                discard(store, record)
            yield Leftover(kind="unfinished worktree", name=record.name, path=record.folder, is_removed=remove)
        elif record.state != "creating" and not record.has_folder:
            note = _remove_missing(store, record) if remove else f"the branch {record.branch} stays if it has commits"
            yield Leftover(
                kind="record without a folder", name=record.name, path=record.folder, note=note, is_removed=remove
            )
    known = {record.folder for record in records}
    root = Path(os.path.realpath(store.settings.folder)) / key
    for name in list_names(root):
        if str(root / name) in known or store.is_kept(key, name):
            continue
        adopted = _adopt(store, key, name, root / name, records)
        note = "its content is saved first" if adopted is not None else "no git work tree: remove it yourself"
        is_removed = False
        if remove and adopted is not None:
            saved = _save_content(store, adopted, force=False)
            store.write(msgspec.structs.replace(adopted, state="dropped", saved=saved))
            _remove_from_git(store, adopted)
            is_removed = True
        yield Leftover(
            kind="folder without a record", name=name, path=str(root / name), note=note, is_removed=is_removed
        )
    for git_dir in sorted({record.git_dir for record in (*records, *_dropped_of(store, key))}):
        yield from _lost_branches(store, Path(git_dir), {record.branch for record in records}, remove)


def _dropped_of(store: WorktreeStore, key: str) -> list[WorktreeRecord]:
    return [record for record in store.records(dropped=True) if record.key == key]


def _remove_missing(store: WorktreeStore, record: WorktreeRecord) -> str:
    """Remove the record of a folder that is gone. The branch goes only if all its commits are elsewhere."""
    git_dir, folder = Path(record.git_dir), Path(record.folder)
    if folder.is_symlink():
        _check_ours(store.settings, folder)
        folder.unlink()
    store.remove(record)
    linked = Path(record.linked_dir) if record.linked_dir else None
    if linked is not None and is_linked_dir(linked, git_dir):
        shutil.rmtree(linked, ignore_errors=True)
    if not git_dir.is_dir():
        return "the repository is gone, too"
    git = UserGit(git_dir, git_dir=git_dir)
    if not has_branch(git, record.branch):
        return ""
    if is_elsewhere(git, record.branch):
        delete_branch(git, record.branch)
        return f"the branch {record.branch} had no commits of its own"
    return f"the branch {record.branch} stays: it has commits that no other branch has"


def _lost_branches(store: WorktreeStore, git_dir: Path, known: Iterable[str], remove: bool) -> Iterator[Leftover]:
    """Yield the branches with our prefix that no work tree has; only those without own commits are removed."""
    prefix = store.settings.branch_prefix
    if not git_dir.is_dir() or not prefix.endswith("/"):
        return
    git = UserGit(git_dir, git_dir=git_dir)
    used = {branch for _, branch in work_trees(git)}
    names = lines(git, "for-each-ref", "--format=%(refname:short)", f"refs/heads/{prefix}")
    for branch in names:
        if branch in known or f"refs/heads/{branch}" in used:
            continue
        is_safe = is_elsewhere(git, branch)
        if remove and is_safe:
            delete_branch(git, branch)
        note = "" if is_safe else "it has commits that no other branch has: delete it yourself"
        yield Leftover(
            kind="branch without a worktree",
            name=branch,
            path=str(git_dir),
            note=note,
            is_removed=remove and is_safe,
        )


def _adopt(
    store: WorktreeStore, key: str, name: str, folder: Path, known: Iterable[WorktreeRecord]
) -> WorktreeRecord | None:
    """Return a record for a folder of ours that has none, if git still knows it as a work tree."""
    marker = folder / ".git"
    try:
        linked = Path(os.fsdecode(marker.read_bytes().strip().removeprefix(b"gitdir: ")))
        git_dir = linked.parent.parent
        _check_ours(store.settings, folder)
    except (OSError, WorktreeError):
        return None
    if linked.parent.name != "worktrees" or repository_key(git_dir) != key or not linked.is_dir():
        return None
    git = UserGit(folder, git_dir=linked)
    branch = store.settings.branch_prefix + name
    try:
        base = _fork_point(git, branch)
    except GitError:
        return None
    if base is None:
        return None
    checkout = next((record.checkout for record in known), str(git_dir.parent))
    now = store.now()
    return WorktreeRecord(
        key=key,
        name=name,
        state="ready",
        git_dir=str(git_dir),
        linked_dir=str(linked),
        checkout=checkout,
        folder=str(folder),
        branch=branch,
        base_ref=None,
        base_commit=base,
        created_at=now,
        changed_at=now,
    )


def _fork_point(git: UserGit, branch: str) -> str | None:
    """Return the commit at which a work tree left all other branches; None where it never was on one."""
    others = (f"--exclude={branch}", "--branches", "--tags", "--remotes")
    commits = lines(git, "rev-list", "--boundary", "HEAD", "--not", *others)
    boundaries = [commit.removeprefix("-") for commit in commits if commit.startswith("-")]
    if not commits:
        return git.line("rev-parse", "HEAD")
    return boundaries[-1] if boundaries else None


def is_expired(store: WorktreeStore, record: WorktreeRecord) -> bool:
    return record.saved is not None and record.saved.at + store.settings.drop_age_s < store.now()


def expire(store: WorktreeStore) -> None:
    """Remove what is left of worktrees that were dropped too long ago."""
    for record in store.records(dropped=True):
        if not is_expired(store, record):
            continue
        assert record.saved is not None
        with suppress(CheckpointError), open_store(store.settings, Path(record.folder)) as (_, git):
            git.run("update-ref", "-d", record.saved.ref)
        store.remove(record)


def _check_ours(settings: WorktreeSettings, folder: Path) -> None:
    """Refuse to remove anything that is not two levels below our folder for worktrees, by a path without links."""
    root = Path(os.path.realpath(settings.folder))
    if folder.parent.parent != root or os.path.realpath(folder.parent) != str(folder.parent):
        raise WorktreeError(
            f"{folder} is not in {root}, the folder for worktrees, and is left as it is",
            guidance="If the folder was moved, change `folder` of [worktrees] in config.toml back.",
        )


def _remove_folder(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.is_dir():
        _make_writable(folder)
        shutil.rmtree(folder)


def _make_writable(folder: Path) -> None:
    """Let folders that a build made read-only be removed."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path) and not os.access(path, os.W_OK | os.X_OK):
                with suppress(OSError):
                    os.chmod(path, 0o700)
