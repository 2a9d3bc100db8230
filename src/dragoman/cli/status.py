"""What a person sees while an agent starts, or thinks: nothing at first, then that it takes its time."""

from __future__ import annotations

import asyncio
from types import TracebackType

from dragoman.cli.output import STDERR, Outbox
from dragoman.cli.screen import CLEAR_LINE
from dragoman.cli.text import one_line

# An installed agent is there sooner than this; a first `npx` takes half a minute.
PATIENCE = 1.0
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_TIME = 0.125


class Waiting:
    """A moving line on stderr, from one second after the start until the block is left. Only for terminals.

    `doing` is what takes so long: "starting opencode". `last_line` is the last that was heard of it.
    """

    def __init__(self, outbox: Outbox, doing: str, *, width: int, shown: bool) -> None:
        self._outbox = outbox
        self._doing = doing
        self._width = width
        self._shown = shown
        self._drawn = False
        self._task: asyncio.Task[None] | None = None
        self.last_line = ""
        self._halted = False

    async def __aenter__(self) -> Waiting:
        if self._shown:
            self._task = asyncio.get_running_loop().create_task(self._move(), name="dragoman starting")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """There is something to see now."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.wipe()

    def wipe(self) -> None:
        if self._drawn:
            self._drawn = False
            self._outbox.put(STDERR, CLEAR_LINE)
            self._outbox.flush_notes_soon()

    def halt(self) -> None:
        """Somebody is asked something meanwhile, and nothing may be drawn over it."""
        self._halted = True
        self.wipe()

    async def _move(self) -> None:
        await asyncio.sleep(PATIENCE)
        loop = asyncio.get_running_loop()
        began = loop.time() - PATIENCE
        while True:
            elapsed = loop.time() - began
            frame = FRAMES[int(elapsed / FRAME_TIME) % len(FRAMES)]
            said = f": {self.last_line}" if self.last_line else ""
            line = one_line(f"{frame} {self._doing} ({elapsed:.0f}s){said}", self._width - 1)
            if not self._halted:
                self._drawn = True
                self._outbox.put(STDERR, CLEAR_LINE + line)
                await self._outbox.flush_notes()
            await asyncio.sleep(FRAME_TIME)
