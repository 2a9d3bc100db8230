"""`ManualClock`: a clock that stands still until a test moves it, for limits and timeouts without real time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable


class _Timer:
    def __init__(self, due_at: float, callback: Callable[[], None]) -> None:
        self.due_at = due_at
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualClock:
    """A `dragoman.clock.Clock`.

    `await clock.wait_for_timers()` returns when the code under test waits for the clock; `clock.advance(seconds)` then
    lets that time pass at once.
    """

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._now = start
        self._time_offset = 0.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = itertools.count()
        self._timer_added = asyncio.Event()

    def time(self) -> float:
        return self._now + self._time_offset

    def monotonic(self) -> float:
        return self._now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(self._now + max(0.0, delay_s), callback)
        heapq.heappush(self._timers, (timer.due_at, next(self._order), timer))
        self._timer_added.set()
        return timer

    async def sleep(self, delay_s: float) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay_s, lambda: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            timer.cancel()

    @property
    def delays(self) -> list[float]:
        """The seconds until each timer that is set is due, the next one first."""
        return [due_at - self._now for due_at, _, timer in sorted(self._timers) if not timer.is_cancelled]

    async def wait_for_timers(self, count: int = 1) -> None:
        """Return when at least `count` timers are set."""
        while len(self.delays) < count:
            self._timer_added.clear()
            await self._timer_added.wait()

    def shift_time_of_day(self, seconds: float) -> None:
        """Set the time of day forward or back. No time passes, and no timer is due."""
        self._time_offset += seconds

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, calling each timer at the moment it is due, in order."""
        target = self._now + seconds
        while self._timers and self._timers[0][0] <= target:
            due_at, _, timer = heapq.heappop(self._timers)
            if not timer.is_cancelled:
                self._now = due_at
                timer.callback()
        self._now = target
