"""`terminal` with Dragoman: two sessions in one process; one's updates are timed while the other runs a command.

`--run` is what the second session's agent is prompted with; without it, that session rests.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import time

import dragoman
from bench.clients.report import report
from dragoman import events

WARM_UP = 50


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agent", required=True, type=shlex.split)
    parser.add_argument("--cwd", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--pace", type=int, required=True, help="milliseconds between two updates")
    parser.add_argument("--run", default="")
    options = parser.parse_args()
    spec = dragoman.AgentSpec(command=tuple(options.agent))
    config = dragoman.SessionConfig(workspace=dragoman.Workspace(options.cwd), access="full")
    async with dragoman.AgentRuntime(spec) as ours, dragoman.AgentRuntime(spec) as others:
        timed, other = await ours.open_session(config), await others.open_session(config)
        if options.run:
            result = await other.run(options.run)
            if result.stop_reason != "end_turn":
                raise SystemExit(f"the command does not run: {result.stop_reason}")

        async def delays(count: int) -> list[float]:
            seen: list[float] = []
            async with timed.run(f"tick {count} {options.pace}") as run:
                async for event in run:
                    now = time.monotonic_ns()
                    match event:
                        case events.AssistantDelta(text=text):
                            seen += [(now - int(stamp)) / 1e9 for stamp in text.split()]
                        case _:
                            pass
            return seen

        await delays(WARM_UP)
        seen = sorted(await delays(options.count))
        if len(seen) != options.count:
            raise SystemExit(f"saw {len(seen)} updates; the agent sent {options.count}")
        report(p50=seen[len(seen) // 2], p99=seen[len(seen) * 99 // 100], worst=seen[-1])


if __name__ == "__main__":
    asyncio.run(main())
