"""`open_pull_request`: a pull request on GitHub (by `gh`) or a merge request on GitLab (by `glab`).

These programs have the user's login, and are used as they are installed. Nothing that a client writes becomes an option
of theirs. A pull request that is open already is found, and not opened again.

Blocking: call it in a thread.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from dragoman.errors import GitActionError, InputError
from dragoman.protocol.git import GitRemote, PullRequest, PullRequestProgram
from dragoman.workspace.git import GitError
from dragoman.workspace.git_actions import action_environment, action_git
from dragoman.workspace.git_state import (
    Repository,
    parse_remote_url,
    push_remote,
    read_default_branch,
    read_remotes,
    read_status,
)
from dragoman.workspace.user_git import GitOutput, Stopper, UserGit, run_program

# Seconds for each call of gh or glab, which talk to their server.
PROGRAM_TIMEOUT_S: Final = 120.0

MAX_TITLE_LENGTH: Final = 1_000

# Characters. GitHub takes 65,536; glab gets it as an argument.
MAX_BODY_LENGTH: Final = 60_000

_INSTALL: Final = {
    "gh": "Install the GitHub CLI (https://cli.github.com) and log in: gh auth login",
    "glab": "Install the GitLab CLI (https://gitlab.com/gitlab-org/cli) and log in: glab auth login",
}

# They never ask, and their output has no colours.
_ENVIRONMENT: Final = {
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GLAB_NO_PROMPT": "1",
    "NO_PROMPT": "1",
    "GLAB_CHECK_UPDATE": "false",
    "NO_COLOR": "1",
    "GH_PAGER": "cat",
    "PAGER": "cat",
    "EDITOR": "false",
    "VISUAL": "false",
}


class _GitHubItem(msgspec.Struct, rename={"base": "baseRefName"}):
    url: str
    title: str = ""
    base: str | None = None


class _GitLabItem(msgspec.Struct):
    web_url: str
    title: str = ""
    target_branch: str | None = None


_Item = TypeVar("_Item", _GitHubItem, _GitLabItem)


class _Target(msgspec.Struct, frozen=True, kw_only=True):
    """A branch on a remote, and where a pull request for it goes."""

    program: PullRequestProgram
    remote: GitRemote
    branch: str
    host: str
    path: str

    @property
    def repository(self) -> str:
        """The repository as the program wants it: gh as HOST/OWNER/NAME, glab by its address."""
        return f"{self.host}/{self.path}" if self.program == "gh" else f"https://{self.host}/{self.path}"

    def page(self, base: str | None) -> str | None:
        """Return the page on which a person can open it; None where the host is only a name of ssh's configuration."""
        if "." not in self.host:
            return None
        if self.program == "gh":
            head = quote(self.branch, safe="/")
            compared = f"{quote(base, safe='/')}...{head}" if base else head
            return f"https://{self.host}/{self.path}/compare/{compared}?expand=1"
        query = {"merge_request[source_branch]": self.branch}
        if base:
            query["merge_request[target_branch]"] = base
        return f"https://{self.host}/{self.path}/-/merge_requests/new?{urlencode(query)}"


def open_pull_request(
    repository: Repository,
    title: str | None = None,
    body: str = "",
    *,
    base: str | None = None,
    draft: bool = False,
    remote: str | None = None,
    program: PullRequestProgram | None = None,
    timeout_s: float = PROGRAM_TIMEOUT_S,
    stopper: Stopper | None = None,
) -> PullRequest:
    """Open a pull request for the branch, or find the one that is open. Raises `GitActionError` and `InputError`.

    `title`: by default the subject of the last commit. `base`: the branch that it goes to, by default that of the
    remote. `program`: for a host that neither program is known for.
    """
    git = action_git(repository, timeout_s, stopper)
    try:
        target = _target(git, remote, program)
        title = title if title is not None else git.line("log", "-1", "--format=%s", "--no-show-signature")
        default = read_default_branch(git, target.remote.name)
    except GitError as error:
        raise GitActionError(f"no pull request was opened: {error}", stderr=error.stderr) from None
    _check_texts(title, body, base)
    if (base or default) == target.branch:
        raise GitActionError(
            f"no pull request was opened: {target.branch} is the branch that it would go to",
            guidance="Commit on a branch of its own: git switch -c NAME",
        )
    if shutil.which(target.program) is None:
        page = target.page(base or default)
        raise GitActionError(
            f"no pull request was opened: {target.program} is not installed",
            guidance="\n".join([_INSTALL[target.program], *([f"Or open it in a browser: {page}"] if page else [])]),
        )
    runner = _Runner(git, target, timeout_s)
    found = runner.find_open()
    return found or runner.create(title, body, base, draft=draft)


def _check_texts(title: str, body: str, base: str | None) -> None:
    if not title.strip() or len(title) > MAX_TITLE_LENGTH or "\n" in title or "\0" in title:
        raise InputError(f"the title of a pull request is one line of 1 to {MAX_TITLE_LENGTH:,} characters")
    if len(body) > MAX_BODY_LENGTH or "\0" in body:
        raise InputError(f"the text of a pull request has at most {MAX_BODY_LENGTH:,} characters")
    if base is not None and (not base or base.startswith("-") or any(ord(char) <= 32 for char in base)):
        raise InputError(f"{base!r} is not the name of a branch")


def _target(git: UserGit, remote_name: str | None, program: PullRequestProgram | None) -> _Target:
    headers, _ = read_status(git)
    branch, upstream = headers.get("branch.head"), headers.get("branch.upstream")
    if branch in (None, "(detached)"):
        raise GitActionError(
            "no pull request was opened: HEAD is on no branch", guidance="Create one first: git switch -c NAME"
        )
    assert branch is not None
    remotes = read_remotes(git)
    if remote_name is not None:
        remote = next((each for each in remotes if each.name == remote_name), None)
        if remote is None:
            raise InputError(f"there is no remote {remote_name!r}")
    else:
        remote = push_remote(git, remotes, branch, upstream)
    if remote is None:
        raise GitActionError(
            "no pull request was opened: it is not clear which remote it is for"
            if remotes
            else "no pull request was opened: the repository has no remote",
            guidance="Name one: --remote NAME" if remotes else "Add one: git remote add origin ADDRESS",
        )
    chosen = program or remote.program
    configured = git.call("config", "--get", f"remote.{remote.name}.url").stdout
    host, path = parse_remote_url(os.fsdecode(configured).rstrip("\n"))
    if chosen is None or host is None or not path:
        raise GitActionError(
            f"no pull request was opened: {remote.name} ({remote.url}) is neither on GitHub nor on GitLab",
            guidance="If it is, on a host of its own, name the program: --with gh, or --with glab.",
        )
    pushed = git.call("rev-parse", "--verify", "--quiet", f"refs/remotes/{remote.name}/{branch}").stdout.strip()
    if not pushed:
        raise GitActionError(
            f"no pull request was opened: {branch} was not pushed to {remote.name} yet",
            guidance="Push it first: dragoman git push, or --push",
        )
    if pushed.decode() != headers.get("branch.oid"):
        raise GitActionError(
            f"no pull request was opened: {branch} differs from {remote.name}/{branch}",
            guidance="Push it first: dragoman git push, or --push",
        )
    return _Target(program=chosen, remote=remote, branch=branch, host=host, path=path)


class _Runner:
    def __init__(self, git: UserGit, target: _Target, timeout_s: float) -> None:
        self._git = git
        self._target = target
        self._timeout_s = timeout_s

    def find_open(self) -> PullRequest | None:
        target = self._target
        if target.program == "gh":
            done = self._run(
                *("pr", "list", f"--repo={target.repository}", f"--head={target.branch}", "--state=open"),
                *("--limit=1", "--json=url,title,baseRefName"),
            )
            for item in self._decode(done, list[_GitHubItem]):
                return self._found(item.url, item.title, item.base)
            return None
        done = self._run(
            "mr", "list", f"--repo={target.repository}", f"--source-branch={target.branch}", "--output=json"
        )
        for merge_request in self._decode(done, list[_GitLabItem]):
            return self._found(merge_request.web_url, merge_request.title, merge_request.target_branch)
        return None

    def _found(self, url: str, title: str, base: str | None) -> PullRequest:
        target = self._target
        return PullRequest(url=url, program=target.program, branch=target.branch, base=base, title=title, is_new=False)

    def create(self, title: str, body: str, base: str | None, *, draft: bool) -> PullRequest:
        target = self._target
        if target.program == "gh":
            args = ["pr", "create", f"--repo={target.repository}", f"--head={target.branch}", f"--title={title}"]
            args += ["--body-file=-", *([f"--base={base}"] if base else []), *(["--draft"] if draft else [])]
            done = self._run(*args, stdin=body.encode("utf-8", "replace"))
        else:
            args = [
                "mr",
                "create",
                f"--repo={target.repository}",
                f"--source-branch={target.branch}",
                f"--title={title}",
            ]
            description = f"{body}\n" if body == "-" else body  # a bare dash is for its editor
            args += [f"--description={description}", *([f"--target-branch={base}"] if base else [])]
            done = self._run(*args, *(["--draft"] if draft else []), "--yes")
        words = done.stdout.decode("utf-8", "replace").split()
        url = next((word for word in reversed(words) if word.startswith(("https://", "http://"))), None)
        if url is None:
            raise GitActionError(
                f"{target.program} says that it opened a pull request, but not where",
                stderr=_output(done),
                guidance="Look at the page of the repository.",
            )
        return PullRequest(url=url, program=target.program, branch=target.branch, base=base, title=title)

    def _run(self, *args: str, stdin: bytes = b"") -> GitOutput:
        program = self._target.program
        path = shutil.which(program)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        environment |= action_environment() | _ENVIRONMENT
        try:
            done = run_program(
                [path or program, *args],
                cwd=self._git.work_tree,
                env=environment,
                stdin=stdin,
                timeout_s=self._timeout_s,
                stopper=self._git.stopper,
            )
        except GitError as error:
            raise GitActionError(f"no pull request was opened: {error}", stderr=error.stderr) from None
        if done.exit_code != 0:
            raise self._error(done, args)
        return done

    def _error(self, done: GitOutput, args: Sequence[str]) -> GitActionError:
        program, output = self._target.program, _output(done)
        words = output.lower()
        if "auth login" in words or "authentication" in words or "401" in words:
            return GitActionError(
                f"no pull request was opened: {program} is not logged in to {self._target.host}",
                stderr=output,
                guidance=f"Log in: {program} auth login --hostname {self._target.host}",
            )
        return GitActionError(
            f"no pull request was opened: {program} {' '.join(args[:2])} failed with exit code {done.exit_code}",
            stderr=output,
            guidance="Its output says why.",
        )

    def _decode(self, done: GitOutput, kind: type[list[_Item]]) -> list[_Item]:
        if not done.stdout.strip():
            return []
        try:
            return msgspec.json.decode(done.stdout, type=kind)
        except msgspec.MsgspecError:
            return []  # another version of the program; `create` reports one that exists


def _output(done: GitOutput) -> str:
    parts = (done.stdout.decode("utf-8", "replace"), done.stderr)
    return "\n".join(part.strip() for part in parts if part.strip())[-20_000:]
