"""`commit`, `push`: git on the user's repository, as a person would type it, for a session.

Promised: hooks run, and none is skipped. A push is never forced. Nothing asks on a terminal: an action that would have
to fails, and says what to set up. A commit that fails leaves the index as it was. Everything ends after its time, with
all processes that it started.

Blocking: call them in a thread.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from dragoman.errors import GitActionError, InputError
from dragoman.protocol.git import GitCommit, GitPush, GitRemote
from dragoman.workspace.git import GitError
from dragoman.workspace.git_state import (
    Repository,
    StatusEntry,
    push_remote,
    read_remotes,
    read_status,
)
from dragoman.workspace.shadow import path_text
from dragoman.workspace.user_git import GitOutput, Stopper, UserGit

# Seconds for a commit and for a push, with all hooks: test suites run in them.
ACTION_TIMEOUT_S: Final = 600.0

# Characters of a commit message.
MAX_MESSAGE_LENGTH: Final = 100_000

# Characters of what git and hooks wrote that are passed on: the end of it.
MAX_OUTPUT_LENGTH: Final = 20_000

# Variables by which users tell git who they are, and how it reaches remotes.
_USER_VARIABLES: Final = (
    *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
    *("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_COMMAND"),
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
)

# Hooks get the defaults of what we set for ourselves. No program may ask for a password.
_ENVIRONMENT: Final = {
    "GIT_LITERAL_PATHSPECS": "0",
    "GIT_OPTIONAL_LOCKS": "1",
    "GIT_ASKPASS": "",  # empty: not even the one of ssh is asked
    "SSH_ASKPASS_REQUIRE": "never",
}

# Submodules have settings and hooks of their own, which are not looked at.
_CONFIG: Final = ("diff.ignoreSubmodules=dirty",)

_LOGIN_WORDS: Final = (
    "terminal prompts disabled",
    "could not read username",
    "could not read password",
    "authentication failed",
    "permission denied (publickey",
    "host key verification failed",
    "invalid username or password",
    "support for password authentication was removed",
)
_LOGIN_GUIDANCE: Final = (
    "Nobody can be asked for a password here. Set up a credential helper (such as `gh auth setup-git`), or a key in "
    "your ssh agent, and try `git push` in a terminal first."
)


def action_git(repository: Repository, timeout_s: float, stopper: Stopper | None) -> UserGit:
    return UserGit(repository.root, timeout_s=timeout_s, stopper=stopper)


def action_environment() -> dict[str, str]:
    return {**{name: os.environ[name] for name in _USER_VARIABLES if name in os.environ}, **_ENVIRONMENT}


# -- commits


def commit(
    repository: Repository,
    message: str,
    *,
    paths: Sequence[str] | None = None,
    only_staged: bool = False,
    timeout_s: float = ACTION_TIMEOUT_S,
    stopper: Stopper | None = None,
) -> GitCommit:
    """Commit all changes, or those of these paths, or what is staged. Raises `GitActionError` and `InputError`."""
    _check_message(message)
    if paths is not None and only_staged:
        raise InputError("a commit is of paths, or of what is staged, not both")
    git = action_git(repository, timeout_s, stopper)
    try:
        _, entries = read_status(git)
    except GitError as error:
        raise _failed("commit", error) from None
    conflicts = [entry.file.path for entry in entries if entry.file.conflict is not None]
    if conflicts:
        raise GitActionError(
            f"nothing was committed: {len(conflicts)} files are in conflict: {_listed(conflicts)}",
            guidance="Resolve them, or abort the merge, then try again.",
        )
    chosen = choose_entries(entries, paths, repository.root) if paths is not None else entries
    if only_staged:
        chosen = [entry for entry in entries if entry.file.staged is not None]
    has_merge = (repository.git_dir / "MERGE_HEAD").exists()
    if not chosen and not (has_merge and paths is None):
        what = "nothing is staged" if only_staged else "no file differs from the last commit"
        raise GitActionError(f"there is nothing to commit: {what}")
    try:
        return _commit(git, message, chosen, has_paths=paths is not None, only_staged=only_staged)
    except GitError as error:
        raise _failed("commit", error) from None


def _commit(
    git: UserGit, message: str, chosen: Sequence[StatusEntry], *, has_paths: bool, only_staged: bool
) -> GitCommit:
    environment = action_environment()
    before = git.call("rev-parse", "--verify", "--quiet", "HEAD").stdout.strip()
    staged = git.line("write-tree")
    names = _pathspecs([path for entry in chosen for path in (entry.path, entry.old_path) if path is not None])
    # What is staged as it is need not be added, and what is staged as deleted cannot be.
    unstaged = [entry for entry in chosen if entry.file.unstaged is not None or entry.file.is_untracked]
    deleted = [entry.path for entry in unstaged if entry.file.unstaged == "deleted"]
    changed = [entry.path for entry in unstaged if entry.file.unstaged != "deleted"]
    with tempfile.TemporaryDirectory(prefix="dragoman-commit-") as folder:
        file = Path(folder, "message")
        file.write_text(message.strip() + "\n", encoding="utf-8")
        done: GitOutput | None = None
        failure: GitError | None = None
        try:
            if not only_staged:
                git.stage(changed, deleted, env=environment)
            args = ["commit", "--file", str(file)]
            if has_paths:
                args += ["--only", "--pathspec-from-file=-", "--pathspec-file-nul"]
            done = git.call(*args, stdin=names if has_paths else b"", env=environment, config=_CONFIG)
        except GitError as error:
            failure = error
    git = UserGit(git.work_tree)  # whoever stopped the commit wants no half of it
    after = git.call("rev-parse", "--verify", "--quiet", "HEAD").stdout.strip()
    if after == before:
        if not only_staged:
            with suppress(GitError):  # what failed matters more
                git.run("read-tree", staged)
                git.call("update-index", "-q", "--refresh")
        raise failure or _commit_error(done or GitOutput(0, b"", ""))
    line = git.run("log", "-1", "--format=%H%n%s", "--no-show-signature").split(b"\n")
    branch = git.call("symbolic-ref", "--quiet", "--short", "HEAD")
    committed = git.run("diff-tree", "--root", "--no-commit-id", "--name-only", "-r", "-z", "-m", "HEAD")
    return GitCommit(
        commit=line[0].decode(),
        branch=path_text(branch.stdout).rstrip("\n") if branch.exit_code == 0 else None,
        subject=path_text(line[1]),
        file_count=len({name for name in committed.split(b"\0") if name}),
        # A hook that runs after the commit may have failed, or hung: the commit is there.
        output=_output(done) if done is not None else str(failure),
    )


def _pathspecs(paths: Sequence[bytes]) -> bytes:
    return b"\0".join(b":(top,literal)" + path for path in paths)


def _check_message(message: str) -> None:
    if not message.strip():
        raise InputError("the commit message is empty")
    if len(message) > MAX_MESSAGE_LENGTH or "\0" in message:
        raise InputError(f"the commit message has a null character, or more than {MAX_MESSAGE_LENGTH:,} characters")
    try:
        message.encode()
    except UnicodeEncodeError:
        raise InputError("the commit message is not valid Unicode") from None


def choose_entries(entries: Sequence[StatusEntry], paths: Sequence[str], root: Path) -> list[StatusEntry]:
    """Return the changed files at or below these paths. `InputError` for one that has none."""
    chosen: dict[bytes, StatusEntry] = {}
    for path in paths:
        name = os.path.relpath(path, root) if os.path.isabs(path) else os.path.normpath(path)
        found = [entry for entry in entries if name == "." or _is_at(entry, name) or _is_at(entry, path)]
        if not found:
            raise InputError(
                f"nothing differs at {path!r}", guidance="Name paths as `dragoman git status` lists them, or folders."
            )
        chosen.update((entry.path, entry) for entry in found)
    return list(chosen.values())


def _is_at(entry: StatusEntry, name: str) -> bool:
    return any(
        path is not None and (path == name or path.startswith(f"{name}/"))
        for path in (entry.file.path, entry.file.old_path)
    )


def _commit_error(done: GitOutput) -> GitActionError:
    output = _output(done)
    words = output.lower()
    if "nothing to commit" in words or "nothing added to commit" in words:
        return GitActionError("there is nothing to commit: the files are as in the last commit")
    if "please tell me who you are" in words or "unable to auto-detect email address" in words:
        return GitActionError(
            "nothing was committed: git does not know who you are",
            guidance="Set it: git config --global user.name NAME; git config --global user.email ADDRESS",
        )
    if "failed to sign the data" in words or "gpg failed to sign" in words or "signing failed" in words:
        return GitActionError(
            "nothing was committed: the commit could not be signed",
            stderr=output,
            guidance="Unlock your key first, for example by signing something in a terminal, then try again.",
        )
    if "partial commit during" in words:
        return GitActionError(
            "nothing was committed: chosen files cannot be committed in the middle of a merge",
            guidance="Commit all changes, or abort the merge.",
        )
    return GitActionError(
        f"nothing was committed: git commit failed with exit code {done.exit_code}, perhaps by a hook",
        stderr=output,
        guidance="Its output says why. Correct that, and commit again.",
    )


# -- pushes


def push(
    repository: Repository,
    remote: str | None = None,
    *,
    set_upstream: bool | None = None,
    timeout_s: float = ACTION_TIMEOUT_S,
    stopper: Stopper | None = None,
) -> GitPush:
    """Push the branch to the branch of the same name. Raises `GitActionError` and `InputError`.

    `set_upstream`: whether the branch follows the pushed one from now on; by default if it follows none.
    """
    git = action_git(repository, timeout_s, stopper)
    try:
        headers, _ = read_status(git)
        remotes = read_remotes(git)
        branch, commit_id = headers.get("branch.head"), headers.get("branch.oid", "")
        if branch in (None, "(detached)"):
            raise GitActionError(
                "nothing was pushed: HEAD is on no branch", guidance="Create one first: git switch -c NAME"
            )
        assert branch is not None
        if commit_id == "(initial)":
            raise GitActionError(f"nothing was pushed: the branch {branch} has no commit yet")
        upstream = headers.get("branch.upstream")
        target = _choose_remote(git, remotes, branch, upstream, remote)
        if upstream is not None and upstream != f"{target.name}/{branch}" and remote is None and not set_upstream:
            raise GitActionError(
                f"nothing was pushed: {branch} follows {upstream}, a branch of another name or remote",
                guidance=f"To push it to {target.name}/{branch} and follow that: --set-upstream",
            )
        follow = upstream is None if set_upstream is None else set_upstream
        ref = f"refs/heads/{branch}"
        args = ["push", "--porcelain", *(["--set-upstream"] if follow else []), "--", target.name, f"{ref}:{ref}"]
        done = git.call(*args, env=action_environment(), config=("push.recurseSubmodules=no",))
    except GitError as error:
        raise _failed("push", error) from None
    flag = _flag_of(done.stdout, ref)
    if done.exit_code != 0:
        raise _push_error(done, target, branch)
    return GitPush(
        remote=target.name,
        branch=branch,
        commit=commit_id,
        url=target.url,
        is_new=flag == "*",
        is_up_to_date=flag == "=",
        upstream=f"{target.name}/{branch}" if follow else upstream,
        output=done.stderr[-MAX_OUTPUT_LENGTH:].strip(),
    )


def _choose_remote(
    git: UserGit, remotes: Sequence[GitRemote], branch: str, upstream: str | None, name: str | None
) -> GitRemote:
    names = ", ".join(remote.name for remote in remotes)
    if not remotes:
        raise GitActionError(
            "nothing was pushed: the repository has no remote", guidance="Add one: git remote add origin ADDRESS"
        )
    if name is not None:
        for remote in remotes:
            if remote.name == name:
                return remote
        raise InputError(f"there is no remote {name!r}", guidance=f"There are: {names}")
    chosen = push_remote(git, remotes, branch, upstream)
    if chosen is None:
        raise GitActionError(
            f"nothing was pushed: the repository has several remotes: {names}", guidance="Name one: --remote NAME"
        )
    return chosen


def _flag_of(output: bytes, ref: str) -> str:
    """Return the flag of the line for a ref in `git push --porcelain`: `*` new, `=` up to date, `!` rejected."""
    for line in output.decode("utf-8", "replace").splitlines():
        flag, _, rest = line.partition("\t")
        if rest.startswith(f"{ref}:"):
            return flag
    return ""


def _push_error(done: GitOutput, remote: GitRemote, branch: str) -> GitActionError:
    output = _output(done)
    words = output.lower()
    if any(word in words for word in _LOGIN_WORDS):
        return GitActionError(
            f"nothing was pushed: {remote.name} ({remote.url}) did not let you in",
            stderr=output,
            guidance=_LOGIN_GUIDANCE,
        )
    if "(fetch first)" in words or "(non-fast-forward)" in words or "(stale info)" in words:
        return GitActionError(
            f"nothing was pushed: {remote.name} has commits on {branch} that are not here",
            stderr=output,
            guidance=f"Get them first: git pull --rebase {remote.name} {branch}; then push again. It is never forced.",
        )
    if "[remote rejected]" in words:
        return GitActionError(
            f"nothing was pushed: {remote.name} rejected {branch}",
            stderr=output,
            guidance="Its message says why: the branch may be protected, or a check of the remote failed.",
        )
    return GitActionError(
        f"nothing was pushed: git push failed with exit code {done.exit_code}",
        stderr=output,
        guidance="Its output says why: the remote may not be reachable, or a hook of yours stopped it.",
    )


# -- both


def _output(done: GitOutput) -> str:
    """Return what a command and its hooks wrote."""
    parts = (path_text(done.stdout), done.stderr)
    return "\n".join(part.strip() for part in parts if part.strip())[-MAX_OUTPUT_LENGTH:]


def _failed(name: str, error: GitError) -> GitActionError:
    """Return the error of a command that did not come to its end, or of one that prepares the action."""
    guidance = "A hook may hang, or wait for an answer that nobody can give." if error.exit_code is None else ""
    return GitActionError(f"the {name} failed: {error}", stderr=error.stderr, guidance=guidance)


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
