"""Run the demo agent on stdin and stdout until stdin ends or a signal comes: `python -m dragoman.agents.demo`."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import time

from dragoman.agents.demo.agent import DemoAgent
from dragoman.agents.demo.session import World
from dragoman.agents.demo.store import SessionStore, store_folder
from dragoman.wire.connection import RpcConnection
from dragoman.wire.stdio import stdio_transport
from dragoman.wire.transport import Transport

# Seconds a word: fast enough not to bore, slow enough to be seen as streaming.
DEFAULT_PACE_S = 0.015


# Written at once when reached: a pipe holds 64 KiB, more would only wait here instead of there.
BATCH_BYTES = 64 * 1024


class BatchingTransport:
    """Write through another transport, in batches: all writes of one pass of the event loop go out together.

    Each write to a pipe is a system call, and a stream of words consists of small writes. Order is preserved.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._unsent: list[bytes] = []
        self._size = 0

    async def read(self) -> bytes:
        return await self._transport.read()

    def write(self, data: bytes) -> None:
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self.flush)
        self._unsent.append(data)
        self._size += len(data)
        if self._size >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._unsent:
            data = b"".join(self._unsent)
            self._unsent.clear()
            self._size = 0
            self._transport.write(data)

    async def drain(self) -> None:
        self.flush()
        await self._transport.drain()

    def close(self) -> None:
        self.flush()
        self._transport.close()


async def serve() -> int:
    """Serve one client; return the exit code."""
    stop = asyncio.Event()
    signals: list[signal.Signals] = []

    def signalled(number: signal.Signals) -> None:
        signals.append(number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, signalled, number)
    transport = BatchingTransport(await stdio_transport())
    world = World(
        pace=_pace(os.environ.get("DRAGOMAN_DEMO_PACE")),
        sleep=asyncio.sleep,
        now=time.time,
        exit=os._exit,
        stderr=sys.stderr,
        write_raw=transport.write,
    )
    login_required = os.environ.get("DRAGOMAN_DEMO_AUTH") == "required"
    agent = DemoAgent(SessionStore(store_folder(os.environ)), world, login_required=login_required)
    connection = RpcConnection(transport, agent)
    agent.attach(connection)
    ended = loop.create_task(connection.wait_ended())
    stopped = loop.create_task(stop.wait())
    await asyncio.wait([ended, stopped], return_when=asyncio.FIRST_COMPLETED)
    # Stop the runs and kill their commands, however the end came.
    await connection.close()
    return 128 + signals[0] if signals else 0


def _pace(text: str | None) -> float:
    if not text:
        return DEFAULT_PACE_S
    try:
        return max(0.0, float(text))
    except ValueError:
        print(f"DRAGOMAN_DEMO_PACE={text!r} is not a number of seconds; using {DEFAULT_PACE_S}", file=sys.stderr)
        return DEFAULT_PACE_S


def main() -> int:
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        if not _is_stream(stream.fileno()):
            print(f"The demo agent talks to a client over pipes; its {name} is not a pipe. {_HINT}", file=sys.stderr)
            return 2
    if sys.stdin.isatty():
        print(f"The demo agent waits for JSON-RPC on its stdin. {_HINT}", file=sys.stderr)
    return asyncio.run(serve())


_HINT = "To talk to it, use `dragoman run --agent demo hello`."


def _is_stream(descriptor: int) -> bool:
    """Return False for files and /dev/null, which cannot be waited on: no client is at their other end."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


if __name__ == "__main__":
    sys.exit(main())
