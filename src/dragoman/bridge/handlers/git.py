"""Handlers of `git.*`: the repository of a session's workspace, commits, pushes and pull requests."""

from __future__ import annotations

from dragoman.bridge.auth import Caller
from dragoman.bridge.services import Services, handles
from dragoman.config import load
from dragoman.hub.session_git import session_git
from dragoman.protocol import requests
from dragoman.protocol.git import GitCommit, GitPush, GitState, ProposedMessage, PullRequest
from dragoman.session.git import GitActions


async def _git(services: Services, session_id: str) -> GitActions:
    await services.session_row(session_id)
    return await session_git(services.hub, load(services.config.home), session_id)


@handles(requests.GitReadState)
async def read_state(services: Services, request: requests.GitReadState, caller: Caller) -> GitState:
    row = await services.session_row(request.session_id)
    await services.check_folders(caller, *dict.fromkeys((row.cwd, *row.folders)))
    state = await (await _git(services, request.session_id)).state()
    # The repository may begin above the session's folder, and has the names of all its files.
    await services.check_folders(caller, state.root)
    return state


@handles(requests.GitCommitChanges)
async def commit(services: Services, request: requests.GitCommitChanges, caller: Caller) -> GitCommit:
    git = await _git(services, request.session_id)
    return await git.commit(
        request.message,
        paths=request.paths,
        only_staged=request.only_staged,
        while_running=request.while_running,
        trust_repository=request.trust_repository,
    )


@handles(requests.GitProposeMessage)
async def propose_message(services: Services, request: requests.GitProposeMessage, caller: Caller) -> ProposedMessage:
    git = await _git(services, request.session_id)
    return await git.propose_message(paths=request.paths, only_staged=request.only_staged)


@handles(requests.GitPushBranch)
async def push(services: Services, request: requests.GitPushBranch, caller: Caller) -> GitPush:
    git = await _git(services, request.session_id)
    return await git.push(request.remote, set_upstream=request.set_upstream, trust_repository=request.trust_repository)


@handles(requests.GitOpenPullRequest)
async def open_pull_request(services: Services, request: requests.GitOpenPullRequest, caller: Caller) -> PullRequest:
    git = await _git(services, request.session_id)
    return await git.open_pull_request(
        request.title,
        request.body,
        base=request.base,
        draft=request.draft,
        remote=request.remote,
        program=request.program,
        trust_repository=request.trust_repository,
    )
