"""`News`: wakes those who wait for the journal to go on, when this process commits and when another one does.

Nothing is handed over but the fact that there is something to read: a reader who is slow holds no memory.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

# Seconds between two looks at the file for commits of other processes; more and more while nothing happens. The first
# is less than a person notices, the last still costs next to nothing.
_SOONEST: Final = 0.01
_LATEST: Final = 0.25


class News:
    """For any number of loops and threads. `look` tells a number that changes with each commit of anyone; it is asked
    in a thread of its own, and only while someone listens."""

    def __init__(self, look: Callable[[], int] | None = None) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._over = threading.Event()
        self._someone = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def over(self) -> bool:
        return self._over.is_set()

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """An event that is set when there may be news. Clear it before reading, so that none is missed."""
        event = asyncio.Event()
        with self._lock:
            self._waiting[event] = asyncio.get_running_loop()
            if self._look is not None and self._thread is None and not self.over:
                self._thread = threading.Thread(target=self._watch, name="dragoman journal news", daemon=True)
                self._thread.start()
            self._someone.set()
        try:
            yield event
        finally:
            with self._lock:
                del self._waiting[event]
                if not self._waiting:
                    self._someone.clear()

    def tell(self) -> None:
        """From any thread."""
        with self._lock:
            waiting = list(self._waiting.items())
        for event, loop in waiting:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:
                pass  # its loop has ended without it

    def close(self) -> None:
        """All who listen are woken and find that it is over."""
        self._over.set()
        self._someone.set()
        self.tell()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        assert self._look is not None
        pause = _SOONEST
        known = self._look()
        self.tell()  # of what was committed before the first look
        while not self._over.wait(pause):
            self._someone.wait()
            seen = self._look()
            if seen != known:
                known = seen
                pause = _SOONEST
                self.tell()
            else:
                pause = min(pause * 1.5, _LATEST)
