"""`million` with Dragoman: one long run, with a mark at each tenth of it. The program itself stores nothing."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import dragoman
from bench.clients.memory import peak, resident
from bench.clients.report import arguments, report
from dragoman import events

PARTS = 10


async def main() -> None:
    options = arguments()
    async with dragoman.AgentRuntime(dragoman.AgentSpec(command=options.agent)) as runtime:
        session = await runtime.open_session(dragoman.SessionConfig(workspace=dragoman.Workspace(options.cwd)))
        part = options.count // PARTS
        chunks, tool_calls, text_bytes = 0, 0, 0
        before = resident()
        walls: list[float] = []
        cpus: list[float] = []
        memory: list[int] = []

        def mark() -> None:
            walls.append(time.perf_counter())
            cpus.append(time.process_time())
            memory.append(resident())

        mark()
        async with session.run(f"{options.count} {options.tool_every}") as run:
            async for event in run:
                match event:
                    case events.AssistantDelta(text=text):
                        chunks += 1
                        text_bytes += len(text)
                        if chunks % part == 0 and len(walls) < PARTS:
                            mark()
                    case events.ToolCall():
                        tool_calls += 1
                    case _:
                        pass
        mark()  # the last part ends with the run, so that whatever the end itself costs is counted
        expected = options.count // options.tool_every if options.tool_every else 0
        if (chunks, tool_calls) != (options.count, expected):
            raise SystemExit(
                f"saw {chunks} chunks and {tool_calls} tool calls; the agent sent {options.count} and {expected}"
            )
        report(
            part_seconds=[later - earlier for earlier, later in pairwise(walls)],
            part_cpu_seconds=[later - earlier for earlier, later in pairwise(cpus)],
            memory=memory,
            growth=peak() - before,
            text_bytes=text_bytes,
        )


if __name__ == "__main__":
    asyncio.run(main())
