"""`Follower`: shows a run's events, and hands the terminal to a question once the events before it are shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, TypeAlias

from dragoman.record.events import Event

# Entered to ask the user something: inside, the terminal belongs to the question alone.
Floor: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


class FollowedRun(Protocol):
    """A run whose events are taken in batches."""

    @property
    def done(self) -> bool: ...
    @property
    def waiting(self) -> bool: ...
    def claim(self) -> None: ...
    async def next_events(self) -> list[Event]: ...


class Follower:
    """`show` puts events on the screen and returns when they are there."""

    def __init__(self, show: Callable[[Sequence[Event]], Awaitable[None]]) -> None:
        self._show = show
        self._run: FollowedRun | None = None
        self._batch: list[Event] = []  # taken from the run, and not shown
        self._screen = asyncio.Lock()
        self._run_changed = asyncio.Event()

    @property
    def is_free(self) -> bool:
        """True while neither a batch nor a question has the screen."""
        return not self._screen.locked()

    async def follow(self, run: FollowedRun) -> None:
        """Show the run until it is over. From here on the agent is read only as fast as we show."""
        run.claim()
        self._set_run(run)
        try:
            while batch := await run.next_events():
                self._batch = batch
                async with self._screen:
                    await self._show_batch()
        finally:
            self._set_run(None)

    @asynccontextmanager
    async def floor(self, run: FollowedRun | None = None) -> AsyncIterator[None]:
        """Hand the screen to a question of this run, one at a time, in the order they came.

        The events before the question are shown first; those that come meanwhile wait.
        """
        while run is not None and run is not self._run and not run.done:
            self._run_changed.clear()
            await self._run_changed.wait()
        async with self._screen:
            await self._show_batch()
            if run is not None and run.waiting:
                await self._show(await run.next_events())
            yield

    async def _show_batch(self) -> None:
        batch, self._batch = self._batch, []
        if batch:
            await self._show(batch)

    def _set_run(self, run: FollowedRun | None) -> None:
        self._run = run
        self._run_changed.set()
