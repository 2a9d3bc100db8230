"""Our side of the shim: where agents that take only stdio come in.

A loopback port on which `_shim_main.py`, started by the agent, joins its stdin and stdout to us. The first line has to
be the token; until it was, nothing that comes is read as anything else.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import sys
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

from dragoman.evaluation._shim_main import GREETING, TOKEN
from dragoman.wire.vocabulary import EnvVariable, McpServerStdio

PROGRAM: Final = Path(__file__).with_name("_shim_main.py")

GREETING_LIMIT: Final = 10.0
"""Seconds for the first line, which the shim sends at once."""

LINE_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of one message from the agent; the same as over HTTP."""

Joined: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def entry(name: str, port: int, token: str) -> McpServerStdio:
    """Return the MCP server entry by which the agent starts the shim."""
    return McpServerStdio(
        name=name,
        command=sys.executable,
        args=("-I", "-S", str(PROGRAM), str(port)),
        env=(EnvVariable(name=TOKEN, value=token),),
    )


@asynccontextmanager
async def joining(joined: Joined, on: socket.socket, token: str) -> AsyncIterator[None]:
    """Lets shims in on the socket; each that has the token is `joined` until either side ends."""
    tasks: set[asyncio.Task[None]] = set()
    transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()
    expected = GREETING + token.encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(GREETING_LIMIT):
                line = await reader.readuntil(b"\n")
            if hmac.compare_digest(line.rstrip(b"\r\n"), expected):
                await joined(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no shim of ours, or one whose agent has ended
        finally:
            writer.close()  # what was written still goes out, to a shim that reads it

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        transports.add(writer.transport)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accepted, sock=on, limit=LINE_LIMIT)
    try:
        yield
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for transport in transports:
            transport.abort()  # of one that does not read, too
        await asyncio.sleep(0)  # transports close their sockets in the loop's next turn
