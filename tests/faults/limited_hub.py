"""A program with a hub whose files may soon grow no more: `limited_hub.py HOME AGENT COPY`.

Prints the agent's pid, then how many chunks it was told of, and why it ended.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from dragoman.errors import DragomanError
from dragoman.hub.hub import Hub
from dragoman.proc.link import AgentLink
from dragoman.proc.process import ProcessLink
from dragoman.record.events import AssistantDelta, Event
from dragoman.session.launch import launch
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec, Limits, SessionConfig
from dragoman.workspace import Workspace

# Chunks that are told before the limit, and bytes that the largest file may then grow.
BEFORE = 50
ROOM = 64 * 1024

told = 0


def hear(event: Event) -> None:
    global told
    if isinstance(event, AssistantDelta):
        told += 1
        if told == BEFORE:
            largest = max(file.stat().st_size for file in Path(sys.argv[1]).iterdir())
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest + ROOM, resource.RLIM_INFINITY))


async def start(spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
    link = await launch(spec, limits, on_stderr)
    assert isinstance(link, ProcessLink)
    print(link.pid, flush=True)
    return link


async def main(home: str, agent: str, copy: str) -> None:
    async with Hub(home) as hub:
        spec = AgentSpec(command=[sys.executable, agent, copy], name="streaming")
        async with AgentRuntime(
            spec, journal_client=hub.journal_client, limits=Limits(close_grace=0.3), launch=start
        ) as runtime:
            session = await runtime.open_session(SessionConfig(workspace=Workspace(Path(home).parent), on_event=hear))
            await session.run("go")


try:
    asyncio.run(main(*sys.argv[1:]))
except DragomanError as problem:
    print(told)
    print(f"{type(problem).__name__}: {problem}")
    sys.exit(1)
