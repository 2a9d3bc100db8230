"""`RepositoryTrust`: notices when settings or hooks of a repository were changed since agents work in it.

Git runs programs that a repository names: its hooks, and settings such as `core.sshCommand`, `gpg.program`, filters and
credential helpers. An agent that may write files may write these, too, and a commit or a push would then run its
program outside of every sandbox, and without a question to anybody.

So before the first agent works in a folder, a digest of them is stored in `repositories.json` of the home folder, and
compared before each commit, push and pull request. What was changed since is named, and needs a person's word.

Not covered: files of the work tree that a trusted hook runs (the scripts of a test suite, `.pre-commit-config.yaml`),
the user's own configuration (`~/.gitconfig`), and an agent that may write our home folder. What a repository had before
Dragoman saw it is trusted.

Blocking: call it in a thread.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from dragoman.errors import GitActionError
from dragoman.fileio import LockedJsonFile, folder_key
from dragoman.workspace.git import GitError, find_repository, open_without_waiting
from dragoman.workspace.shadow import path_text
from dragoman.workspace.user_git import UserGit

# Settings of a repository that run nothing and send nothing elsewhere. Git and other programs write most of them
# unasked, such as `branch.*` for a push. All others count.
_HARMLESS_KEY: Final = re.compile(
    r"branch\..*\.(remote|merge|rebase|pushremote|description|vscode-merge-base|gh-merge-base|github-pr-.*)"
    r"|remote\..*\.(fetch|tagopt|prune|prunetags|gh-resolved|glab-resolved|followremotehead|partialclonefilter|promisor)"
    r"|core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks)"
    r"|core\.(autocrlf|eol|safecrlf|untrackedcache|commitgraph|multipackindex|sparsecheckout|sparsecheckoutcone)"
    r"|user\.(name|email|signingkey)|extensions\.(worktreeconfig|objectformat|partialclone|refstorage)"
    r"|submodule\..*\.(url|active|branch|path|fetchrecursesubmodules|ignore)|submodule\.(active|recurse)"
    r"|(color|maintenance|pull|push|rerere|advice|index|fetch|pack|feature|status|log|column)\..*"
    r"|gc\.(?!recentobjectshook).*"
    r"|commit\.(gpgsign|verbose|cleanup)|tag\.(gpgsign|sort)|lfs\.repositoryformatversion"
    r"|lfs\..*\.(access|locksverify)"
)

# Bytes of a hook that are read; a longer one counts by its beginning, its size and its time of change.
MAX_HOOK_BYTES: Final = 16 * 1024**2

# The word for a `.git` that is of another repository than before.
REPLACED: Final = ".git (another repository than before)"


class _Trusted(msgspec.Struct, frozen=True, kw_only=True):
    """`folders`: of sessions, each with its repository, or "" without one. `repositories`: their digests, by name."""

    folders: dict[str, str] = {}
    repositories: dict[str, dict[str, str]] = {}


class RepositoryTrust:
    """The digests of all repositories that agents work in, stored in the folder `home`."""

    def __init__(self, home: Path) -> None:
        self._file = LockedJsonFile(home / "repositories.json", _Trusted())

    def remember(self, folder: Path) -> None:
        """Store the digest of a folder's repository, unless there is one: an agent is about to work there."""
        stored = self._file.read()
        repository = _repository_key(folder)
        if folder_key(folder) in stored.folders and (not repository or repository in stored.repositories):
            return
        items = fingerprint(folder) if repository else {}

        def add(current: _Trusted) -> _Trusted:
            folders = {key: value for key, value in current.folders.items() if _may_exist(key)}
            repositories = {key: value for key, value in current.repositories.items() if _may_exist(key)}
            if repository:
                known = _digests(current, folder, repository)
                repositories[repository] = items if known is None else known
            return _Trusted(folders={folder_key(folder): repository, **folders}, repositories=repositories)

        self._file.change(add)

    def trust(self, folder: Path) -> None:
        """Store the digest of a folder's repository as it is now."""
        repository = _repository_key(folder)
        items = fingerprint(folder)

        def replace(current: _Trusted) -> _Trusted:
            folders = {**current.folders, folder_key(folder): repository}
            return _Trusted(folders=folders, repositories={**current.repositories, repository: items})

        self._file.change(replace)

    def changes(self, folder: Path) -> tuple[str, ...]:
        """Return the names of what was changed since agents work there; none where none did."""
        stored = self._file.read()
        repository = _repository_key(folder)
        recorded = stored.folders.get(folder_key(folder))
        trusted = _digests(stored, folder, repository)
        if trusted is None:
            return ()
        items = fingerprint(folder)
        changed = [] if not recorded or recorded == repository else [REPLACED]
        changed += [
            _described(name, trusted, items)
            for name in sorted(trusted.keys() | items.keys())
            if trusted.get(name) != items.get(name)
        ]
        return tuple(changed)

    def changes_in(self, git: UserGit, checkout: Path) -> tuple[str, ...]:
        """Return the names of what a linked work tree of a checkout has that is new, or not as in the checkout before
        agents worked there. It has its own settings, and its own hooks where their folder is in the work tree."""
        trusted = _digests(self._file.read(), checkout, _repository_key(checkout))
        if trusted is None or git.common_dir is None:
            return ()
        items = _fingerprint(git, git.common_dir)
        return tuple(_described(name, trusted, items) for name in sorted(items) if trusted.get(name) != items[name])


def _digests(stored: _Trusted, folder: Path, repository: str) -> dict[str, str] | None:
    """Return the trusted digests of a folder's repository; None where no agent has worked there.

    A repository that appeared in a folder in which agents work is compared with an empty one: `git init` by an
    agent is fine, a hook is not.
    """
    if repository in stored.repositories:
        return stored.repositories[repository]
    is_new = folder_key(folder) in stored.folders or any(Path(repository).is_relative_to(key) for key in stored.folders)
    return {} if is_new else None


def _described(name: str, before: dict[str, str], after: dict[str, str]) -> str:
    return f"{name} (new)" if name not in before else f"{name} (removed)" if name not in after else name


def _repository_key(folder: Path) -> str:
    found = find_repository(Path(os.path.realpath(folder)))
    return folder_key(found[1]) if found is not None else ""


def _may_exist(key: str) -> bool:
    return key.startswith("bytes:") or os.path.isdir(key)


def fingerprint(folder: Path) -> dict[str, str]:
    """Return a digest of each setting, hook and attribute file of a folder's repository that may run a program.

    Raises `GitActionError`.
    """
    found = find_repository(Path(os.path.realpath(folder)))
    if found is None:
        return {}
    root, common_dir = found
    return _fingerprint(UserGit(root), common_dir)


def _fingerprint(git: UserGit, common_dir: Path) -> dict[str, str]:
    root = git.work_tree
    items: dict[str, str] = {}
    try:
        settings = git.run("config", "--list", "--show-scope", "--includes", "-z")
        hooks = git.call("config", "--type=path", "--get", "core.hooksPath")
    except GitError as error:
        raise GitActionError(f"the settings of {root} cannot be read: {error}", stderr=error.stderr) from None
    fields = settings.split(b"\0")
    values: dict[str, list[bytes]] = {}
    for scope, setting in zip(fields[::2], fields[1::2], strict=False):
        name, _, value = setting.partition(b"\n")
        if scope in (b"local", b"worktree") and not _HARMLESS_KEY.fullmatch(key := path_text(name)):
            values.setdefault(f"setting {key}", []).append(value)
    items = {name: _digest(b"\0".join(each)) for name, each in values.items()}
    chosen = os.fsdecode(hooks.stdout.rstrip(b"\n")) if hooks.exit_code == 0 else ""
    hooks_folder = root / chosen if chosen else common_dir / "hooks"
    for path in _files(hooks_folder):
        if path.suffix != ".sample":
            items[f"hook {path_text(os.fsencode(path.relative_to(hooks_folder)))}"] = _file_digest(path)
    # `commondir` in a repository of its own leads git to another one, with other settings and hooks.
    for special in ("info/attributes", "commondir"):
        if os.path.lexists(common_dir / special):
            items[special] = _file_digest(common_dir / special)
    return items


def _files(folder: Path) -> Iterator[Path]:
    """Yield the hooks of a folder. Programs of a hook manager may be in a folder below, such as husky's `_`."""
    try:
        for entry in sorted(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                yield from (each for each in sorted(entry.iterdir()) if not each.is_dir())
            else:
                yield entry
    except OSError:
        return


def _file_digest(path: Path) -> str:
    try:
        with open(path, "rb", opener=open_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):  # reading a FIFO would wait for ever
                return f"no regular file: {status.st_mode:o}"
            data = file.read(MAX_HOOK_BYTES)
    except OSError as error:
        return f"unreadable: {error.errno}"
    late = str((status.st_size, status.st_mtime_ns)) if status.st_size > len(data) else ""
    return _digest(data + f"\0{status.st_mode & 0o111 != 0}{late}".encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
