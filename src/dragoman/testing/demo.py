"""The demo agent for tests: as a process, or in memory. Without pauses, and with a folder of its own."""

from __future__ import annotations

import asyncio
import io
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from dragoman.agents.demo.agent import DemoAgent as DemoAgent
from dragoman.agents.demo.session import World
from dragoman.agents.demo.store import SessionStore
from dragoman.session.spec import AgentSpec
from dragoman.testing.scripted import AgentMain, AgentSide
from dragoman.wire.connection import RpcConnection


def demo_spec(home: Path, *, pace: float = 0.0) -> AgentSpec:
    """Return the spec of the demo agent as a process; its sessions are saved in `home`."""
    return AgentSpec(
        command=[sys.executable, "-P", "-m", "dragoman.agents.demo"],
        env={"DRAGOMAN_DEMO_HOME": str(home), "DRAGOMAN_DEMO_PACE": str(pace)},
        name="demo",
        read_files=True,
        write_files=True,
        terminals=True,
    )


def demo_in_memory(home: Path, *, pace: float = 0.0) -> AgentMain:
    """Return the demo agent in this process, for `in_memory` and `memory_runtime`."""

    async def main(side: AgentSide) -> int:
        loop = asyncio.get_running_loop()
        left: asyncio.Future[int] = loop.create_future()

        def leave(code: int) -> NoReturn:
            side.close()  # from here on nothing is heard of it
            left.set_result(code)
            raise asyncio.CancelledError

        world = World(
            pace=pace, sleep=asyncio.sleep, now=time.time, exit=leave, stderr=_Stderr(side), write_raw=side.write
        )
        agent = DemoAgent(SessionStore(home), world)
        connection = RpcConnection(side, agent)
        agent.attach(connection)
        ended = loop.create_task(connection.wait_ended())
        either: set[asyncio.Future[Any]] = {ended, left}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await connection.close()
            await ended
        return left.result() if left.done() else 0

    return main


class _Stderr(io.StringIO):
    """Whole lines, as they are written."""

    def __init__(self, side: AgentSide) -> None:
        super().__init__()
        self._side = side

    def write(self, text: str) -> int:
        for line in text.splitlines():
            self._side.complain(line)
        return len(text)
