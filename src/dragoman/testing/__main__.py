"""`python -m dragoman.testing FILE.py:NAME`: a scripted agent on stdin and stdout."""

from __future__ import annotations

import asyncio
import runpy
import sys

from dragoman.testing.scripted import AgentSide, ScriptedAgent
from dragoman.wire.stdio import stdio_transport


async def serve(agent: ScriptedAgent) -> int:
    side = AgentSide(await stdio_transport(), lambda line: print(line, file=sys.stderr, flush=True))
    return await agent.main(side)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or ":" not in arguments[0]:
        print("usage: python -m dragoman.testing FILE.py:NAME", file=sys.stderr)
        return 2
    path, _, name = arguments[0].rpartition(":")
    names = runpy.run_path(path)
    if name not in names:
        print(f"{path} defines no {name!r}", file=sys.stderr)
        return 2
    found = names[name]
    return asyncio.run(serve(found if isinstance(found, ScriptedAgent) else ScriptedAgent(found)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
