"""`GitActions`: the state of a session's repository, commits, pushes and pull requests, for programs (`session.git`).

Before an action, it is refused while an agent is at work in the files (a commit only), and where settings or hooks of
the repository were changed since agents work there; the caller may insist. After it, a note in the session says what
was done. The agent is not told.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from dragoman.errors import DragomanError, GitActionError, InputError
from dragoman.protocol.git import GitCommit, GitPush, GitState, ProposedMessage, PullRequest, PullRequestProgram
from dragoman.record import notes
from dragoman.workspace import git_actions, pull_request
from dragoman.workspace.commit_diff import ChangesText, describe_changes
from dragoman.workspace.git_state import Repository, open_repository, read_state
from dragoman.workspace.git_trust import RepositoryTrust
from dragoman.workspace.user_git import Stopper

T = TypeVar("T")

logger = logging.getLogger(__name__)


class GitPort(Protocol):
    """Git in the repository of a session on this machine (`GitActions`), or on a server."""

    async def state(self) -> GitState: ...
    async def commit(
        self,
        message: str,
        *,
        paths: Sequence[str] | None = None,
        only_staged: bool = False,
        while_running: bool = False,
        trust_repository: bool = False,
    ) -> GitCommit: ...
    async def push(
        self, remote: str | None = None, *, set_upstream: bool | None = None, trust_repository: bool = False
    ) -> GitPush: ...
    async def open_pull_request(
        self,
        title: str | None = None,
        body: str = "",
        *,
        base: str | None = None,
        draft: bool = False,
        remote: str | None = None,
        program: PullRequestProgram | None = None,
        trust_repository: bool = False,
    ) -> PullRequest: ...
    async def propose_message(
        self, *, paths: Sequence[str] | None = None, only_staged: bool = False
    ) -> ProposedMessage: ...


class GitActions:
    """Git in the repository of `folder`.

    `home` is our own folder, where trusted repositories are recorded; without it, nothing is checked. `note` records
    what was done. `running` returns the ids of sessions whose agents are at work in a repository. `propose` has an
    agent write a message for changes. `is_hidden` tells whether it may not see the lines of a file.
    """

    def __init__(
        self,
        folder: Path,
        home: Path | None,
        *,
        note: Callable[[notes.GitAction], Awaitable[None]],
        running: Callable[[Repository], Awaitable[Sequence[str]]],
        propose: Callable[[ChangesText], Awaitable[str]] | None = None,
        is_hidden: Callable[[Path], bool] = lambda path: False,
    ) -> None:
        self._folder = folder
        self._trust = RepositoryTrust(home) if home is not None else None
        self._note = note
        self._running = running
        self._propose = propose
        self._is_hidden = is_hidden

    async def state(self) -> GitState:
        """Return the branch, its upstream, and the files that differ. Nothing is changed, and no hook runs."""
        repository = await asyncio.to_thread(open_repository, self._folder)
        running = await self._running(repository)

        def read() -> GitState:
            untrusted = self._trust.changes(self._folder) if self._trust is not None else ()
            state = read_state(repository)
            return msgspec.structs.replace(state, untrusted=untrusted, running=tuple(running))

        return await asyncio.to_thread(read)

    async def commit(
        self,
        message: str,
        *,
        paths: Sequence[str] | None = None,
        only_staged: bool = False,
        while_running: bool = False,
        trust_repository: bool = False,
    ) -> GitCommit:
        """Commit all changes; or those at or below `paths`, relative to the work tree; or what is staged.

        Hooks run. `GitActionError` says why nothing was committed: the index is then as it was. `while_running`: also
        while an agent is at work in these files. `trust_repository`: settings and hooks of the repository may run
        although they were changed since agents work there; from now on they are trusted.
        """
        repository = await self._checked_repository("commit", trust_repository)
        running = () if while_running else await self._running(repository)
        if running:
            raise GitActionError(
                f"nothing was committed: an agent is at work in these files (session {', '.join(running)})",
                guidance="Wait for it or cancel it; or commit what is there: --while-running",
            )
        done = await _stoppable(partial(git_actions.commit, repository, message, paths=paths, only_staged=only_staged))
        note = notes.GitAction("commit", done.branch, done.commit, done.subject[:500], file_count=done.file_count)
        await self._record(note)
        return done

    async def push(
        self, remote: str | None = None, *, set_upstream: bool | None = None, trust_repository: bool = False
    ) -> GitPush:
        """Push the branch to the branch of the same name, never by force.

        `remote`: by default the one that the branch is configured for, the only one, or `origin`. `set_upstream`:
        whether the branch follows the pushed one from now on; by default if it follows none.
        """
        repository = await self._checked_repository("push", trust_repository)
        done = await _stoppable(partial(git_actions.push, repository, remote, set_upstream=set_upstream))
        if not done.is_up_to_date:
            await self._record(notes.GitAction("push", done.branch, done.commit, remote=done.remote, url=done.url))
        return done

    async def open_pull_request(
        self,
        title: str | None = None,
        body: str = "",
        *,
        base: str | None = None,
        draft: bool = False,
        remote: str | None = None,
        program: PullRequestProgram | None = None,
        trust_repository: bool = False,
    ) -> PullRequest:
        """Open a pull request for the pushed branch by `gh` or `glab`, or return the one that is open.

        `title`: by default the subject of the last commit. `base`: by default the remote's default branch. `program`:
        for a host that neither program is known for.
        """
        repository = await self._checked_repository("pull request", trust_repository)
        done = await _stoppable(
            partial(
                pull_request.open_pull_request,
                repository,
                title,
                body,
                base=base,
                draft=draft,
                remote=remote,
                program=program,
            )
        )
        if done.is_new:
            await self._record(notes.GitAction("pull_request", done.branch, subject=done.title, url=done.url))
        return done

    async def propose_message(
        self, *, paths: Sequence[str] | None = None, only_staged: bool = False
    ) -> ProposedMessage:
        """Have the agent propose a message for what `commit` with the same arguments would commit.

        It is asked in a session of its own, which is not stored, without tools: this conversation stays as it is.
        """
        if self._propose is None:
            raise InputError("there is no agent that could propose a message")
        repository = await asyncio.to_thread(open_repository, self._folder)
        changes = await asyncio.to_thread(
            describe_changes, repository, paths=paths, only_staged=only_staged, is_hidden=self._is_hidden
        )
        message = await self._propose(changes)
        return ProposedMessage(message=message, hidden_paths=changes.hidden_paths, is_shortened=changes.is_shortened)

    async def _checked_repository(self, action: str, trust_repository: bool) -> Repository:
        """Return the repository; refuse the action where its settings or hooks were changed, and nobody trusts them."""

        def check() -> Repository:
            repository = open_repository(self._folder)
            if self._trust is None:
                return repository
            if trust_repository:
                self._trust.trust(self._folder)
            elif changes := self._trust.changes(self._folder):
                listed = ", ".join(changes[:10]) + (f" and {len(changes) - 10} more" if len(changes) > 10 else "")
                raise GitActionError(
                    f"no {action}: settings or hooks of the repository were changed since agents work there: {listed}",
                    guidance=f"Git would run them. Look at them in {path_of(repository)}; then --trust-repository",
                )
            else:
                self._trust.remember(self._folder)
            return repository

        return await asyncio.to_thread(check)

    async def _record(self, note: notes.GitAction) -> None:
        try:
            await self._note(note)
        except DragomanError as error:
            logger.warning("the %s is done, but the session has no note of it: %s", note.action, error)


async def remember_repository(home: Path, folder: Path) -> None:
    """Record the settings and hooks of a folder's repository, before an agent works there for the first time."""
    try:
        await asyncio.to_thread(RepositoryTrust(home).remember, folder)
    except DragomanError as error:  # without git, too; the actions report it
        logger.info("the repository of %s is not recorded: %s", folder, error)


def path_of(repository: Repository) -> str:
    return os.fsencode(repository.common_dir).decode("utf-8", "backslashreplace")


async def _stoppable(action: Callable[..., T]) -> T:
    """Run an action of git in a thread; end its processes where the caller is cancelled."""
    stopper = Stopper()
    work = asyncio.get_running_loop().run_in_executor(None, partial(action, stopper=stopper))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.to_thread(stopper.stop)
        await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # retrieved: the cancellation counts
        raise
