"""`Client`: an `AgentClient` whose sessions are on a server (`dragoman serve`), on this machine or another one; and
`SyncClient`, the same for programs that are not async.

    async with dragoman.Client("http://127.0.0.1:8421", token) as client:
        async with client.open_session("claude", cwd="/home/ada/project") as session:
            print((await session.run("What does this project do?")).text)

Sessions and runs are those of `dragoman.open_session`, with these differences: folders are the server's; the agent's
files and commands are served there, by the server's rules; without `on_permission`, permissions wait for an answer on
the page or of another client; and the session stays on the server when the program ends.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Unpack

from dragoman.errors import InputError
from dragoman.protocol import requests, results
from dragoman.protocol.models import AgentItem, SessionItem, SessionState
from dragoman.protocol.results import SearchHit, UsageReport
from dragoman.protocol.worktrees import SessionWorktree
from dragoman.remote.connection import ServerConnection
from dragoman.remote.session import RemoteSession
from dragoman.remote.worktrees import RemoteWorktrees
from dragoman.session.client import Opening
from dragoman.session.handle import SessionHandle, read_handle
from dragoman.session.options import (
    SessionCallbackOptions,
    SessionConfig,
    SessionOptions,
    callbacks_in,
    read_worktree,
    settings_in,
)
from dragoman.session.sync import SyncSession, background
from dragoman.session.sync_worktrees import SyncWorktrees

_LOCAL_ONLY = {
    "rules": "The server's rules apply: set them there with `dragoman policy`, or answer by on_permission.",
    "mcp_servers": "The server cannot reach tools of this program.",
    "env": "Set variables where the server runs, or add a custom agent with them there.",
    "headers": "Add a custom agent on the server.",
    "limits": "They are settings of the server.",
    "journal": "The server records its sessions.",
    "session_id": "The server chooses it.",
    "on_diagnostic": "The server's log has it.",
    "buffers": "Files are served where the server runs.",
    "file_handler": "Files are served where the server runs.",
    "terminal_handler": "Commands are run where the server runs.",
}


class Client:
    """Sessions on the server at `url`. `token` is one of the server's (`dragoman token create NAME --scope prompt`).

    It connects when it is first used, and reconnects by itself: nothing is lost, and nothing is done twice. After
    `patience` seconds without a connection it gives up, and pending calls fail with `ServerUnreachable`. `fingerprint`:
    of the server's self-signed certificate, as `dragoman serve` prints it.
    """

    def __init__(self, url: str, token: str, *, fingerprint: str | None = None, patience: float = 60.0) -> None:
        self._connection = ServerConnection(url, token, fingerprint=fingerprint, patience_s=patience)
        self._sessions: list[RemoteSession] = []

    # -- for programs

    async def start(self) -> Client:
        """Connect, so that a wrong URL or token is reported at once."""
        await self._connection.start()
        return self

    def open_session(self, agent: str | None = None, **options: Unpack[SessionOptions]) -> Opening[RemoteSession]:
        """Open a session as `dragoman.open_session` does, with an agent of the server. Await it, or use `async with`.

        `agent` is the name of one of the server's agents; its default when left out. `cwd` and `additional` are folders
        on the server. Settings that only work in this process (`rules`, `mcp_servers`, `env`, …) are an error.
        """
        if agent is not None and not isinstance(agent, str):
            raise InputError(
                f"the agent is {agent!r}; a server's agents have names",
                guidance="Add it there as a custom agent, then give its name; `client.agents()` lists them.",
            )
        for name, value in options.items():
            if name not in SessionOptions.__optional_keys__ or name in _LOCAL_ONLY:
                _check_local_only(name, value)
        request = requests.SessionOpen(
            agent=agent,
            cwd=_folder(options.get("cwd", ".")),
            additional=tuple(_folder(folder) for folder in options.get("additional", ())),
            worktree=read_worktree(options.get("worktree")),
            **settings_in(options, without=_LOCAL_ONLY),
        )

        async def open_it() -> RemoteSession:
            opened = await self._connection.call(request)
            return await self._register(
                RemoteSession(self._connection, opened.session_id, opened.state, **callbacks_in(options))
            )

        return Opening(open_it)

    async def open(self, agent: str | None, config: SessionConfig) -> RemoteSession:
        """The same by a `SessionConfig`, as any `AgentClient`."""
        fields = {name: getattr(config, name) for name in config.__struct_fields__}
        for name in _LOCAL_ONLY:
            if name in fields:
                _check_local_only(name, fields.pop(name))
        workspace = fields.pop("workspace")
        del fields["opened_by"]  # the server knows it by the token
        if isinstance(fields["worktree"], SessionWorktree):
            del fields["worktree"]  # one on this machine
        return await self.open_session(agent, cwd=workspace.cwd, additional=workspace.additional, **fields)

    async def resume(
        self,
        handle: SessionHandle | str | bytes | Mapping[str, object],
        *,
        how: Literal["resume", "load", "new"] = "resume",
        **callbacks: Unpack[SessionCallbackOptions],
    ) -> RemoteSession:
        """Resume a session of the server: by its id, or by the result of `snapshot()`.

        `how`: "resume" in the way that the agent supports, "load" by having it replay its history, "new" with an agent
        that remembers nothing.
        """
        session_id = _session_id(handle)
        self._check_new(session_id)
        opened = await self._connection.call(_resume_request(how, session_id))
        session = RemoteSession(self._connection, session_id, opened.state, history=True, **callbacks_in(callbacks))
        return await self._register(session)

    def session(self, session_id: str, **callbacks: Unpack[SessionCallbackOptions]) -> Opening[RemoteSession]:
        """A session that is open on the server, whichever client opened it. Await it, or use it with `async with`:
        leaving the block leaves the session as it is. `on_event` gets its events from now on."""

        async def attach() -> RemoteSession:
            await self._connection.start()
            state = SessionState()
            session = RemoteSession(
                self._connection, session_id, state, owned=False, history=True, **callbacks_in(callbacks)
            )
            return await self._register(session)

        return Opening(attach)

    async def sessions(
        self, *, agent: str | None = None, cwd: str | None = None, before: float | None = None, limit: int = 100
    ) -> tuple[SessionItem, ...]:
        """The sessions of the server, newest first."""
        request = requests.SessionList(agent=agent, cwd=cwd, before=before, limit=limit)
        return (await self._connection.call(request)).sessions

    async def search(
        self, text: str, *, agent: str | None = None, cwd: str | None = None, limit: int = 20
    ) -> tuple[results.SearchHit, ...]:
        """Search all sessions of the server."""
        request = requests.Search(text=text, agent=agent, cwd=cwd, limit=limit)
        return (await self._connection.call(request)).hits

    async def usage(
        self,
        by: Literal["day", "agent", "model", "workspace"] = "day",
        *,
        since: float | None = None,
        until: float | None = None,
    ) -> results.UsageReport:
        """Sum up tokens and cost of all sessions."""
        return await self._connection.call(requests.UsageQuery(by=by, since=since, until=until))

    async def agents(self) -> tuple[AgentItem, ...]:
        """The agents that the server knows."""
        return (await self._connection.call(requests.AgentList())).agents

    @property
    def worktrees(self) -> RemoteWorktrees:
        """The worktrees of sessions on the server."""
        return RemoteWorktrees(self._connection)

    async def close(self) -> None:
        """Close the sessions that were opened or resumed here, leave the others, and disconnect."""
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            await session.close()
        await self._connection.close()

    async def __aenter__(self) -> Client:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_new(self, session_id: str) -> None:
        if any(session.id == session_id and not session.closed for session in self._sessions):
            raise InputError(
                f"this client already has session {session_id}", guidance="Use that one, or another Client."
            )

    async def _register(self, session: RemoteSession) -> RemoteSession:
        self._check_new(session.id)
        self._sessions = [*(other for other in self._sessions if not other.closed), session]
        try:
            await session.begin()
        except BaseException:
            await session.leave()
            raise
        return session


def _resume_request(how: str, session_id: str) -> requests.Request[results.SessionOpened]:
    match how:
        case "resume":
            return requests.SessionResume(session_id=session_id)
        case "load":
            return requests.SessionLoad(session_id=session_id)
        case "new":
            return requests.SessionRestart(session_id=session_id)
        case _:
            raise InputError(f"how is {how!r}; expected 'resume', 'load' or 'new'")


def _session_id(handle: SessionHandle | str | bytes | Mapping[str, object]) -> str:
    if isinstance(handle, str) and not handle.lstrip().startswith("{"):
        return handle
    return read_handle(handle).session_id


def _check_local_only(name: str, value: object) -> None:
    if name not in _LOCAL_ONLY:
        raise TypeError(f"open_session() got an unexpected keyword argument {name!r}")
    if value:
        raise InputError(f"{name} is not available for a session on a server", guidance=_LOCAL_ONLY[name])


def _folder(folder: str | Path) -> str:
    """The absolute path. `~` is left to the server, where it is another home folder."""
    path = os.fspath(folder)
    return path if path.startswith("~") else os.path.abspath(path)


class SyncClient:
    """`Client` for programs that are not async: its methods take the same, and block."""

    def __init__(self, url: str, token: str, *, fingerprint: str | None = None, patience: float = 60.0) -> None:
        self._client = Client(url, token, fingerprint=fingerprint, patience=patience)

    # -- for programs

    def start(self) -> SyncClient:
        background.call(self._client.start())
        return self

    def open_session(self, agent: str | None = None, **options: Unpack[SessionOptions]) -> SyncSession:
        return SyncSession(background.call(_opened(self._client.open_session(agent, **options))))

    def resume(
        self,
        handle: SessionHandle | str | bytes | Mapping[str, object],
        *,
        how: Literal["resume", "load", "new"] = "resume",
        **callbacks: Unpack[SessionCallbackOptions],
    ) -> SyncSession:
        return SyncSession(background.call(self._client.resume(handle, how=how, **callbacks)))

    def session(self, session_id: str, **callbacks: Unpack[SessionCallbackOptions]) -> SyncSession:
        return SyncSession(background.call(_opened(self._client.session(session_id, **callbacks))))

    def sessions(
        self, *, agent: str | None = None, cwd: str | None = None, before: float | None = None, limit: int = 100
    ) -> tuple[SessionItem, ...]:
        return background.call(self._client.sessions(agent=agent, cwd=cwd, before=before, limit=limit))

    def search(
        self, text: str, *, agent: str | None = None, cwd: str | None = None, limit: int = 20
    ) -> tuple[SearchHit, ...]:
        return background.call(self._client.search(text, agent=agent, cwd=cwd, limit=limit))

    def usage(
        self,
        by: Literal["day", "agent", "model", "workspace"] = "day",
        *,
        since: float | None = None,
        until: float | None = None,
    ) -> UsageReport:
        return background.call(self._client.usage(by, since=since, until=until))

    def agents(self) -> tuple[AgentItem, ...]:
        return background.call(self._client.agents())

    @property
    def worktrees(self) -> SyncWorktrees:
        return SyncWorktrees(self._client.worktrees)

    def close(self) -> None:
        background.call(self._client.close())

    def __enter__(self) -> SyncClient:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _opened(opening: Opening[RemoteSession]) -> RemoteSession:
    return await opening
