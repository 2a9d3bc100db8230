"""`ChangeNotifier`: wakes the readers of a journal after each commit, of this process or of another one.

A notification carries nothing: readers read the journal by themselves, so that a slow reader holds no memory.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

# Seconds between two looks for commits of other processes; the pause grows while nothing happens. Nobody notices the
# shortest, and the longest still costs next to nothing.
MIN_POLL_S: Final = 0.01
MAX_POLL_S: Final = 0.25


class ChangeNotifier:
    """Serves any number of event loops and threads.

    `read_version` returns a number that changes with each commit of any process. A thread of its own calls it, and
    only while there is a subscriber. `wait` pauses that thread for so many seconds and returns True once the notifier
    is closed; tests replace it to be independent of time.
    """

    def __init__(
        self, read_version: Callable[[], int] | None = None, wait: Callable[[float], bool] | None = None
    ) -> None:
        self._read_version = read_version
        self._lock = threading.Lock()
        self._subscribers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._closed = threading.Event()
        self._has_subscribers = threading.Event()
        self._wait = wait or self._closed.wait
        self._thread: threading.Thread | None = None

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    @contextmanager
    def subscribe(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set when there may be more to read. Clear it before reading, to miss nothing."""
        event = asyncio.Event()
        with self._lock:
            self._subscribers[event] = asyncio.get_running_loop()
            if self._read_version is not None and self._thread is None and not self.is_closed:
                self._thread = threading.Thread(target=self._poll, name="dragoman journal notifier", daemon=True)
                self._thread.start()
            self._has_subscribers.set()
        try:
            yield event
        finally:
            with self._lock:
                del self._subscribers[event]
                if not self._subscribers:
                    self._has_subscribers.clear()

    def notify(self) -> None:
        """Wake all subscribers. May be called from any thread."""
        with self._lock:
            subscribers = list(self._subscribers.items())
        for event, loop in subscribers:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:
                pass  # the subscriber's loop has ended

    def close(self) -> None:
        """Wake all subscribers, who then find the notifier closed, and end the thread."""
        self._closed.set()
        self._has_subscribers.set()
        self.notify()
        if self._thread is not None:
            self._thread.join()

    def _poll(self) -> None:
        assert self._read_version is not None
        pause = MIN_POLL_S
        last_version = self._read_version()
        self.notify()  # a commit may have come between a subscriber's last read and this first look
        while not self._wait(pause):
            self._has_subscribers.wait()
            version = self._read_version()
            if version != last_version:
                last_version = version
                pause = MIN_POLL_S
                self.notify()
            else:
                pause = min(pause * 1.5, MAX_POLL_S)
