"""A run: one prompt until it stops.

It is awaitable (the result, or the error it ended with), an async iterable of events, and an async
context manager that cancels what still runs when the block is left.

Backpressure: events wait in the run's queue until they are iterated; when it is full the agent is not
read. `await run` alone drains: nobody will look at the events, so none are kept.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from types import TracebackType
from typing import Literal, Protocol

from dragoman.errors import DeadlineExceeded, DragomanError, IdleLimitExceeded, InputError, LimitExceeded
from dragoman.host.policy.rules import Rule
from dragoman.record import events, rows
from dragoman.record.events import Event, join_texts
from dragoman.record.fold import SessionFold
from dragoman.session.idle import IdleWatch
from dragoman.session.result import RunOutcome, RunResult, failure_of

# Events that may wait for a program that iterates slowly; each stands for one frame of the agent.
HIGH_WATER = 8192
# Reading goes on when the queue is down to this: fewer wake-ups than one an event.
LOW_WATER = 2048
# What a run that is being cancelled may still bring while nobody iterates over it.
CANCEL_WATER = 16 * HIGH_WATER


class Owner(Protocol):
    """The session of a run, as far as the run has to do with it: one with a process here, or one on a server."""

    @property
    def id(self) -> str: ...
    @property
    def fold(self) -> SessionFold: ...
    @property
    def agent_name(self) -> str: ...
    @property
    def frames(self) -> int: ...
    @property
    def at_work(self) -> bool: ...
    def cancel_run(self, run: Run) -> None: ...
    def wake_reader(self) -> None: ...
    def emit(self, run: Run | None, event: Event) -> None: ...
    def stderr_tail(self) -> str: ...
    def explained(self, failure: DragomanError) -> DragomanError: ...


class Run:
    def __init__(
        self,
        session: Owner,
        run_id: str,
        *,
        deadline: float | None,
        idle_limit: float | None,
        heartbeat: Callable[[], None] | None,
        rules: tuple[Rule, ...] = (),
    ) -> None:
        self.id = run_id
        self.rules = rules
        self._session = session
        self._deadline = deadline
        self._idle_limit = idle_limit
        self.heartbeat = heartbeat
        self._queue: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None  # of an iterator that found the queue empty
        self._reader: Literal["nobody", "iterator", "drained"] = "nobody"
        self.wants_events = True  # False once it is drained: nobody will look at them
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watch: asyncio.Task[None] | None = None
        self._limit: LimitExceeded | None = None
        self._row: rows.Run | None = None
        self._first_message = 0
        self._result: RunResult | None = None
        self._failure: DragomanError | None = None
        self.cancelling = False

    # -- for programs

    async def result(self) -> RunResult:
        """Waits for the end. Raises what the run failed with; a cancelled run returns its result."""
        if self._reader == "nobody":
            self.drain()
        try:
            await asyncio.shield(self._finished)
        except asyncio.CancelledError:
            # Who waits no longer wants it: the agent is told, and told so politely.
            if not self._finished.done():
                self._session.cancel_run(self)
            raise
        if self._failure is not None:
            raise self._failure
        assert self._result is not None
        return self._result

    def __await__(self) -> Generator[None, None, RunResult]:
        return self.result().__await__()

    def __aiter__(self) -> AsyncIterator[Event]:
        self.claim()
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Event]:
        queue = self._queue
        try:
            while queue or await self._more():
                yield queue.popleft()
                if len(queue) == LOW_WATER:
                    self._session.wake_reader()
        finally:
            self.drain()  # who leaves the loop early will look at none of the rest, and must not hold up the agent

    def claim(self) -> None:
        """From here on the events are for one reader alone."""
        if self._reader != "nobody":
            raise InputError(
                "the events of a run can be iterated once, and not after it was awaited",
                guidance="Iterate first, then await the run for its result.",
            )
        self._reader = "iterator"

    async def _more(self) -> bool:
        """Waits for an event; False when the run is over and all were taken."""
        while not self._queue:
            if self._finished.done():
                return False
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            self._session.wake_reader()
            try:
                await waiter
            finally:
                self._waiter = None
        return True

    async def next_events(self) -> list[Event]:
        """All that wait, at least one; empty when the run is over. For readers on another thread."""
        await self._more()
        batch = list(self._queue)
        self._queue.clear()
        self._session.wake_reader()
        return batch

    async def cancel(self) -> None:
        """Asks the agent to stop and returns when it has; within the grace, then it is made to."""
        self._session.cancel_run(self)
        await asyncio.shield(self._finished)

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished.done():
            self.drain()
            await self.cancel()

    @property
    def done(self) -> bool:
        return self._finished.done()

    # -- for the session

    @property
    def waiting(self) -> bool:
        """Events wait to be iterated."""
        return bool(self._queue)

    @property
    def full(self) -> bool:
        return len(self._queue) > HIGH_WATER

    @property
    def hungry(self) -> bool:
        """Someone waits for what this run brings next."""
        if self._reader == "drained" or self._waiter is not None:
            return True
        # The answer to a cancel lies behind what is still said. One who floods on instead of answering is not
        # heard for ever, and ended when the grace is over.
        return self.cancelling and len(self._queue) < CANCEL_WATER

    def push(self, event: Event) -> None:
        self._queue.append(event)
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def began(self) -> None:
        self._first_message = len(self._session.fold.messages)

    def sent(self) -> None:
        """The prompt is on its way: from here on the limits count."""
        if self._deadline is not None or self._idle_limit is not None:
            self._watch = asyncio.get_running_loop().create_task(self._watch_limits(), name="dragoman limits")

    def ended(self, row: rows.Run) -> None:
        """The fold says that the run is over."""
        self._row = row
        agent, stderr = self._session.agent_name, self._session.stderr_tail()
        failure = self._limit or failure_of(row, agent, stderr)
        if failure is not None:
            failure = self._session.explained(failure)
        self._finish(row, failure)

    def dropped(self, time: float) -> None:
        """Cancelled before it began: it never reached the agent."""
        self._finish(rows.Run(id=self.id, time=time, status="cancelled", ended_time=time), None)

    def lost(self, failure: DragomanError, time: float) -> None:
        """The agent was gone before it began."""
        self._finish(rows.Run(id=self.id, time=time, status="interrupted", ended_time=time), failure)

    async def ended_within(self, seconds: float) -> bool:
        done, _ = await asyncio.wait([self._finished], timeout=seconds)
        return bool(done)

    def _finish(self, row: rows.Run, failure: DragomanError | None) -> None:
        if self._finished.done():
            return
        if self._watch is not None:
            self._watch.cancel()
        status: RunOutcome = "error" if failure is not None else "cancelled" if row.status == "cancelled" else "success"
        result = self._result = self._make_result(row, status)
        time, session_id = row.ended_time or row.time, self._session.id
        if failure is not None:
            failure.result = result
            self._failure = failure
            kind = type(failure).__name__
            error = events.Error(
                time, session_id, self.id, None, str(failure), failure.category, kind, failure.guidance
            )
            self._session.emit(self, error)
        completed = events.RunCompleted(
            time,
            session_id,
            self.id,
            None,
            status,
            row.stop_reason,
            result.text,
            result.usage,
            result.duration,
            failure.message if failure is not None else row.reason,
        )
        self._session.emit(self, completed)
        self._finished.set_result(None)

    def _make_result(self, row: rows.Run, status: RunOutcome) -> RunResult:
        fold = self._session.fold
        said = [
            message
            for message in fold.messages[self._first_message :]
            if message.run_id == self.id and message.kind == "assistant"
        ]
        return RunResult(
            run_id=self.id,
            session_id=self._session.id,
            status=status,
            text=join_texts(said),
            stop_reason=row.stop_reason,
            usage=row.usage or rows.Usage(),
            duration=(row.ended_time or row.time) - row.time,
            messages=tuple(message.text for message in said),
            tool_calls=tuple(call for call in fold.tool_calls if call.run_id == self.id),
        )

    def drain(self) -> None:
        """Nobody will look at the rest of the events: they are not kept, and hold up nobody."""
        self._reader = "drained"
        self.wants_events = False
        self._queue.clear()
        self._session.wake_reader()

    async def _watch_limits(self) -> None:
        """Ends the run by a polite cancel when its deadline has passed, or nothing was heard for too long."""
        session, loop = self._session, asyncio.get_running_loop()
        ends = loop.time() + self._deadline if self._deadline is not None else math.inf
        idle = IdleWatch(self._idle_limit, loop.time(), session.frames) if self._idle_limit is not None else None
        while True:
            now = loop.time()
            if now >= ends:
                self._exceeded(DeadlineExceeded(f"the run's deadline of {self._deadline:g} s has passed"))
                return
            if idle is not None and idle.look(now, session.frames, session.at_work):
                self._exceeded(IdleLimitExceeded(f"nothing was heard of the agent for {self._idle_limit:g} s"))
                return
            await asyncio.sleep(min(ends - now, idle.interval if idle is not None else math.inf))

    def _exceeded(self, limit: LimitExceeded) -> None:
        if self.cancelling:
            return  # it ends already, for another reason
        self._limit = limit
        self._session.cancel_run(self)
