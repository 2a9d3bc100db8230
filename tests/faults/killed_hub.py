"""A program with a hub, and many sessions on one agent, to be killed: `killed_hub.py HOME AGENT COPY COUNT`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dragoman.hub.hub import Hub
from dragoman.record.events import AssistantDelta, Event
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec, SessionConfig
from dragoman.workspace import Workspace


async def main(home: str, agent: str, copy: str, count: int) -> None:
    told = 0

    def hear(event: Event) -> None:
        nonlocal told
        if isinstance(event, AssistantDelta):
            told += 1
            if told % 50 == 0:
                print(told, flush=True)  # whoever reads has been told of so many

    async with Hub(home) as hub:
        spec = AgentSpec(command=[sys.executable, agent, copy], env={"SESSIONS": str(count)}, name="streaming")
        async with AgentRuntime(spec, journal_client=hub.journal_client) as runtime:
            config = SessionConfig(workspace=Workspace(Path(home).parent), on_event=hear)
            sessions = [await runtime.open_session(config) for _ in range(count)]
            await asyncio.gather(*(session.run("go") for session in sessions))


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
