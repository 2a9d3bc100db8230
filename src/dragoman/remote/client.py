"""`Client`: an `AgentClient` whose sessions are on a server (`dragoman serve`), on this machine or another one.

    async with dragoman.Client("http://127.0.0.1:8421", token) as client:
        async with client.open_session("claude", cwd="/home/ada/project") as session:
            print((await session.run("What does this project do?")).text)

Sessions and runs are as those of `dragoman.open_session`. What is different: folders are the server's; the agent's
files and commands are served there, by the server's rules; what a program without `on_permission` is asked waits for
someone on the page, or another client; and the session stays on the server when the program lets go of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from dragoman.bridge import answers, asked
from dragoman.bridge.payload import AgentItem, Live, SessionItem
from dragoman.errors import InputError
from dragoman.host.permission import OnPermission
from dragoman.host.question.question import OnQuestion
from dragoman.remote.session import RemoteSession
from dragoman.remote.socket import Socket, new_call
from dragoman.session.handle import SessionHandle, read_handle
from dragoman.session.spec import OnEvent, SessionConfig

_CANNOT_CROSS = {
    "rules": "The server's own rules hold: set them there with `dragoman policy`, or answer by on_permission.",
    "mcp_servers": "Tools of this program cannot be reached from there.",
    "env": "Set variables where the server runs, or add an agent of your own there that has them.",
    "headers": "Add an agent of your own on the server.",
    "limits": "They are the server's settings.",
    "journal_client": "Sessions on a server are kept there.",
    "session_id": "The server gives it.",
    "on_diagnostic": "It is in the server's log.",
    "buffers": "Files are served where the server runs.",
    "file_handler": "Files are served where the server runs.",
    "terminal_handler": "Commands are run where the server runs.",
}


class Opening:
    """A session about to be had: await it, or enter it."""

    def __init__(self, open_it: Callable[[], Coroutine[Any, Any, RemoteSession]]) -> None:
        self._open_it = open_it
        self._session: RemoteSession | None = None

    def __await__(self) -> Generator[Any, None, RemoteSession]:
        return self._open_it().__await__()

    async def __aenter__(self) -> RemoteSession:
        self._session = await self
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()


class Client:
    """Sessions on the server at `url`. `token` is one of the server's (`dragoman token create NAME --scope prompt`).

    It connects when it is first needed, and again by itself when the connection breaks: nothing is lost, and nothing
    done twice. After `patience` seconds without one it gives up, and what waits fails with `ServerUnreachable`.
    `fingerprint`: of the certificate of a server that made its own, as `dragoman serve` prints it.
    """

    def __init__(self, url: str, token: str, *, fingerprint: str | None = None, patience: float = 60.0) -> None:
        self._socket = Socket(url, token, fingerprint=fingerprint, patience=patience)
        self._sessions: list[RemoteSession] = []

    # -- for programs

    async def start(self) -> Client:
        """Connects, so that a wrong address or token shows at once."""
        await self._socket.start()
        return self

    def open_session(
        self,
        agent: str | None = None,
        *,
        cwd: str | Path = ".",
        additional: Sequence[str | Path] = (),
        access: str | None = None,
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
        on_event: OnEvent | None = None,
        network: bool | None = None,
        web_search: bool | None = None,
        model: str | None = None,
        mode: str | None = None,
        reasoning_effort: str | None = None,
        options: Mapping[str, str | bool] | None = None,
        system_prompt: str | None = None,
        **here: object,
    ) -> Opening:
        """A session with one of the server's agents, as `dragoman.open_session`. Await it, or use it with `async with`.

        `agent` is its name there; the server's default when left out. `cwd` and `additional` are folders there. What
        works only in one's own process (`rules`, `mcp_servers`, `env`, …) is an error.
        """
        if agent is not None and not isinstance(agent, str):
            raise InputError(
                f"the agent is {agent!r}; a server has agents by name",
                guidance="Add it there as an agent of your own, then name it; `client.agents()` lists them.",
            )
        for name, value in here.items():
            _check_crosses(name, value)

        async def open_it() -> RemoteSession:
            control = asked.SessionOpen(
                id=new_call(),
                command_id=new_call(),
                agent=agent,
                cwd=_folder(cwd),
                additional=tuple(_folder(folder) for folder in additional),
                access=access,
                model=model,
                mode=mode,
                options=dict(options or {}),
                reasoning_effort=reasoning_effort,
                system_prompt=system_prompt,
                network=network,
                web_search=web_search,
            )
            opened = await self._socket.call(control, answers.Opened)
            return await self._had(
                RemoteSession(
                    self._socket,
                    opened.session_id,
                    opened.live,
                    on_permission=on_permission,
                    on_question=on_question,
                    on_event=on_event,
                )
            )

        return Opening(open_it)

    async def open(self, agent: str | None, config: SessionConfig) -> RemoteSession:
        """The same by a `SessionConfig`, as any `AgentClient`."""
        fields = {name: getattr(config, name) for name in config.__struct_fields__}
        for name in _CANNOT_CROSS:
            if name in fields:
                _check_crosses(name, fields.pop(name))
        workspace = fields.pop("workspace")
        return await self.open_session(agent, cwd=workspace.cwd, additional=workspace.additional, **fields)

    async def resume(
        self,
        handle: SessionHandle | str | bytes | Mapping[str, object],
        *,
        how: Literal["resume", "load", "anew"] = "resume",
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
        on_event: OnEvent | None = None,
    ) -> RemoteSession:
        """A session of the server's, continued by its agent: by its id, or by what `snapshot()` gave.

        `how`: "resume" as the agent can, "load" by having it tell its history again, "anew" with an agent that
        remembers nothing.
        """
        session_id = _session_id(handle)
        self._check_new(session_id)
        opened = await self._socket.call(_continuing(how, session_id), answers.Opened)
        session = RemoteSession(
            self._socket,
            session_id,
            opened.live,
            on_permission=on_permission,
            on_question=on_question,
            on_event=on_event,
            history=True,
        )
        return await self._had(session)

    def session(
        self,
        session_id: str,
        *,
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
        on_event: OnEvent | None = None,
    ) -> Opening:
        """A session that is on the server, whoever opened it. Await it, or use it with `async with`: leaving the block
        leaves the session as it is. `on_event` is told what happens in it from now on."""

        async def attach() -> RemoteSession:
            await self._socket.start()
            session = RemoteSession(
                self._socket,
                session_id,
                Live(),
                on_permission=on_permission,
                on_question=on_question,
                on_event=on_event,
                owned=False,
                history=True,
            )
            return await self._had(session)

        return Opening(attach)

    async def sessions(
        self, *, agent: str | None = None, cwd: str | None = None, before: float | None = None, limit: int = 100
    ) -> tuple[SessionItem, ...]:
        """The sessions of the server, the one with the latest word first."""
        control = asked.SessionList(id=new_call(), agent=agent, cwd=cwd, before=before, limit=limit)
        return (await self._socket.call(control, answers.Listed)).sessions

    async def search(
        self, text: str, *, agent: str | None = None, cwd: str | None = None, limit: int = 20
    ) -> tuple[answers.Hit, ...]:
        """What was said in any session, by its words."""
        control = asked.Search(id=new_call(), text=text, agent=agent, cwd=cwd, limit=limit)
        return (await self._socket.call(control, answers.Found)).hits

    async def usage(
        self,
        by: Literal["day", "agent", "model", "workspace"] = "day",
        *,
        since: float | None = None,
        until: float | None = None,
    ) -> answers.UsageTold:
        """What all sessions used."""
        control = asked.UsageAsked(id=new_call(), by=by, since=since, until=until)
        return await self._socket.call(control, answers.UsageTold)

    async def agents(self) -> tuple[AgentItem, ...]:
        """The agents that the server could start."""
        return (await self._socket.call(asked.AgentList(id=new_call()), answers.Agents)).agents

    async def close(self) -> None:
        """Ends the sessions that were opened or resumed here, leaves the others, and disconnects."""
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            await session.close()
        await self._socket.close()

    async def __aenter__(self) -> Client:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_new(self, session_id: str) -> None:
        if any(known.id == session_id and not known.closed for known in self._sessions):
            raise InputError(f"this client has session {session_id} already", guidance="Use that, or another Client.")

    async def _had(self, session: RemoteSession) -> RemoteSession:
        self._check_new(session.id)
        self._sessions = [*(known for known in self._sessions if not known.closed), session]
        try:
            await session.begin()
        except BaseException:
            await session.leave()
            raise
        return session


def _continuing(how: str, session_id: str) -> asked.Control:
    call_id, command_id = new_call(), new_call()
    match how:
        case "resume":
            return asked.SessionResume(id=call_id, command_id=command_id, session_id=session_id)
        case "load":
            return asked.SessionLoad(id=call_id, command_id=command_id, session_id=session_id)
        case "anew":
            return asked.SessionRestart(id=call_id, command_id=command_id, session_id=session_id)
        case _:
            raise InputError(f"how is 'resume', 'load' or 'anew', not {how!r}")


def _session_id(handle: SessionHandle | str | bytes | Mapping[str, object]) -> str:
    if isinstance(handle, str) and not handle.lstrip().startswith("{"):
        return handle
    return read_handle(handle).session_id


def _check_crosses(name: str, value: object) -> None:
    if name not in _CANNOT_CROSS:
        raise TypeError(f"open_session() got an unexpected keyword argument {name!r}")
    if value:
        raise InputError(f"{name} cannot go to a session on a server", guidance=_CANNOT_CROSS[name])


def _folder(folder: str | Path) -> str:
    """The whole path. `~` is left for the server: it is a home there."""
    given = os.fspath(folder)
    return given if given.startswith("~") else os.path.abspath(given)
