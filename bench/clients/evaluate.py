"""`evaluate`: one prompt to an agent of its own, `COUNT` times: plainly, evaluated, or evaluated with a tool."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time

from bench.clients.report import report
from dragoman.evaluation.evaluate import evaluate
from dragoman.hub.local import run

PROMPT = "10"  # so many chunks


def lookup(sku: str) -> int:
    """Return the number in stock."""
    return len(sku)


async def once(how: str, agent: list[str], cwd: str) -> str:
    if how == "run":
        return (await run(agent, PROMPT, cwd=cwd, access="read-only")).text
    tools = [lookup] if how == "tool" else []
    return (await evaluate(agent, PROMPT, cwd=cwd, tools=tools)).text


async def main() -> None:
    how, agent, cwd, count = sys.argv[1], shlex.split(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    seconds: list[float] = []
    for _ in range(count + 1):
        started = time.perf_counter()
        text = await once(how, agent, cwd)
        seconds.append(time.perf_counter() - started)
        if not text.startswith("word 00000000"):
            raise SystemExit(f"the agent said {text[:80]!r}")
    report(first=seconds[0], each=seconds[1:])


if __name__ == "__main__":
    asyncio.run(main())
