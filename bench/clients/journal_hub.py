"""`journal` as a program has it: sessions of a hub, `async for event in run`, each event shown when it is committed.

With `--tool-every N` (the argument that says how many of something) N sessions are prompted at once, each on an agent
of its own.
"""

from __future__ import annotations

import asyncio
import tempfile
import time

from bench.clients.journal_burst import lag
from bench.clients.report import WARM_UP_CHUNKS, arguments, check_order, report
from dragoman import AgentRuntime, AgentSpec, Session, SessionConfig, Workspace, events
from dragoman.hub.hub import Hub


async def opened(hub: Hub, agent: tuple[str, ...], cwd: str) -> tuple[AgentRuntime, Session]:
    runtime = AgentRuntime(AgentSpec(command=agent))
    runtime.keep_in(hub.journal_client)
    await runtime.start()
    return runtime, await runtime.open_session(SessionConfig(workspace=Workspace(cwd)))


async def prompt(session: Session, count: int) -> list[str]:
    texts: list[str] = []
    async with session.run(str(count)) as run:
        async for event in run:
            match event:
                case events.AssistantDelta(text=text):
                    texts.append(text)
                case _:
                    pass
    return texts


async def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.cwd) as home:
        async with Hub(home) as hub:
            talks = [await opened(hub, options.agent, options.cwd) for _ in range(options.tool_every or 1)]
            for _, session in talks:
                await prompt(session, WARM_UP_CHUNKS)
            delays: list[float] = []
            ticking = asyncio.create_task(lag(delays))
            started = time.perf_counter()
            texts = await asyncio.gather(*(prompt(session, options.count) for _, session in talks))
            seconds = time.perf_counter() - started
            ticking.cancel()
            for runtime, _ in talks:
                await runtime.close()
        delays.sort()
        report(
            seconds=seconds,
            late=max(check_order(one, options.count) for one in texts),
            lag=delays[len(delays) * 99 // 100] if delays else 0.0,
        )


if __name__ == "__main__":
    asyncio.run(main())
