"""A program with a hub whose files may soon grow no more: `limited_hub.py HOME AGENT COPY`.

Prints the agent's pid, then the number of text chunks it received, and the error that ended it.
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
from dragoman.session.link import launch
from dragoman.session.options import SessionConfig
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec, Limits
from dragoman.workspace import Workspace

CHUNKS_BEFORE_LIMIT = 50
GROWTH_LIMIT_BYTES = 64 * 1024  # that the largest file may grow once the limit is set

chunk_count = 0


def on_event(event: Event) -> None:
    global chunk_count
    if isinstance(event, AssistantDelta):
        chunk_count += 1
        if chunk_count == CHUNKS_BEFORE_LIMIT:
            largest = max(file.stat().st_size for file in Path(sys.argv[1]).iterdir())
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest + GROWTH_LIMIT_BYTES, resource.RLIM_INFINITY))


async def start(spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
    link = await launch(spec, limits, on_stderr)
    assert isinstance(link, ProcessLink)
    print(link.pid, flush=True)
    return link


async def main(home: str, agent: str, copy: str) -> None:
    async with Hub(home) as hub:
        spec = AgentSpec(command=[sys.executable, agent, copy], name="streaming")
        async with AgentRuntime(
            spec, journal_client=hub.journal_client, limits=Limits(close_timeout=0.3), launch=start
        ) as runtime:
            config = SessionConfig(workspace=Workspace(Path(home).parent), on_event=on_event)
            session = await runtime.open_session(config)
            await session.run("go")


try:
    asyncio.run(main(*sys.argv[1:]))
except DragomanError as error:
    print(chunk_count)
    print(f"{type(error).__name__}: {error}")
    sys.exit(1)
