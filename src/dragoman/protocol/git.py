"""The state of a git repository, and the results of commits, pushes and pull requests, for programs and clients.

Paths are relative to the work tree (`root`). A byte of a name or a message that is not UTF-8 is written as `\\xff`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from dragoman.protocol.models import Model

GitChange: TypeAlias = Literal["added", "modified", "deleted", "renamed", "copied", "type changed"]
GitOperation: TypeAlias = Literal["merge", "rebase", "cherry-pick", "revert", "bisect"]
PullRequestProgram: TypeAlias = Literal["gh", "glab"]


class GitFile(Model, frozen=True, kw_only=True):
    """A file that differs from the last commit.

    `staged`: how it differs in the index; `unstaged`: how the file itself differs from the index. A file in conflict
    has neither, and `conflict` says how: "both modified", "deleted by us".
    """

    path: str
    staged: GitChange | None = None
    unstaged: GitChange | None = None
    is_untracked: bool = False
    conflict: str | None = None
    old_path: str | None = None  # of a renamed or copied file


class GitRemote(Model, frozen=True, kw_only=True):
    """A remote repository. `url` is where pushes go, without a password; `host` is None for a folder."""

    name: str
    url: str
    host: str | None = None
    program: PullRequestProgram | None = None  # the program that opens pull requests there, installed or not


class GitState(Model, frozen=True, kw_only=True):
    """The branch and the files of a repository.

    `branch` is None where HEAD is detached, `commit` None before the first commit. `ahead` and `behind` count commits
    against the upstream, as of the last fetch; None without one. `files` are the first of `file_count`.
    """

    root: str
    branch: str | None
    commit: str | None
    subject: str | None = None  # of the last commit
    upstream: str | None = None  # such as origin/main
    ahead: int | None = None
    behind: int | None = None
    default_branch: str | None = None  # of the remote, as far as the last clone or fetch told
    operation: GitOperation | None = None  # one that was begun, and waits to be continued or aborted
    is_linked: bool = False  # this is a linked work tree (`git worktree`)
    files: tuple[GitFile, ...] = ()
    file_count: int = 0
    staged_count: int = 0
    unstaged_count: int = 0
    untracked_count: int = 0
    conflict_count: int = 0
    remotes: tuple[GitRemote, ...] = ()
    program: PullRequestProgram | None = None  # the installed program that opens pull requests on the branch's remote
    untrusted: tuple[str, ...] = ()  # what was changed in the repository's settings and hooks since agents work there
    running: tuple[str, ...] = ()  # the ids of sessions whose agents are at work in these files


class GitCommit(Model, frozen=True, kw_only=True):
    """A commit that was made. `output` is what git and its hooks wrote."""

    commit: str
    branch: str | None  # None: HEAD is detached
    subject: str
    file_count: int
    output: str = ""


class GitPush(Model, frozen=True, kw_only=True):
    """A branch that was pushed. `output` is what git, its hooks and the remote wrote."""

    remote: str
    branch: str
    commit: str
    url: str  # without a password
    is_new: bool = False  # the remote did not have the branch before
    is_up_to_date: bool = False  # there was nothing to push
    upstream: str | None = None  # what the branch follows from now on
    output: str = ""


class PullRequest(Model, frozen=True, kw_only=True):
    """A pull request (or merge request), opened now, or found open already (`is_new` is False)."""

    url: str
    program: PullRequestProgram
    branch: str
    base: str | None = None
    title: str = ""
    is_new: bool = True


class ProposedMessage(Model, frozen=True, kw_only=True):
    """A commit message that the agent proposes. `hidden_paths`: files whose lines it was not shown, by a rule."""

    message: str
    hidden_paths: tuple[str, ...] = ()
    is_shortened: bool = False  # the difference was too long to be shown to the agent as a whole
