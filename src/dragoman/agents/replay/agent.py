"""The shell of the replay agent: a player on a transport, and the clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from dragoman.agents.replay.player import Player
from dragoman.wire.framing import LineFramer
from dragoman.wire.messages import Oversized
from dragoman.wire.transport import Transport


async def serve(transport: Transport, player: Player, clock: Callable[[], float] = time.monotonic) -> None:
    """Plays until the client closes its side."""
    framer = LineFramer()
    reading = asyncio.ensure_future(transport.read())
    try:
        while True:
            pause = None if player.wake is None else max(0.0, player.wake - clock())
            await asyncio.wait([reading], timeout=pause)
            if reading.done():
                data = reading.result()
                if not data:
                    return
                for line in framer.feed(data):
                    if not isinstance(line, Oversized):
                        player.hear(line)
                        # After each line: a cancel in the same breath as its prompt comes when that has begun.
                        _write(transport, player.step(clock()))
                reading = asyncio.ensure_future(transport.read())
            else:
                _write(transport, player.step(clock()))
            await transport.drain()
    finally:
        reading.cancel()
        await asyncio.wait([reading])


def _write(transport: Transport, lines: list[bytes]) -> None:
    if lines:
        transport.write(b"".join(lines))
