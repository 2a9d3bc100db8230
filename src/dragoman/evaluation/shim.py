"""`serve_shims`: the server's side of the shim, for agents that take only stdio.

The agent starts `_shim_main.py`, which connects its stdin and stdout to a loopback port here. The first line must be
the token; before it, nothing is read as a message.
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

# For the first line, which the shim sends at once.
GREETING_TIMEOUT_S: Final = 10.0

# For one message from the agent; the same as over HTTP.
MAX_LINE_BYTES: Final = 4 * 1024 * 1024

ServeShim: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def shim_entry(name: str, port: int, token: str) -> McpServerStdio:
    """Return the MCP server entry by which the agent starts the shim."""
    return McpServerStdio(
        name=name,
        command=sys.executable,
        args=("-I", "-S", str(PROGRAM), str(port)),
        env=(EnvVariable(name=TOKEN, value=token),),
    )


@asynccontextmanager
async def serve_shims(serve_shim: ServeShim, listener: socket.socket, token: str) -> AsyncIterator[None]:
    """Accept shims on the socket; call `serve_shim` for each that has the token, until either side ends."""
    tasks: set[asyncio.Task[None]] = set()
    transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()
    expected = GREETING + token.encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                line = await reader.readuntil(b"\n")
            if hmac.compare_digest(line.rstrip(b"\r\n"), expected):
                await serve_shim(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no shim of ours, or one whose agent has ended
        finally:
            writer.close()  # what was written still goes out, to a shim that reads it

    def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        transports.add(writer.transport)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(on_connection, sock=listener, limit=MAX_LINE_BYTES)
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
