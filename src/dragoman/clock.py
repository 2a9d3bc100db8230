"""The clock that limits, timeouts and heartbeats read, passed in so that a test never waits for a real second.

`SYSTEM_CLOCK` is the real one and the default everywhere; `dragoman.testing.clock.ManualClock` is moved by a test.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol


class Timer(Protocol):
    """A callback that is due later. Cancelling it twice, or after it was called, does nothing."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The time of day, the time that passes, and timers on it. Used on the thread of the running event loop."""

    def time(self) -> float:
        """Return the time of day, in seconds since 1970."""

    def monotonic(self) -> float:
        """Return seconds since some fixed moment; never set back."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the event loop once `delay_s` seconds have passed."""

    async def sleep(self, delay_s: float) -> None:
        """Return once `delay_s` seconds have passed."""


class SystemClock:
    """The machine's own clock."""

    def __repr__(self) -> str:
        return "SYSTEM_CLOCK"  # as a default in the reference

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_s, callback)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)


SYSTEM_CLOCK: Final[Clock] = SystemClock()


@asynccontextmanager
async def timeout(clock: Clock, delay_s: float | None) -> AsyncIterator[None]:
    """Do as `asyncio.timeout` does, by this clock: raise `TimeoutError` after `delay_s` seconds; None is no limit."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as scope:
        timer = None
        if delay_s is not None:
            timer = clock.call_later(delay_s, lambda: scope.reschedule(loop.time()))
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
