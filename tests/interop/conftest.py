"""The SDKs, installed when first needed; and every test leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from dragoman.testing.leaks import nothing_left
from interop import sdks

HERE = Path(__file__).parent

# Starts a server and gives the port it listens on; it is ended with the context.
Serve: TypeAlias = Callable[..., AbstractAsyncContextManager[int]]


@pytest.fixture(autouse=True)
async def leaves_nothing() -> AsyncIterator[None]:
    if sys.platform != "linux":
        yield
        return
    async with nothing_left():
        yield


@pytest.fixture(scope="session")
def announce(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Return a function that prints to the terminal although pytest captures output: an install takes a while."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        if capture is None:
            print(text, file=sys.stderr, flush=True)
            return
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", file=sys.stderr, flush=True)

    return say


@pytest.fixture(scope="session")
def python_sdk(announce: Callable[[str], None]) -> Path:
    try:
        return sdks.python_sdk(announce)
    except sdks.CannotInstall as problem:
        pytest.skip(f"the Python SDK cannot be installed: {problem}")


@pytest.fixture(scope="session")
def node_sdk(announce: Callable[[str], None]) -> Path:
    try:
        return sdks.node_sdk(announce)
    except sdks.CannotInstall as problem:
        pytest.skip(f"the TypeScript SDK cannot be installed: {problem}")


@pytest.fixture(scope="session")
def python_agent(python_sdk: Path) -> list[str]:
    return [str(python_sdk), str(HERE / "python_agent.py")]


@pytest.fixture(scope="session")
def node_agent(node_sdk: Path) -> list[str]:
    return ["node", str(HERE / "agent.mjs"), str(node_sdk)]


@pytest.fixture
def serve() -> Serve:
    @asynccontextmanager
    async def serving(command: Sequence[str], **environment: str) -> AsyncIterator[int]:
        server = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, env={**os.environ, **environment}
        )
        try:
            assert server.stdout is not None
            async with asyncio.timeout(30):
                yield int(await server.stdout.readline())
        finally:
            server.kill()
            await server.communicate()

    return serving
