"""`ClientSync`: sessions on a server, for programs that are not async."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from dragoman.protocol.models import AgentItem, SessionItem
from dragoman.protocol.results import SearchHit, UsageReport
from dragoman.remote.client import Client, Opening
from dragoman.remote.session import RemoteSession
from dragoman.session.handle import SessionHandle
from dragoman.session.sync import SyncSession, background


class SyncClient:
    """`Client` for programs that are not async: its methods take the same, and block."""

    def __init__(self, url: str, token: str, **settings: Any) -> None:
        self._client = Client(url, token, **settings)

    # -- for programs

    def start(self) -> SyncClient:
        background.call(self._client.start())
        return self

    def open_session(self, agent: str | None = None, **settings: Any) -> SyncSession:
        return SyncSession(background.call(_opened(self._client.open_session(agent, **settings))))

    def resume(self, handle: SessionHandle | str | bytes | Mapping[str, object], **settings: Any) -> SyncSession:
        return SyncSession(background.call(self._client.resume(handle, **settings)))

    def session(self, session_id: str, **settings: Any) -> SyncSession:
        return SyncSession(background.call(_opened(self._client.session(session_id, **settings))))

    def sessions(self, **filters: Any) -> tuple[SessionItem, ...]:
        return background.call(self._client.sessions(**filters))

    def search(self, text: str, **filters: Any) -> tuple[SearchHit, ...]:
        return background.call(self._client.search(text, **filters))

    def usage(self, *by: Any, **filters: Any) -> UsageReport:
        return background.call(self._client.usage(*by, **filters))

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


async def _opened(opening: Opening) -> RemoteSession:
    return await opening
