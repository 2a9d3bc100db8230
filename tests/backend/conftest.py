"""A front end of a backend session, with a scripted agent in memory or the demo agent in its own process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.backend import BackendAdapter, BackendSession, UnifiedMessage
from dragoman.session.options import SessionConfig
from dragoman.session.spec import AgentSpec
from dragoman.testing.demo import demo_spec
from dragoman.testing.leaks import nothing_left
from dragoman.testing.memory import in_memory
from dragoman.testing.scripted import Script, ScriptedAgent

TIMEOUT_S = 30.0  # until a test gives up waiting: far more than anything here takes


@pytest.fixture(autouse=True)
async def leaves_nothing() -> AsyncIterator[None]:
    if sys.platform != "linux":
        yield
        return
    async with nothing_left():
        yield


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "dragoman"))
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def scripted(agent: ScriptedAgent | Script, **options: Any) -> BackendAdapter:
    """Return an adapter of a scripted agent. `options` are those of `BackendAdapter`."""
    scripted_agent = agent if isinstance(agent, ScriptedAgent) else ScriptedAgent(agent)
    return BackendAdapter(AgentSpec(command=["memory"]), launch=in_memory(scripted_agent.main), **options)


@asynccontextmanager
async def connected(
    adapter: BackendAdapter, config: SessionConfig | Path, *, timeout_s: float = TIMEOUT_S, **options: Any
) -> AsyncIterator[BackendSession]:
    """Yield a connected session. `options` are those of `connect`."""
    async with asyncio.timeout(timeout_s), await adapter.connect(config, **options) as session:
        yield session


@pytest.fixture
def demo(tmp_path: Path) -> BackendAdapter:
    return BackendAdapter(demo_spec(tmp_path / "demo"))


async def until(session: BackendSession, *types: str) -> list[UnifiedMessage]:
    """Return the messages up to the first of these types."""
    return await until_message(session, lambda message: message.type in types)


async def until_message(session: BackendSession, is_last: Callable[[UnifiedMessage], bool]) -> list[UnifiedMessage]:
    """Return the messages up to the first that `is_last` accepts."""
    messages = []
    async for message in session.messages:
        messages.append(message)
        if is_last(message):
            return messages
    raise AssertionError(f"the messages ended without it: {[message.type for message in messages][-20:]}")


def text_of(messages: list[UnifiedMessage]) -> str:
    """Return the agent's text, without its thoughts."""
    return "".join(
        block["text"]
        for message in messages
        if message.type == "stream_event" and not message.metadata.get("thought")
        for block in message.content
        if block["type"] == "text"
    )
