"""`open` with Dragoman: a runtime and a session, `--count` times in one process; closing is not timed."""

from __future__ import annotations

import time

STARTED = time.perf_counter()  # before anything of ours is loaded: the cold figure includes the imports

import asyncio  # noqa: E402  as above

import dragoman  # noqa: E402

RUNTIME, SPEC, CONFIG, WORKSPACE = (  # looked up here: Dragoman loads its parts when they are first named
    dragoman.AgentRuntime,
    dragoman.AgentSpec,
    dragoman.SessionConfig,
    dragoman.Workspace,
)
LOADED = time.perf_counter()

from bench.clients.report import arguments, report  # noqa: E402  not part of what is measured


async def main() -> None:
    options = arguments()
    seconds: list[float] = []
    for _ in range(options.count):
        started = time.perf_counter()
        async with RUNTIME(SPEC(command=options.agent)) as runtime:
            await runtime.open_session(CONFIG(workspace=WORKSPACE(options.cwd)))
            seconds.append(time.perf_counter() - started)
    report(load=LOADED - STARTED, opens=seconds)


if __name__ == "__main__":
    asyncio.run(main())
