from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dragoman import AgentRuntime, SessionConfig, Workspace
from dragoman.testing.demo import demo_spec

from .stage import Neighbour

HAS_PROC = os.path.exists("/proc/self/fd")


@pytest.fixture(autouse=True)
def where_leaks_can_be_seen() -> None:
    if not HAS_PROC:
        pytest.skip("needs /proc")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def neighbour(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Neighbour]:
    """Open one neighbour for all tests of a module: damage by a rogue in one test shows in the next."""
    home = tmp_path_factory.mktemp("neighbour")
    async with AgentRuntime(demo_spec(home / "home")) as runtime:
        session = await runtime.open_session(SessionConfig(workspace=Workspace(home)))
        expected = (await session.run("stream 40")).text
        assert expected
        yield Neighbour(session, expected)
