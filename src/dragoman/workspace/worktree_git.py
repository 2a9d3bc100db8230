"""The user's repository, as worktrees need it: what a folder belongs to, its work trees and branches.

Blocking: call it in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from dragoman.errors import InputError, WorktreeError
from dragoman.fileio import atomic_write
from dragoman.workspace.git_state import SAFE_CONFIG, without_filters
from dragoman.workspace.git_trust import RepositoryTrust
from dragoman.workspace.shadow import list_names, path_text
from dragoman.workspace.user_git import TIMEOUT_S, UserGit
from dragoman.workspace.worktree_store import WorktreeRecord, WorktreeStore, repository_key

# Seconds for a command of git that writes or copies many files.
LONG_TIMEOUT_S: Final = 600.0

# Changes of a repository that an error lists.
MAX_LISTED: Final = 20


class UserRepository(NamedTuple):
    """The user's repository, as it is found from a folder in it."""

    git: UserGit
    git_dir: Path  # shared by all its work trees
    checkout: Path
    base_ref: str | None
    base_commit: str

    @property
    def key(self) -> str:
        return repository_key(self.git_dir)


def find_repository_of(cwd: Path, base: str | None) -> UserRepository:
    """Return the repository that a folder is in, and the commit to begin with. Raises `InputError` with the reason."""
    git = UserGit(cwd)
    done = git.call("rev-parse", "--is-bare-repository", "--git-common-dir")
    if done.exit_code != 0:
        if "not a git repository" in done.stderr:
            raise InputError(
                f"{cwd} is in no git repository, and only a repository can have worktrees",
                guidance="Make one (git init, and a first commit), or work without --worktree.",
            )
        raise InputError(f"the git repository of {cwd} cannot be used: {done.stderr.strip()}")
    bare, common = done.stdout.decode("utf-8", "surrogateescape").splitlines()[:2]
    inside = git.call("rev-parse", "--show-toplevel")
    if bare == "true" or inside.exit_code != 0:
        raise InputError(
            f"{cwd} is in a bare repository, or in the folder of git's own files: it has no files to work on",
            guidance="Open the session in a work tree of the repository.",
        )
    checkout = Path(os.path.realpath(os.fsdecode(inside.stdout.removesuffix(b"\n"))))
    git_dir = Path(os.path.realpath(os.path.join(cwd, common)))
    for path in (checkout, git_dir):
        try:
            os.fsencode(path).decode()
        except UnicodeDecodeError:
            raise InputError(f"{path_text(os.fsencode(path))}: the path is not UTF-8, which worktrees need") from None
    ref, commit = _resolve_base(git, base)
    return UserRepository(UserGit(checkout), git_dir, checkout, ref, commit)


def _resolve_base(git: UserGit, base: str | None) -> tuple[str | None, str]:
    name = "HEAD" if base is None else base
    if name.startswith("-"):
        raise InputError(f"{name!r} is no branch or commit")
    done = git.call("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if done.exit_code != 0:
        if base is None:
            raise InputError(
                "the repository has no commit yet, so there is nothing to branch from",
                guidance="Make a first commit, then try again.",
            )
        raise InputError(f"{name!r} is no branch or commit of this repository", guidance="See: git branch --all")
    # `--end-of-options` is printed with the commit by this version of git's `rev-parse`.
    commit = done.stdout.decode().split()[-1]
    named = git.call("rev-parse", "--symbolic-full-name", name).stdout.decode("utf-8", "replace").split()
    full = named[-1] if named else ""
    if name == "HEAD":
        full = git.call("symbolic-ref", "--quiet", "HEAD").stdout.decode("utf-8", "replace").strip()
    return (full.removeprefix("refs/heads/") if full.startswith("refs/heads/") else None), commit


def linked_dir_of(folder: Path, git_dir: Path) -> Path:
    """Return git's folder for a work tree that it has just made."""
    marker = (folder / ".git").read_bytes().strip()
    linked = Path(os.path.realpath(folder / os.fsdecode(marker.removeprefix(b"gitdir:").strip())))
    if linked.parent != git_dir / "worktrees":
        raise WorktreeError(f"{folder} is no work tree of {git_dir}")
    return linked


def entry_for(git_dir: Path, folder: Path) -> Path | None:
    """Return git's folder for a work tree whose record does not name it yet."""
    for name in list_names(git_dir / "worktrees"):
        with suppress(OSError):
            entry = git_dir / "worktrees" / name
            if os.fsdecode((entry / "gitdir").read_bytes().strip()) == str(folder / ".git"):
                return entry
    return None


def git_in(record: WorktreeRecord, *, timeout_s: float = TIMEOUT_S, kind: type[UserGit] = UserGit) -> UserGit:
    """Return git in a worktree, whatever its `.git` file says by now. `kind` is the class, for one that only reads."""
    if not record.has_folder:
        raise WorktreeError(
            f"the folder of the worktree {record.name} is gone: {record.folder}",
            guidance="Clean up with: dragoman worktree prune",
        )
    _restore_link(Path(record.linked_dir), Path(record.git_dir))
    return kind(
        Path(record.folder),
        git_dir=Path(record.linked_dir),
        common_dir=Path(record.git_dir),
        timeout_s=timeout_s,
    )


def _restore_link(linked: Path, git_dir: Path) -> None:
    """Let a linked work tree belong to its repository again, if another was planted: git reads refs from there."""
    path = linked / "commondir"
    if not is_linked_dir(linked, git_dir) or not linked.is_dir():
        raise WorktreeError(f"{git_dir} does not know this worktree any more: {linked} is missing")
    try:
        named = os.fsdecode(path.read_bytes().strip()) if path.is_file() and not path.is_symlink() else ""
    except OSError:
        named = ""
    if Path(os.path.realpath(linked / named)) != git_dir:
        atomic_write(path, b"../..\n", mode=0o644)


def is_linked_dir(linked: Path, git_dir: Path) -> bool:
    """Return whether this is the place of git's folder for a work tree, and leads through no link to another one."""
    return linked.parent == git_dir / "worktrees" and os.path.realpath(linked) == str(linked)


def work_trees(git: UserGit) -> list[tuple[Path, str]]:
    """Return the work trees of the repository, each with the full name of the branch that is checked out there."""
    found = []
    for entry in git.run("worktree", "list", "--porcelain", "-z").split(b"\0\0"):
        lines = dict((line.partition(b" ")[::2]) for line in entry.split(b"\0") if line)
        if b"worktree" in lines and b"branch" in lines:
            found.append((Path(os.path.realpath(os.fsdecode(lines[b"worktree"]))), lines[b"branch"].decode()))
    return found


def trusted_config(store: WorktreeStore, checkout: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return settings with which git runs nothing that was changed in a repository since agents work there, and the
    names of these changes; nothing where there are none."""
    changes = RepositoryTrust(store.settings.home).changes(checkout)
    if not changes:
        return (), ()
    return (*SAFE_CONFIG, *without_filters(UserGit(checkout))), changes


def check_trust(store: WorktreeStore, checkout: Path, work_trees: Sequence[UserGit], *, trust: bool) -> None:
    """Raise `WorktreeError` where hooks or settings were changed since agents work in a repository, unless somebody
    says that they can be trusted.

    Each of the linked work trees can have settings of its own, and hooks by a relative path.
    """
    repositories = RepositoryTrust(store.settings.home)
    if trust:
        repositories.trust(checkout)
        return
    changes = dict.fromkeys(repositories.changes(checkout))
    for git in work_trees:
        changes.update(dict.fromkeys(repositories.changes_in(git, checkout)))
    if changes:
        listed = "".join(f"\n  {change}" for change in list(changes)[:MAX_LISTED])
        raise WorktreeError(
            f"these hooks or settings of the repository were changed since agents work there, and git would run"
            f" them:{listed}",
            guidance="Look at them. If they are yours, merge with --trust-repository.",
        )


def has_branch(git: UserGit, branch: str) -> bool:
    return git.call("show-ref", "--verify", "--quiet", f"refs/heads/{branch}").exit_code == 0


def delete_branch(git: UserGit, branch: str) -> None:
    """Delete a branch of ours, without hooks: nobody has looked at them."""
    git.run("branch", "-D", "--quiet", branch, config=SAFE_CONFIG)


def is_elsewhere(git: UserGit, branch: str) -> bool:
    """Return whether another branch or tag contains all commits of a branch."""
    own = f"refs/heads/{branch}"
    refs = lines(
        git, "for-each-ref", "--format=%(refname)", f"--contains={own}", "refs/heads", "refs/tags", "refs/remotes"
    )
    return any(ref != own for ref in refs)


def lines(git: UserGit, *args: str) -> list[str]:
    return git.run(*args).decode("utf-8", "backslashreplace").splitlines()
