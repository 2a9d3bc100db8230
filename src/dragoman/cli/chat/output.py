"""`LiveOutbox`: what is written while an input line may stand beneath it.

Promised: order is kept, whether the input line stands there or not; while it does, whole lines go above it, and at most
so many times a second that nothing flickers. Who shows faster than that waits, and with it the agent.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from dragoman.cli.chat.tail import Tail
from dragoman.cli.output import STDOUT, Outbox

# Seconds between two pictures: words still seem to flow, and the terminal has time for everything else.
FRAME = 1 / 30


class Surface(Protocol):
    """Where the input line is drawn."""

    def print_above(self, lines: str) -> None:
        """Whole lines, above the input line, which is drawn anew beneath them."""
        ...

    def refresh(self) -> None:
        """Something else that is drawn has changed: the open line among it."""
        ...


class LiveOutbox(Outbox):
    """Without a surface, at first and while a question has the terminal, it writes to the terminal itself."""

    def __init__(self, width: int) -> None:
        super().__init__(shared=True)
        self.tail = Tail(width)
        self._surface: Surface | None = None
        self._next_frame = 0.0

    def put(self, fd: int, data: bytes | str) -> None:
        if self._surface is None:
            super().put(STDOUT, data)
        else:
            self.tail.feed(data if isinstance(data, str) else data.decode("utf-8", "replace"))

    async def flush(self) -> None:
        loop = asyncio.get_running_loop()
        if self._surface is not None and (wait := self._next_frame - loop.time()) > 0:
            await asyncio.sleep(wait)
        if self._surface is None:
            await super().flush()
            return
        self._next_frame = loop.time() + FRAME
        if lines := self.tail.take():
            self._surface.print_above(lines)
        else:
            self._surface.refresh()

    async def flush_notes(self) -> None:
        await self.flush()

    def attach(self, surface: Surface) -> None:
        """From here on it is drawn there. All that was put before must be flushed, and its last line ended."""
        self._surface = surface

    def detach(self) -> None:
        """From here on it is written to the terminal itself, beginning with what was drawn beside the input."""
        self._surface = None
        super().put(STDOUT, self.tail.take_all())
