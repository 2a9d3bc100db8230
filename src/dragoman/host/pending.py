"""Requests that wait for somebody's answer: one table for permissions, questions and answers from elsewhere.

Promised: each request gets one outcome, by the first of: `decide`, `answer`, the coroutine that consults somebody, the
time limit, `withdraw`, `cancel_all`. An answer that comes later is reported as such (False) and changes nothing.
Requests do not wait for each other.

`call` calls a program's own callback, a plain function or a coroutine function. Neither may block the event loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine, Hashable, Iterator
from typing import Any, Generic, TypeVar

from dragoman.clock import SYSTEM_CLOCK, Clock, timeout

RequestT = TypeVar("RequestT")
OutcomeT = TypeVar("OutcomeT")


class PendingRequest(Generic[RequestT, OutcomeT]):
    """A request under a key; it can be decided from the moment it is made. Made by `PendingRequests.open`."""

    def __init__(self, key: Hashable, request: RequestT) -> None:
        self.key = key
        self.request = request
        self._outcome: asyncio.Future[OutcomeT] = asyncio.get_running_loop().create_future()

    @property
    def is_decided(self) -> bool:
        """True once it has its outcome, or its caller no longer waits for one."""
        return self._outcome.done()

    def decide(self, outcome: OutcomeT) -> bool:
        """Give it its outcome. False: it has one already, and this one comes too late."""
        if self._outcome.done():
            return False
        self._outcome.set_result(outcome)
        return True

    async def _wait(self) -> OutcomeT:
        try:
            return await self._outcome
        finally:
            self._outcome.cancel()  # without effect on an outcome; else nobody waits, and it can no longer be decided


class PendingRequests(Generic[RequestT, OutcomeT]):
    """The requests that are open, in the order in which they came. `time_limit_s` is how long `wait` waits."""

    def __init__(self, *, time_limit_s: float | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self.time_limit_s = time_limit_s
        self._clock = clock
        self._open: dict[PendingRequest[RequestT, OutcomeT], None] = {}
        # The event loop holds tasks weakly, and one that is cancelled may still have something to put away.
        self._consulting: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return the number of requests without an outcome."""
        return sum(not pending.is_decided for pending in self._open)

    def __iter__(self) -> Iterator[PendingRequest[RequestT, OutcomeT]]:
        """Iterate over the requests without an outcome; they may be decided meanwhile."""
        return iter([pending for pending in self._open if not pending.is_decided])

    def open(self, key: Hashable, request: RequestT) -> PendingRequest[RequestT, OutcomeT]:
        """Add a request: it can be answered from now on. `wait` or `withdraw` is to follow."""
        pending: PendingRequest[RequestT, OutcomeT] = PendingRequest(key, request)
        self._open[pending] = None
        return pending

    def get(self, key: Hashable) -> PendingRequest[RequestT, OutcomeT] | None:
        """Return the first request under this key that has no outcome."""
        return next((pending for pending in self if pending.key == key), None)

    def answer(self, key: Hashable, outcome: OutcomeT) -> bool:
        """Decide the request under this key. False: it has its outcome, or was withdrawn, or never was."""
        pending = self.get(key)
        return pending is not None and pending.decide(outcome)

    def withdraw(self, pending: PendingRequest[RequestT, OutcomeT], outcome: OutcomeT) -> bool:
        """Remove a request that nobody will wait for. False: it had its outcome before."""
        self._open.pop(pending, None)
        return pending.decide(outcome)

    def cancel_all(self, outcome_for: Callable[[RequestT], OutcomeT]) -> None:
        """Decide every open request at once."""
        for pending in self:
            pending.decide(outcome_for(pending.request))

    async def wait(
        self,
        pending: PendingRequest[RequestT, OutcomeT],
        consult: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> OutcomeT | None:
        """Wait for the request's outcome; None when the time limit passes without one. Removes the request.

        `consult` begins a coroutine that asks somebody and decides by their answer. It is not called where there is an
        outcome already, and cancelled once it is no longer needed.
        """
        task = None
        if consult is not None and not pending.is_decided:
            task = asyncio.get_running_loop().create_task(consult(), name="dragoman consult")
            self._consulting.add(task)
            task.add_done_callback(self._consulting.discard)
        try:
            async with timeout(self._clock, self.time_limit_s):
                return await pending._wait()
        except TimeoutError:
            return None
        finally:
            self._open.pop(pending, None)
            if task is not None:
                task.cancel()


T = TypeVar("T")


async def call(callback: Callable[[T], object], argument: T) -> object:
    """Call it and return its result. A plain function gets a thread of its own, so that it may wait for a person."""
    if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(type(callback).__call__):
        reply: object = callback(argument)
    else:
        reply = await _in_thread(lambda: callback(argument))
    return await reply if inspect.isawaitable(reply) else reply


async def _in_thread(function: Callable[[], object]) -> object:
    """Do as `asyncio.to_thread`, on a daemon thread: one that waits for a person must not delay the program's exit."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(value: object, error: BaseException | None) -> None:
        if result.done():  # the caller gave up
            if inspect.iscoroutine(value):
                value.close()  # never to be awaited, which is no defect
            return
        if error is None:
            result.set_result(value)
        else:
            result.set_exception(error)

    def run() -> None:
        value: object = None
        error: BaseException | None = None
        try:
            value = context.run(function)
        except BaseException as raised:
            # StopIteration cannot pass through a future, and SystemExit would end the loop.
            error = raised if isinstance(raised, Exception) else RuntimeError(repr(raised))
            if isinstance(raised, StopIteration):
                error = RuntimeError(repr(raised))
        try:
            loop.call_soon_threadsafe(deliver, value, error)
        except RuntimeError:
            pass  # the loop is closed

    threading.Thread(target=run, name="dragoman callback", daemon=True).start()
    return await result
