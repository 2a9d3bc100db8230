"""`sandbox` with Dragoman: a runtime and a session in a sandbox, and a command there, `--count` times in one process.

Closing is not timed; nor is the trial of the mechanisms, which a process makes once.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from argparse import ArgumentParser
from pathlib import Path

from bench.clients.report import report
from dragoman import AgentRuntime, AgentSpec, SessionConfig, Workspace
from dragoman.host.terminal.terminal import start
from dragoman.workspace.sandbox import this_machine
from dragoman.workspace.sandbox_policy import SandboxPolicy, choose_mechanism


async def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--agent", required=True, type=shlex.split)
    parser.add_argument("--cwd", required=True, type=Path)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--sandbox", default="off")
    parser.add_argument("--network", default="on")
    options = parser.parse_args()
    workspace = Workspace(options.cwd)
    policy = None
    if options.sandbox != "off":
        choose_mechanism(options.sandbox, this_machine())
        policy = SandboxPolicy(
            mechanism=options.sandbox,
            folders=workspace.folders,
            network=options.network == "on",
            programs=tuple(options.agent),
        )
    opens: list[float] = []
    commands: list[float] = []
    for _ in range(options.count):
        started = time.perf_counter()
        async with AgentRuntime(AgentSpec(command=options.agent, cwd=workspace.cwd, sandbox=policy)) as runtime:
            await runtime.open_session(SessionConfig(workspace=workspace))
            opens.append(time.perf_counter() - started)
            started = time.perf_counter()
            terminal = await start(
                "terminal",
                ["/bin/true"],
                cwd=workspace.cwd,
                env=dict(os.environ),
                limit=1000,
                pty=None,
                rows=24,
                sandbox=runtime.sandbox,
            )
            await terminal.wait()
            commands.append(time.perf_counter() - started)
            await terminal.end()
    report(opens=opens, commands=commands)


if __name__ == "__main__":
    asyncio.run(main())
