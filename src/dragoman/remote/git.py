"""`RemoteGit`: git in the repository of a session on a server (`RemoteSession.git`). Actions need the scope `admin`."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.protocol import requests
from dragoman.protocol.git import GitCommit, GitPush, GitState, ProposedMessage, PullRequest, PullRequestProgram
from dragoman.remote.connection import ServerConnection


class RemoteGit:
    """The methods of `dragoman.session.git.GitActions`, carried out by the server."""

    def __init__(self, connection: ServerConnection, session_id: str) -> None:
        self._connection = connection
        self._session_id = session_id

    async def state(self) -> GitState:
        """Return the branch, its upstream, and the files that differ."""
        return await self._connection.call(requests.GitReadState(session_id=self._session_id))

    async def commit(
        self,
        message: str,
        *,
        paths: Sequence[str] | None = None,
        only_staged: bool = False,
        while_running: bool = False,
        trust_repository: bool = False,
    ) -> GitCommit:
        """Commit all changes, or those at or below `paths`, or what is staged."""
        request = requests.GitCommitChanges(
            session_id=self._session_id,
            message=message,
            paths=None if paths is None else tuple(paths),
            only_staged=only_staged,
            while_running=while_running,
            trust_repository=trust_repository,
        )
        return await self._connection.call(request)

    async def push(
        self, remote: str | None = None, *, set_upstream: bool | None = None, trust_repository: bool = False
    ) -> GitPush:
        """Push the branch to the branch of the same name, never by force."""
        request = requests.GitPushBranch(
            session_id=self._session_id, remote=remote, set_upstream=set_upstream, trust_repository=trust_repository
        )
        return await self._connection.call(request)

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
        """Open a pull request for the pushed branch, or return the one that is open."""
        request = requests.GitOpenPullRequest(
            session_id=self._session_id,
            title=title,
            body=body,
            base=base,
            draft=draft,
            remote=remote,
            program=program,
            trust_repository=trust_repository,
        )
        return await self._connection.call(request)

    async def propose_message(
        self, *, paths: Sequence[str] | None = None, only_staged: bool = False
    ) -> ProposedMessage:
        """Have the agent propose a message for what `commit` with the same arguments would commit."""
        request = requests.GitProposeMessage(
            session_id=self._session_id, paths=None if paths is None else tuple(paths), only_staged=only_staged
        )
        return await self._connection.call(request)
