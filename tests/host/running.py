"""Commands that an agent runs through the host, and a line that tells when they are gone."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from dragoman.host.terminal.output import Chunk
from dragoman.host.terminal.terminal import Terminal

from .conftest import TIMEOUT_S, Agent

# In `_meta`: the command is to have no terminal.
PIPES = {"dragoman": {"pty": False}}


class Lifeline:
    """A named pipe that commands hold open (`exec 9>"$LIFELINE"`): its end is the moment when all of them are gone."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path

    async def listen(self, lines: int) -> asyncio.StreamReader:
        """Wait until so many lines were said on it; the rest of the reader is what comes until all have ended."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        file = await asyncio.to_thread(open, self.path, "rb", 0)  # opens when the first writer does
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        self.transport = transport
        self.lines_read = [(await reader.readline()).decode().strip() for _ in range(lines)]
        return reader


async def create(agent: Agent, command: str, *args: str, **more: Any) -> str:
    answer = await agent.ask("terminal/create", command=command, args=args, **more)
    terminal_id = answer["terminalId"]
    assert isinstance(terminal_id, str)
    return terminal_id


async def wait(agent: Agent, terminal: str) -> dict[str, Any]:
    async with asyncio.timeout(TIMEOUT_S):
        return await agent.ask("terminal/wait_for_exit", terminalId=terminal)


async def output(agent: Agent, terminal: str) -> dict[str, Any]:
    return await agent.ask("terminal/output", terminalId=terminal)


async def ran(agent: Agent, command: str, *args: str, **more: Any) -> dict[str, Any]:
    terminal = await create(agent, command, *args, **more)
    await wait(agent, terminal)
    return await output(agent, terminal)


async def until(terminal: Terminal, word: bytes) -> bytes:
    seen = b""
    async with asyncio.timeout(TIMEOUT_S):
        async for chunk in terminal.follow():
            seen += chunk.data
            if word in seen:
                return seen
    raise AssertionError(f"ended after {seen!r}")


async def everything(terminal: Terminal, after: int = 0) -> list[Chunk]:
    async with asyncio.timeout(TIMEOUT_S):
        return [chunk async for chunk in terminal.follow(after)]
