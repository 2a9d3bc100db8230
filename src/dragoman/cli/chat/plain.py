"""`PlainLine`: the input of a chat on a terminal that can only write one line after the other (TERM=dumb).

The terminal itself keeps what is typed while the agent speaks; it is read when the agent has finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType

from dragoman.cli.output import STDIN, STDOUT, Outbox
from dragoman.cli.typed_line import read_line

MARK = "> "


class PlainLine:
    """`idle` is set while no run is shown."""

    mark = ""  # what was typed stands there already

    def __init__(self, idle: asyncio.Event) -> None:
        self.outbox = Outbox()
        self.typed = ""  # only the terminal knows
        self._idle = idle
        self._reading = False

    async def __aenter__(self) -> PlainLine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def next(self) -> str | None:
        while True:
            await self._idle.wait()
            self._reading = True
            self.refresh()
            line = await read_line(STDIN)
            self._reading = False
            if line is None:
                self.outbox.put(STDOUT, "\n")
            if line is None or line.strip():
                return line

    def put_back(self, text: str) -> None:
        return  # it still stands there, to be copied

    def clear(self) -> None:
        return  # Ctrl-C has made the terminal forget what was typed

    def refresh(self) -> None:
        """Where a line is awaited and something was written meanwhile, the mark stands there again."""
        if self._reading:
            self.outbox.put(STDOUT, MARK)
            self.outbox.flush_notes_soon()

    @asynccontextmanager
    async def handed_over(self) -> AsyncIterator[None]:
        yield
