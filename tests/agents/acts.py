"""Actions and checks that tests of real agents share."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from dragoman import PermissionRequest, Run, events

from .conftest import TIMEOUT_S


async def all_events(run: Run) -> list[events.Event]:
    """Return all events of a run."""
    async with asyncio.timeout(TIMEOUT_S):
        return [event async for event in run]


async def allow(request: PermissionRequest) -> bool:
    return True


async def refuse(request: PermissionRequest) -> bool:
    return False


class Pipe:
    """A named pipe, through which a program of the agent says that it is there."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    async def next_line(self) -> bytes:
        """Return what was written next; empty when all writers are gone."""
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._fd, lambda: None if heard.done() else heard.set_result(None))
        try:
            await heard
        finally:
            loop.remove_reader(self._fd)
        return os.read(self._fd, 100)

    def close(self) -> None:
        os.close(self._fd)


class Tool:
    """A command that never ends, and says when it has begun: agents tell of a command's output late or never."""

    def __init__(self, path: Path) -> None:
        self._pipe = Pipe(path)
        self.command = f"echo begun > {path.name}; tail -f /dev/null"

    async def begun(self) -> None:
        await self._pipe.next_line()
        self._pipe.close()
