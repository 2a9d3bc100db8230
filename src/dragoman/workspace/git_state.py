"""`read_state`: the branch and the files of the user's repository, read with `git status` and a few plain files.

Promised: nothing is changed, not even the index, and no program of the repository's configuration runs: no hook, no
file-system monitor, and no filter of the repository's own configuration. Changes inside submodules are not looked at,
only whether they are at another commit: looking would mean running git with the configuration in there.

Blocking: call it in a thread.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from dragoman.errors import GitActionError
from dragoman.protocol.git import GitChange, GitFile, GitOperation, GitRemote, GitState, PullRequestProgram
from dragoman.workspace.git import GitError
from dragoman.workspace.shadow import path_text
from dragoman.workspace.user_git import UserGit

# Files that a state lists; it counts all.
MAX_FILES: Final = 500

# Read as data, nothing in a repository may start a program.
SAFE_CONFIG: Final = ("core.hooksPath=/dev/null", "diff.ignoreSubmodules=dirty", "status.relativePaths=false")

# Keys of a repository's configuration that name a filter's program, to be switched off when files are only looked at.
_FILTER_KEY: Final = re.compile(r"filter\..*\.(clean|smudge|process|required)")

_CHANGES: Final[dict[str, GitChange]] = {
    "A": "added",
    "M": "modified",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type changed",
}
_CONFLICTS: Final = {
    "DD": "both deleted",
    "AU": "added by us",
    "UD": "deleted by them",
    "UA": "added by them",
    "DU": "deleted by us",
    "AA": "both added",
    "UU": "both modified",
}

# Files of a repository that say what was begun, in the order in which git itself looks.
_OPERATIONS: Final[tuple[tuple[str, GitOperation], ...]] = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)

# `user@host:path`, as ssh takes it; not `C:\…`.
_SCP_URL: Final = re.compile(r"(?:(?P<user>[^@/:]+)@)?(?P<host>[^/:@]{2,}):(?P<path>(?!//).+)")


class ReadingGit(UserGit):
    """Git that only looks. In a partial clone it fetches nothing: that would run what the repository names."""

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}


class StatusEntry(NamedTuple):
    """A changed file with the bytes of its name."""

    file: GitFile
    path: bytes
    old_path: bytes | None = None


class Repository(NamedTuple):
    """The repository of a folder: its work tree, the folder of this work tree, and the one that all share."""

    root: Path
    git_dir: Path
    common_dir: Path


def open_repository(folder: Path) -> Repository:
    """Find the repository that a folder is in. `GitActionError` where it is in none."""
    try:
        lines = UserGit(folder).run(
            "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir"
        )
    except GitError as error:
        if "not a git repository" in error.stderr:
            raise GitActionError(f"{folder} is in no git repository", guidance="Create one: git init") from None
        raise GitActionError(f"the repository of {folder} cannot be opened: {error}", stderr=error.stderr) from None
    root, git_dir, common_dir = (Path(os.path.realpath(os.fsdecode(line))) for line in lines.splitlines())
    return Repository(root, git_dir, common_dir)


def read_status(git: UserGit) -> tuple[dict[str, str], list[StatusEntry]]:
    """Return the headers of `git status` (branch, upstream, …) and the changed files. Raises `GitError`."""
    output = git.run(
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        "--untracked-files=all",
        "--ignore-submodules=dirty",
        "--renames",
        config=(*SAFE_CONFIG, *without_filters(git)),
    )
    return parse_status(output)


def without_filters(git: UserGit) -> list[str]:
    """Return settings that switch off the filters of the repository's own configuration."""
    listed = git.call("config", "--list", "--name-only", "--show-scope", "--includes", "-z")
    fields = listed.stdout.decode("utf-8", "surrogateescape").split("\0")
    settings = []
    for scope, key in zip(fields[::2], fields[1::2], strict=False):
        if scope in ("local", "worktree") and _FILTER_KEY.fullmatch(key):
            settings.append(f"{key}={'false' if key.endswith('.required') else ''}")
    return settings


def parse_status(output: bytes) -> tuple[dict[str, str], list[StatusEntry]]:
    """Read the output of `git status --porcelain=v2 -z --branch`. What is unknown in it is left out."""
    headers: dict[str, str] = {}
    entries: list[StatusEntry] = []
    records = iter(output.split(b"\0"))
    for record in records:
        kind, _, rest = record.partition(b" ")
        if kind == b"#":
            name, _, value = rest.partition(b" ")
            headers[name.decode("utf-8", "replace")] = path_text(value)
        elif kind == b"?":
            entries.append(StatusEntry(GitFile(path=path_text(rest), is_untracked=True), rest))
        elif kind == b"1" and len(fields := rest.split(b" ", 7)) == 8:
            staged, unstaged = _letters(fields[0])
            file = GitFile(path=path_text(fields[7]), staged=staged, unstaged=unstaged)
            entries.append(StatusEntry(file, fields[7]))
        elif kind == b"2" and len(fields := rest.split(b" ", 8)) == 9:
            staged, unstaged = _letters(fields[0])
            old = next(records, b"")
            file = GitFile(path=path_text(fields[8]), old_path=path_text(old), staged=staged, unstaged=unstaged)
            entries.append(StatusEntry(file, fields[8], old))
        elif kind == b"u" and len(fields := rest.split(b" ", 9)) == 10:
            conflict = _CONFLICTS.get(fields[0].decode("ascii", "replace"), "in conflict")
            entries.append(StatusEntry(GitFile(path=path_text(fields[9]), conflict=conflict), fields[9]))
    return headers, entries


def _letters(letters: bytes) -> tuple[GitChange | None, GitChange | None]:
    text = letters.decode("ascii", "replace")
    return _CHANGES.get(text[:1]), _CHANGES.get(text[1:])


def read_state(repository: Repository) -> GitState:
    """Read the state of a repository. Raises `GitActionError`."""
    git = ReadingGit(repository.root)
    try:
        headers, entries = read_status(git)
        remotes = read_remotes(git)
        branch = _known(headers.get("branch.head"), "(detached)")
        upstream = headers.get("branch.upstream")
        commit = _known(headers.get("branch.oid"), "(initial)")
        subject = None if commit is None else path_text(git.run("log", "-1", "--format=%s", "--no-show-signature"))
        remote = push_remote(git, remotes, branch, upstream)
        default = None if remote is None else read_default_branch(git, remote.name)
    except GitError as error:
        raise GitActionError(f"the state of {repository.root} cannot be read: {error}", stderr=error.stderr) from None
    ahead, behind = _ahead_and_behind(headers.get("branch.ab"))
    files = [entry.file for entry in entries]
    program = remote.program if remote is not None else None
    return GitState(
        root=path_text(os.fsencode(repository.root)),
        branch=branch,
        commit=commit,
        subject=None if subject is None else subject.rstrip("\n"),
        upstream=upstream,
        ahead=ahead,
        behind=behind,
        default_branch=default,
        operation=_operation(repository.git_dir),
        is_linked=repository.git_dir != repository.common_dir,
        files=tuple(files[:MAX_FILES]),
        file_count=len(files),
        staged_count=sum(file.staged is not None for file in files),
        unstaged_count=sum(file.unstaged is not None for file in files),
        untracked_count=sum(file.is_untracked for file in files),
        conflict_count=sum(file.conflict is not None for file in files),
        remotes=tuple(remotes),
        program=program if program is not None and shutil.which(program) else None,
    )


def _known(value: str | None, unknown: str) -> str | None:
    return None if value in (None, unknown) else value


def _ahead_and_behind(value: str | None) -> tuple[int | None, int | None]:
    found = re.fullmatch(r"\+(\d+) -(\d+)", value or "")
    return (int(found[1]), int(found[2])) if found else (None, None)


def _operation(git_dir: Path) -> GitOperation | None:
    return next((operation for name, operation in _OPERATIONS if (git_dir / name).exists()), None)


# -- remotes


def read_remotes(git: UserGit) -> list[GitRemote]:
    """Return the remotes, in the order of their names. Raises `GitError`."""
    remotes = []
    for line in git.run("remote").splitlines():
        name = path_text(line)
        # With the user's `insteadOf` and `pushurl`: this is where a push goes.
        done = git.call("remote", "get-url", "--push", "--", os.fsdecode(line))
        push_url = path_text(done.stdout.splitlines()[0]) if done.exit_code == 0 and done.stdout.strip() else ""
        # The address of the page is that of the configuration: pushes may go through a mirror.
        listed = git.call("config", "--get", f"remote.{os.fsdecode(line)}.url")
        host = parse_remote_url(path_text(listed.stdout.rstrip(b"\n")))[0]
        host = host or parse_remote_url(push_url)[0]
        remotes.append(GitRemote(name=name, url=without_password(push_url), host=host, program=program_for(host)))
    return remotes


def read_default_branch(git: UserGit, remote: str) -> str | None:
    """Return the default branch of a remote, as the last clone or `git remote set-head` recorded it."""
    done = git.call("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD")
    prefix = f"refs/remotes/{remote}/"
    name = path_text(done.stdout).rstrip("\n") if done.exit_code == 0 else ""
    return name.removeprefix(prefix) if name.startswith(prefix) else None


def push_remote(
    git: UserGit, remotes: Sequence[GitRemote], branch: str | None, upstream: str | None
) -> GitRemote | None:
    """Return the remote that a push of the branch goes to: by its configuration, else the only one, else `origin`."""
    by_name = {remote.name: remote for remote in remotes}
    keys = [] if branch is None else [f"branch.{branch}.pushRemote"]
    keys += ["remote.pushDefault", *([] if branch is None else [f"branch.{branch}.remote"])]
    for key in keys:
        done = git.call("config", "--get", key)
        if done.exit_code == 0 and (remote := by_name.get(path_text(done.stdout).rstrip("\n"))) is not None:
            return remote
    return remotes[0] if len(remotes) == 1 else by_name.get("origin")


def parse_remote_url(url: str) -> tuple[str | None, str]:
    """Return the host, in lower case, and the path of a remote's address; no host for a folder."""
    if "://" in url:
        try:
            parts = urlsplit(url)
            host = parts.hostname
        except ValueError:
            return None, ""
        return (host, _repository_path(parts.path)) if parts.scheme != "file" else (None, "")
    found = _SCP_URL.fullmatch(url)
    return (found["host"].lower(), _repository_path(found["path"])) if found else (None, "")


def _repository_path(path: str) -> str:
    return path.strip("/").removesuffix(".git")


def without_password(url: str) -> str:
    """Return an address without the user and password in it."""
    if "://" not in url:
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.rpartition("@")[2]
    _, at, host = parts.netloc.rpartition("@")
    keeps_user = parts.scheme == "ssh" and ":" not in parts.netloc.rpartition("@")[0]
    return url if not at or keeps_user else urlunsplit(parts._replace(netloc=host))


def program_for(host: str | None) -> PullRequestProgram | None:
    """Return the program that opens pull requests at a host: by its name, or because it is logged in there."""
    if host is None:
        return None
    names: tuple[tuple[str, PullRequestProgram], ...] = (("github", "gh"), ("gitlab", "glab"))
    for word, program in names:
        if word in host:
            return program
    config_home = Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))
    files: tuple[tuple[Path, PullRequestProgram], ...] = (
        (Path(os.environ.get("GH_CONFIG_DIR") or config_home / "gh") / "hosts.yml", "gh"),
        (Path(os.environ.get("GLAB_CONFIG_DIR") or config_home / "glab-cli") / "config.yml", "glab"),
    )
    for path, program in files:
        try:
            lines = path.read_text(errors="replace").splitlines()
        except OSError:
            continue
        if any(line.strip() == f"{host}:" for line in lines):
            return program
    return None
