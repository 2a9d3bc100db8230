"""`python -m dragoman.agents.demo`: the demo agent on stdin and stdout, until stdin ends or a signal comes."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import time

from dragoman.agents.demo.agent import DemoAgent
from dragoman.agents.demo.outbox import Outbox
from dragoman.agents.demo.store import Store, home_of
from dragoman.agents.demo.turn import World
from dragoman.wire.connection import Connection
from dragoman.wire.stdio import stdio_transport

# Seconds a word: fast enough not to bore, slow enough to be seen as streaming.
DEFAULT_PACE = 0.015


async def serve() -> int:
    """Serves one client; the exit code."""
    stop = asyncio.Event()
    signals: list[signal.Signals] = []

    def signalled(number: signal.Signals) -> None:
        signals.append(number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, signalled, number)
    outbox = Outbox(await stdio_transport())
    world = World(
        pace=_pace(os.environ.get("DRAGOMAN_DEMO_PACE")),
        sleep=asyncio.sleep,
        now=time.time,
        exit=os._exit,
        stderr=sys.stderr,
        write_raw=outbox.write,
    )
    login_required = os.environ.get("DRAGOMAN_DEMO_AUTH") == "required"
    agent = DemoAgent(Store(home_of(os.environ)), world, login_required=login_required)
    connection = Connection(outbox, agent)
    agent.attach(connection)
    ended = loop.create_task(connection.wait_ended())
    stopped = loop.create_task(stop.wait())
    await asyncio.wait([ended, stopped], return_when=asyncio.FIRST_COMPLETED)
    # Turns stop and their commands are killed here, whichever way it came.
    await connection.close()
    return 128 + signals[0] if signals else 0


def _pace(text: str | None) -> float:
    if not text:
        return DEFAULT_PACE
    try:
        return max(0.0, float(text))
    except ValueError:
        print(f"DRAGOMAN_DEMO_PACE={text!r} is no number of seconds; taking {DEFAULT_PACE}", file=sys.stderr)
        return DEFAULT_PACE


def main() -> int:
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        if not _is_stream(stream.fileno()):
            print(f"The demo agent talks to a client over pipes; its {name} is none. {_HINT}", file=sys.stderr)
            return 2
    if sys.stdin.isatty():
        print(f"The demo agent waits for JSON-RPC on its stdin. {_HINT}", file=sys.stderr)
    return asyncio.run(serve())


_HINT = "To talk to it, use `dragoman run --agent demo hello`."


def _is_stream(descriptor: int) -> bool:
    """Files and /dev/null cannot be waited on, so a client is never at their other end."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


if __name__ == "__main__":
    sys.exit(main())
