"""`chunks` with Dragoman, as a program would use it: `async for event in run`, keeping each text."""

from __future__ import annotations

import asyncio
import time

import dragoman
from bench.clients.report import WARM_UP_CHUNKS, arguments, check_order, report
from dragoman import events


async def main() -> None:
    options = arguments()
    async with dragoman.AgentRuntime(dragoman.AgentSpec(command=options.agent)) as runtime:
        session = await runtime.open_session(dragoman.SessionConfig(workspace=dragoman.Workspace(options.cwd)))

        async def prompt(count: int) -> tuple[float, list[str]]:
            texts: list[str] = []
            started = time.perf_counter()
            async with session.run(str(count)) as run:
                async for event in run:
                    match event:
                        case events.AssistantDelta(text=text):
                            texts.append(text)
                        case _:
                            pass
            return time.perf_counter() - started, texts

        await prompt(WARM_UP_CHUNKS)
        seconds, texts = await prompt(options.count)
        report(seconds=seconds, late=check_order(texts, options.count))


if __name__ == "__main__":
    asyncio.run(main())
