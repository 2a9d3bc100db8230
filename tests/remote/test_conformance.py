"""A session on a server keeps the promises of the ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.remote.client import Client
from dragoman.remote.session import RemoteSession
from dragoman.session import ports
from dragoman.session.capabilities import Capabilities
from dragoman.session.handle import SessionHandle
from dragoman.session.options import SessionConfig
from dragoman.testing import conformance
from remote.real_server import RealServer

# What nobody here answers waits for someone on the page, or another client: the server asks many, and refuses nothing
# for want of one.
CANNOT_HOLD = {"a_permission_request_without_an_answer_is_refused"}

CHECKS = [check for check in conformance.CHECKS if check.__name__ not in CANNOT_HOLD]


class OneAgent:
    """A client's sessions with one agent: what the suite calls a runtime."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last: RemoteSession | None = None

    def capabilities(self) -> Capabilities:
        assert self._last is not None
        return self._last.capabilities()

    async def open_session(self, config: SessionConfig) -> RemoteSession:
        self._last = await self._client.open("demo", config)
        return self._last

    async def resume_session(
        self, handle: SessionHandle | str | bytes | Mapping[str, object], config: SessionConfig | None = None
    ) -> RemoteSession:
        self._last = await self._client.resume(handle)
        return self._last

    async def close(self) -> None:
        await self._client.close()


class Remote:
    def __init__(self, server: RealServer, folder: Path) -> None:
        self.folder = folder
        self._server = server

    @asynccontextmanager
    async def open(self) -> AsyncIterator[ports.RuntimePort]:
        async with self._server.client() as client:
            yield OneAgent(client)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_session_on_a_server_conforms(check: conformance.Check, server: RealServer, folder: Path) -> None:
    await check(Remote(server, folder))
