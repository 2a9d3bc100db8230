"""Requests that wait for somebody's answer: one table for permissions, questions and answers from elsewhere.

Promised: each request gets one outcome, by the first of: `decide`, `answer`, the coroutine that consults somebody, the
time limit, `withdraw`, `cancel_all`. An answer that comes later is reported as such (False) and changes nothing.
Requests do not wait for each other.
"""

from __future__ import annotations

import asyncio
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
