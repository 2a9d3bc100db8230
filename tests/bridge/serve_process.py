"""`dragoman serve` as users start it: a real process, with a home folder of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from dragoman.bridge.tokens import Tokens
from dragoman.protocol.messages import Scope

TIMEOUT_S = 40.0
"""Seconds until a test gives up waiting: far more than anything here takes."""


def environ(home: Path, **more: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("DRAGOMAN_", "JOURNAL_"))}
    own = {"DRAGOMAN_HOME": str(home), "DRAGOMAN_DEMO_PACE": "0", "DRAGOMAN_CHECKPOINTS": "off", "NO_BROWSER": "1"}
    return {**ours, **own, **more}


async def dragoman(home: Path, *arguments: str) -> tuple[int, str, str]:
    """A command, its exit code, and what it said on stdout and stderr."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "dragoman", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=environ(home))
    async with asyncio.timeout(TIMEOUT_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


class Server:
    """A running `dragoman serve`. `output` is what it has printed so far."""

    def __init__(self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, home: Path) -> None:
        self.process = process
        self.home = home
        self.output = ""
        self._reader = reader

    async def until(self, pattern: str) -> re.Match[str]:
        """Read on until the server has printed a match of the pattern."""
        async with asyncio.timeout(TIMEOUT_S):
            while (found := re.search(pattern, self.output)) is None:
                chunk = await self._reader.read(4096)
                assert chunk, f"it ended without {pattern!r}: {self.output}"
                self.output += chunk.decode()
        return found

    async def link(self) -> str:
        """A new link. The server prints one only on a terminal."""
        await self.until("For a link:")
        _, output, _ = await dragoman(self.home, "token", "link")
        found = re.search(r"(https?://\S+/pair#\S+)\s", output)
        assert found is not None, output
        return found[1]

    async def url(self) -> str:
        return (await self.until(r"Dragoman is running at (\S+)\s"))[1]

    async def end(self, *signals: signal.Signals) -> int:
        for number in signals or (signal.SIGTERM,):
            self.process.send_signal(number)
        async with asyncio.timeout(TIMEOUT_S):
            code = await self.process.wait()
            self.output += (await self._reader.read()).decode()
        return code

    async def stderr(self) -> str:
        assert self.process.stderr is not None
        return (await self.process.stderr.read()).decode()

    def token(self, scope: Scope = "admin") -> str:
        """Create a token in the home folder, as `dragoman token create` does."""
        return Tokens(self.home).create("a test", scope)[0]

    async def program(self, scope: Scope = "admin", **client: Any) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.token(scope)}"}
        return httpx.AsyncClient(
            base_url=await self.url(), headers=headers, trust_env=False, timeout=TIMEOUT_S, **client
        )


@asynccontextmanager
async def served(home: Path, *options: str, **variables: str) -> AsyncIterator[Server]:
    """The server, on a free port by default."""
    port = () if "--port" in options else ("--port", "0")
    command = (sys.executable, "-m", "dragoman", "serve", *port, *options)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environ(home, **variables)
    )
    assert process.stdout is not None
    reader = process.stdout
    try:
        yield Server(process, reader, home)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
