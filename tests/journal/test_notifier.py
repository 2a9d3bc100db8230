"""Readers of the journal are woken: by this process, by another one, and when the journal is closed."""

from __future__ import annotations

import asyncio
import queue
import threading

from dragoman.journal.sqlite.writer import MAX_POLL_S, MIN_POLL_S, ChangeNotifier


async def wait_for(event: asyncio.Event) -> None:
    async with asyncio.timeout(20):
        await event.wait()
    event.clear()


class PollSteps:
    """Stands for the time between two looks: the polling thread takes a step only when the test allows it."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._allowed: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._at_rest = threading.Semaphore(0)

    def wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        self._at_rest.release()
        return self._allowed.get()

    async def step(self) -> None:
        """Let the thread look once, and return when it has done so."""
        self._allowed.put(False)
        await self.rest()

    async def rest(self) -> None:
        """Return when the thread waits for its next step, and its notifications have been delivered."""
        assert await asyncio.to_thread(self._at_rest.acquire, timeout=20)
        await asyncio.sleep(0)

    def end(self) -> None:
        self._allowed.put(True)


async def test_a_commit_between_the_last_read_and_the_first_look_is_not_missed() -> None:
    version = 1
    committed = threading.Event()

    def read_version() -> int:
        assert committed.wait(20)  # the first look comes after the commit, and sees nothing but the new version
        return version

    steps = PollSteps()
    notifier = ChangeNotifier(read_version, steps.wait)
    with notifier.subscribe() as event:
        last_read = version
        assert not event.is_set()
        version = 2
        committed.set()
        await wait_for(event)
        assert version != last_read
        await steps.rest()
        await steps.step()
        assert not event.is_set()  # nothing was committed since
    steps.end()
    notifier.close()


async def test_a_commit_of_another_process_wakes_all() -> None:
    version = 1
    steps = PollSteps()
    notifier = ChangeNotifier(lambda: version, steps.wait)
    with notifier.subscribe() as first, notifier.subscribe() as second:
        await steps.rest()
        first.clear()
        second.clear()
        await steps.step()
        assert not first.is_set()
        assert not second.is_set()
        version = 2
        await steps.step()
        assert first.is_set()
        assert second.is_set()
    steps.end()
    notifier.close()


async def test_a_commit_without_subscribers_wakes_the_next_one() -> None:
    version = 1
    steps = PollSteps()
    notifier = ChangeNotifier(lambda: version, steps.wait)
    with notifier.subscribe():
        await steps.rest()
    version = 2
    with notifier.subscribe() as event:
        await steps.step()
        assert event.is_set()
    steps.end()
    notifier.close()


async def test_the_pauses_grow_while_nothing_happens_and_start_again_with_a_commit() -> None:
    version = 1
    steps = PollSteps()
    notifier = ChangeNotifier(lambda: version, steps.wait)
    with notifier.subscribe():
        await steps.rest()
        for _ in range(20):
            await steps.step()
        assert steps.pauses[:2] == [MIN_POLL_S, MIN_POLL_S * 1.5]
        assert steps.pauses == sorted(steps.pauses)
        assert steps.pauses[-1] == MAX_POLL_S
        version = 2
        await steps.step()
        assert steps.pauses[-1] == MIN_POLL_S
    steps.end()
    notifier.close()


async def test_a_commit_of_this_process_wakes_without_a_look() -> None:
    notifier = ChangeNotifier()
    with notifier.subscribe() as event:
        assert not event.is_set()
        await asyncio.to_thread(notifier.notify)
        await wait_for(event)
    notifier.close()


async def test_closing_wakes_all_and_can_be_seen() -> None:
    notifier = ChangeNotifier()
    with notifier.subscribe() as event:
        was_closed = notifier.is_closed
        notifier.close()
        await wait_for(event)
        assert (was_closed, notifier.is_closed) == (False, True)
    notifier.close()
