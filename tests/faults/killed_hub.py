"""A program with a hub, and many sessions on one agent, to be killed: `killed_hub.py HOME AGENT COPY COUNT`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dragoman.hub.hub import Hub
from dragoman.record.events import AssistantDelta, Event
from dragoman.session.options import SessionConfig
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec
from dragoman.workspace import Workspace


async def main(home: str, agent: str, copy: str, count: int) -> None:
    delta_count = 0

    def on_event(event: Event) -> None:
        nonlocal delta_count
        if isinstance(event, AssistantDelta):
            delta_count += 1
            if delta_count % 50 == 0:
                print(delta_count, flush=True)  # the test expects at least so many in the journal

    async with Hub(home) as hub:
        spec = AgentSpec(command=[sys.executable, agent, copy], env={"SESSIONS": str(count)}, name="streaming")
        async with AgentRuntime(spec, journal_client=hub.journal_client) as runtime:
            config = SessionConfig(workspace=Workspace(Path(home).parent), on_event=on_event)
            sessions = [await runtime.open_session(config) for _ in range(count)]
            await asyncio.gather(*(session.run("go") for session in sessions))


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
