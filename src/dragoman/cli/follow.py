"""`Follower`: a run's events on their way to the screen, how far they have got, and who may halt them to ask."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

from dragoman.record.events import Event, RunCompleted, RunStarted
from dragoman.session.run import Run

# Enter it to ask a person something: inside, the terminal is the asker's alone.
Floor: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


class Follower:
    """`show` puts events on the screen and returns when they are there."""

    def __init__(self, show: Callable[[Sequence[Event]], Awaitable[None]]) -> None:
        self._show = show
        self._emitted: Counter[str] = Counter()  # by run
        self._shown: Counter[str] = Counter()
        self._active: str | None = None
        self._moved = asyncio.Event()
        self._turn = asyncio.Lock()
        self.free = asyncio.Event()  # not set while someone has the floor
        self.free.set()

    def heard(self, event: Event) -> None:
        """Every event at the moment it happens; those of a run come again, by way of its queue."""
        run_id = event.run_id
        if run_id is None:
            return
        self._emitted[run_id] += 1
        if type(event) is RunStarted:
            self._active = run_id
        elif type(event) is RunCompleted and self._active == run_id:
            self._active = None
            self._moved.set()

    async def follow(self, run: Run) -> None:
        """Shows the run until it is over. From here on the agent is read only as fast as we show."""
        aiter(run)
        while batch := await run.next_events():
            await self.free.wait()
            await self._show(batch)
            self._shown[run.id] += len(batch)
            self._moved.set()
        del self._emitted[run.id], self._shown[run.id]

    @asynccontextmanager
    async def floor(self) -> AsyncIterator[None]:
        """One at a time, in the order they came: waits until all that the agent said before is on the screen; what it
        says meanwhile has to wait."""
        async with self._turn:
            await self._caught_up()
            self.free.clear()
            try:
                yield
            finally:
                self.free.set()

    async def _caught_up(self) -> None:
        """Returns when all that the run brought so far is on the screen, or the run is over."""
        run_id = self._active
        target = self._emitted[run_id] if run_id is not None else 0
        while run_id is not None and run_id == self._active and self._shown[run_id] < target:
            self._moved.clear()
            await self._moved.wait()
