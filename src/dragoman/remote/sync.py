"""`ClientSync`: sessions on a server, for programs that are not async."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Unpack

from dragoman.protocol.models import AgentItem, SessionItem
from dragoman.protocol.results import SearchHit, UsageReport
from dragoman.remote.client import Client
from dragoman.remote.session import RemoteSession
from dragoman.session.client import Opening
from dragoman.session.handle import SessionHandle
from dragoman.session.options import SessionCallbackOptions, SessionOptions
from dragoman.session.sync import SyncSession, background


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

    def close(self) -> None:
        background.call(self._client.close())

    def __enter__(self) -> SyncClient:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _opened(opening: Opening[RemoteSession]) -> RemoteSession:
    return await opening
