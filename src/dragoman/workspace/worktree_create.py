"""Making a worktree: a linked work tree of the user's repository on a branch of its own, and what it needs to work in.

A process that is killed meanwhile leaves a record, by which the rest is found and removed.

Blocking: call it in a thread.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec

from dragoman.errors import InputError, WorktreeError
from dragoman.proc._reaper_main import start_time
from dragoman.protocol.worktrees import WorktreeChoice
from dragoman.workspace.git_trust import RepositoryTrust
from dragoman.workspace.shadow import path_text
from dragoman.workspace.user_git import UserGit
from dragoman.workspace.worktree_git import (
    LONG_TIMEOUT_S,
    UserRepository,
    find_repository_of,
    git_in,
    has_branch,
    linked_dir_of,
    trusted_config,
)
from dragoman.workspace.worktree_merge import BASE_REF, open_store
from dragoman.workspace.worktree_removal import discard, expire
from dragoman.workspace.worktree_setup import copy_included, run_setup
from dragoman.workspace.worktree_store import WorktreeRecord, WorktreeStore, check_name, name_from_prompt


def create(
    store: WorktreeStore,
    cwd: Path,
    choice: WorktreeChoice,
    prompt: str,
    session_id: str | None,
    keeps_base: bool,
    report: Callable[[str], None],
) -> WorktreeRecord:
    """Make a worktree, or return the existing one that `choice` names. `report` gets lines for people."""
    if choice.name is not None:
        check_name(choice.name)
    repository = find_repository_of(cwd, choice.base)
    setup = _setup_of(store, repository) if choice.setup is None else choice.setup
    RepositoryTrust(store.settings.home).remember(repository.checkout)
    with store.lock(repository.key):
        expire(store)
        if choice.name is not None and (existing := store.read(repository.key, choice.name)) is not None:
            if not existing.is_abandoned:
                record = _existing(existing, choice)
                return store.add_session(record, session_id) if session_id is not None else record
            discard(store, existing)
        record = _new_record(store, repository, choice.name, prompt)
        _check_submodules(repository, setup)
        store.write(record)
    # Without the lock, which others need: the record says that the worktree is being made, and by which process.
    try:
        record = _add(store, repository, record, report)
        folder, checkout = Path(record.folder), repository.checkout
        copy_included(checkout, folder, max_bytes=store.settings.copied_bytes, on_progress=report)
        if setup:
            run_setup(setup, folder, checkout, timeout_s=store.settings.setup_timeout_s, on_progress=report)
        if keeps_base:
            report("recording the files")
            record = msgspec.structs.replace(record, base_tree=_record_base(store, record))
    except BaseException as error:
        with store.lock(repository.key):
            if choice.keep_failed and isinstance(error, WorktreeError):
                store.save(record, state="ready")
                error.guidance = f"The worktree is kept: {record.folder}. {error.guidance}"
            else:
                discard(store, record)
        raise
    with store.lock(repository.key):
        record = store.save(record, state="ready", session_ids=() if session_id is None else (session_id,))
    report(f"worktree {record.name} on branch {record.branch}")
    return record


def _existing(record: WorktreeRecord, choice: WorktreeChoice) -> WorktreeRecord:
    if record.state == "creating":
        raise WorktreeError(f"the worktree {record.name} is being made by another process")
    if not record.has_folder:
        raise WorktreeError(
            f"the folder of the worktree {record.name} is gone: {record.folder}",
            guidance="Clean up with `dragoman worktree prune`, or choose another name.",
        )
    if choice.base is not None or choice.setup is not None:
        raise InputError(
            f"there is a worktree {record.name} already; its base and setup cannot be chosen again",
            guidance="Choose another name, or leave out --base and --setup to work in it.",
        )
    return record


def _new_record(store: WorktreeStore, repository: UserRepository, name: str | None, prompt: str) -> WorktreeRecord:
    name = name or _free_name(store, repository, name_from_prompt(prompt))
    branch = store.settings.branch_prefix + name
    folder = Path(os.path.realpath(store.settings.folder)) / repository.key / name
    if has_branch(repository.git, branch):
        raise WorktreeError(
            f"there is a branch {branch} already", guidance="Choose another name, or delete or rename that branch."
        )
    if os.path.lexists(folder):
        raise WorktreeError(
            f"{folder} exists already, and is no worktree of ours",
            guidance="Choose another name, or look at `dragoman worktree prune`.",
        )
    now = store.now()
    return WorktreeRecord(
        key=repository.key,
        name=name,
        state="creating",
        git_dir=str(repository.git_dir),
        checkout=str(repository.checkout),
        folder=str(folder),
        branch=branch,
        base_ref=repository.base_ref,
        base_commit=repository.base_commit,
        created_at=now,
        changed_at=now,
        pid=os.getpid(),
        pid_started=start_time(os.getpid()),
    )


def _free_name(store: WorktreeStore, repository: UserRepository, wanted: str) -> str:
    for number in range(1, 1000):
        name = wanted if number == 1 else f"{wanted}-{number}"
        folder = store.settings.folder / repository.key / name
        taken = store.read(repository.key, name) is not None or os.path.lexists(folder)
        if not taken and not has_branch(repository.git, store.settings.branch_prefix + name):
            return name
    return f"{wanted}-{uuid.uuid4().hex[:8]}"


def _setup_of(store: WorktreeStore, repository: UserRepository) -> str:
    for folder in (repository.checkout, repository.git_dir.parent):
        if folder in store.settings.setups:
            return store.settings.setups[folder]
    return store.settings.setup


def _add(
    store: WorktreeStore, repository: UserRepository, record: WorktreeRecord, report: Callable[[str], None]
) -> WorktreeRecord:
    """Have git make the work tree, and fill it."""
    folder = Path(record.folder)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    config, changes = trusted_config(store, repository.checkout)
    if changes:
        report(f"hooks and filters do not run, because they were changed since agents work here: {', '.join(changes)}")
    git = UserGit(repository.checkout, timeout_s=LONG_TIMEOUT_S)
    add = ("worktree", "add", "--quiet", "--no-checkout", "-b", record.branch, folder, record.base_commit)
    git.run(*add, config=config)
    record = msgspec.structs.replace(record, linked_dir=str(linked_dir_of(folder, repository.git_dir)))
    store.write(record)
    linked = git_in(record, timeout_s=LONG_TIMEOUT_S)
    linked.run("checkout", "--force", "--quiet", "--progress", record.branch, config=config, on_progress=report)
    if _has_lfs(linked) and not _has_lfs_filter(linked):
        report("files of Git LFS are pointers: git-lfs is not set up for this user")
    return record


def _record_base(store: WorktreeStore, record: WorktreeRecord) -> str:
    with open_store(store.settings, Path(record.folder)) as (checkpoints, git):
        tree = checkpoints.repository.snapshot(git).tree
        git.run("update-ref", BASE_REF, f"refs/trees/{tree}")
        return tree


def _check_submodules(repository: UserRepository, setup: str) -> None:
    """Refuse a repository with submodules, unless a setup command says what becomes of them."""
    if setup:
        return
    listing = repository.git.run("ls-tree", "-r", "-z", repository.base_commit).split(b"\0")
    paths = [path_text(line.split(b"\t", 1)[1]) for line in listing if line.startswith(b"160000 ")]
    if paths:
        raise WorktreeError(
            f"the repository has submodules ({', '.join(paths[:5])}), which git leaves empty in a worktree",
            guidance="Say how they are filled: --setup 'git submodule update --init', or --setup true to leave them"
            " empty.",
        )


def folder_in(record: WorktreeRecord, cwd: Path) -> Path:
    """Return the folder of the worktree that stands for `cwd` in the checkout."""
    folder, real = Path(record.folder), Path(os.path.realpath(cwd))
    for root in (folder, Path(record.checkout)):
        if real.is_relative_to(root):
            inner = folder / real.relative_to(root)
            if not inner.is_dir():
                raise WorktreeError(
                    f"the folder {real.relative_to(root)} is not in the worktree {record.name}",
                    guidance="It may be untracked, or not in the base commit. Open the session in another folder.",
                )
            if not Path(os.path.realpath(inner)).is_relative_to(folder):
                raise WorktreeError(f"the folder {inner} leads out of the worktree")
            return inner
    return folder  # of another checkout of the same repository


def _has_lfs(git: UserGit) -> bool:
    return b"filter=lfs" in git.call("cat-file", "blob", "HEAD:.gitattributes").stdout


def _has_lfs_filter(git: UserGit) -> bool:
    return git.call("config", "--get-regexp", r"^filter\.lfs\.(smudge|process)$").exit_code == 0
