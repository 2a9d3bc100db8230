"""A session on a scripted agent in memory, in one line."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dragoman.record.events import Event
from dragoman.session.options import SessionConfig
from dragoman.session.prompt import Input
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.testing.memory import memory_runtime
from dragoman.testing.scripted import Script, ScriptedAgent
from dragoman.workspace import Workspace

# Seconds until a test gives up waiting: far more than anything in memory takes.
LIMIT = 20.0


def config(**settings: Any) -> SessionConfig:
    """A `SessionConfig`; the workspace, where none is given, is the folder for temporary files."""
    return SessionConfig(**{"workspace": Workspace(tempfile.gettempdir()), **settings})


@asynccontextmanager
async def runtime_of(agent: ScriptedAgent | Script, **options: Any) -> AsyncIterator[AgentRuntime]:
    """A started runtime. `options` are those of `AgentRuntime`."""
    main = (agent if isinstance(agent, ScriptedAgent) else ScriptedAgent(agent)).main
    async with asyncio.timeout(LIMIT), memory_runtime(main, **options) as runtime:
        yield runtime


@asynccontextmanager
async def session_of(
    agent: ScriptedAgent | Script, *, runtime: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Session]:
    """An open session. `settings` are those of `SessionConfig`, `runtime` those of `AgentRuntime`."""
    async with runtime_of(agent, **(runtime or {})) as running:
        yield await running.open_session(config(**settings))


async def play(agent: ScriptedAgent | Script, prompt: Input = "go", **settings: Any) -> list[Event]:
    """All events of one run."""
    async with session_of(agent, **settings) as session:
        return [event async for event in session.run(prompt)]
