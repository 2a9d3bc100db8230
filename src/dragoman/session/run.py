"""A run: one prompt until it stops.

It is awaitable (the result, or the error it ended with), an async iterable of events, and an async
context manager that cancels what still runs when the block is left.

Backpressure: events wait in the run's queue until they are iterated; when it is full the agent is not
read. `await run` alone drains: no program reads the events, so none are stored.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from types import TracebackType
from typing import Literal, Protocol

import msgspec

from dragoman.clock import SYSTEM_CLOCK, Clock, timeout
from dragoman.errors import (
    AgentCrashed,
    DeadlineExceeded,
    DragomanError,
    IdleLimitExceeded,
    InputError,
    LimitExceeded,
    SilentFailure,
    StoppedEarly,
)
from dragoman.host.policy.rules import PolicyRule
from dragoman.record import events, rows
from dragoman.record.events import Event, join_texts
from dragoman.record.fold import SessionFold
from dragoman.wire.connection import error_from_reply

# Events that may wait for a program that iterates slowly; each stands for one frame of the agent.
MAX_WAITING_EVENTS = 8192
# Reading goes on when the queue is down to this: fewer wake-ups than one an event.
RESUME_READING_EVENTS = 2048
# Events that a run that is being cancelled may still emit while no program iterates over it.
MAX_CANCELLING_EVENTS = 16 * MAX_WAITING_EVENTS

# Looks within an idle limit: they cost nothing, and the limit is noticed late by a quarter of it at most.
IDLE_LOOKS = 4

RunOutcome = Literal["success", "cancelled", "error"]

_EARLY_STOPS = {
    "max_tokens": ("the agent reached its token limit", "Ask it to go on, or give it a smaller task."),
    "max_turn_requests": ("the agent reached its limit of model requests in one run", "Ask it to go on."),
    "refusal": (
        "the agent refused to go on",
        "Rephrase the prompt: by the protocol, the agent forgets a prompt that it refused.",
    ),
}


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run. `text` has all messages of the agent in it, with a blank line between them."""

    run_id: str
    session_id: str
    status: RunOutcome
    text: str
    stop_reason: str | None
    usage: rows.Usage
    duration: float
    messages: tuple[str, ...] = ()
    tool_calls: tuple[rows.ToolCall, ...] = ()


def failure_of(run: rows.Run, agent: str, stderr: str) -> DragomanError | None:
    """Return the error of a run that the agent ended badly; None when it ended well, or was cancelled."""
    if run.status in ("success", "cancelled", "running"):
        return None
    if run.error is not None:
        return error_from_reply("session/prompt", run.error)
    if run.status == "interrupted":
        return AgentCrashed(run.reason or f"{agent} ended during the run", stderr=stderr)
    if run.reason == "silent":
        details = f"; its last lines were:\n{stderr}" if stderr else ""
        return SilentFailure(f"{agent} ended its run without any output{details}", stderr=stderr)
    message, guidance = _EARLY_STOPS.get(
        run.stop_reason or "", (f"the agent stopped for a reason we do not know: {run.stop_reason!r}", "")
    )
    return StoppedEarly(message, stop_reason=run.stop_reason or "", guidance=guidance)


class IdleWatch:
    """Silence of an agent, as far as silence counts. Pure: the caller looks now and then, and tells the time.

    Silence while a tool runs, or while a person is asked, is no hang.
    """

    def __init__(self, limit_s: float, now: float, frame_count: int) -> None:
        self.interval_s = limit_s / IDLE_LOOKS
        self._limit_s = limit_s
        self._frame_count = frame_count
        self._quiet_since = now

    def is_exceeded(self, now: float, frame_count: int, *, at_work: bool) -> bool:
        """Return whether the agent has sent nothing for the time of the limit."""
        if frame_count != self._frame_count or at_work:
            self._frame_count, self._quiet_since = frame_count, now
        return now - self._quiet_since >= self._limit_s


class Owner(Protocol):
    """The session of a run, as far as the run has to do with it: one with a process here, or one on a server.

    `frames` is the number of frames so far; `at_work` tells that silence is no sign of a hang.
    """

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
        rules: tuple[PolicyRule, ...] = (),
        skills: tuple[str, ...] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.id = run_id
        self.rules = rules
        self.skills = skills  # names of those that go with the prompt in full
        self._session = session
        self._clock = clock
        self._deadline_s = deadline
        self._idle_limit_s = idle_limit
        self.heartbeat = heartbeat
        self._queue: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None  # of an iterator that found the queue empty
        self._reader: Literal["none", "iterator", "drained"] = "none"
        self.wants_events = True  # False once it is drained: no program reads them
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
        """Wait for the end. Raises what the run failed with; a cancelled run returns its result."""
        if self._reader == "none":
            self.drain()
        try:
            await asyncio.shield(self._finished)
        except asyncio.CancelledError:
            # The caller gave up: the agent is asked to stop.
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
                if len(queue) == RESUME_READING_EVENTS:
                    self._session.wake_reader()
        finally:
            self.drain()  # a program that leaves the loop early must not hold up the agent

    def claim(self) -> None:
        """Reserve the events for one reader."""
        if self._reader != "none":
            raise InputError(
                "the events of a run can be iterated once, and not after it was awaited",
                guidance="Iterate first, then await the run for its result.",
            )
        self._reader = "iterator"

    async def _more(self) -> bool:
        """Wait for an event; False when the run is over and all were taken."""
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
        """Return all events that wait, at least one; none when the run is over. For readers on another thread."""
        await self._more()
        batch = list(self._queue)
        self._queue.clear()
        self._session.wake_reader()
        return batch

    async def cancel(self) -> None:
        """Ask the agent to stop and return when it has; after `cancel_timeout` its process is ended."""
        self._session.cancel_run(self)
        await asyncio.shield(self._finished)

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
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
        """True while events wait to be iterated."""
        return bool(self._queue)

    @property
    def full(self) -> bool:
        return len(self._queue) > MAX_WAITING_EVENTS

    @property
    def hungry(self) -> bool:
        """True while a reader waits for what this run brings next."""
        if self._reader == "drained" or self._waiter is not None:
            return True
        # The answer to a cancel lies behind what the agent still sends. An agent that floods on instead of answering
        # is not read for ever, and ended when the grace is over.
        return self.cancelling and len(self._queue) < MAX_CANCELLING_EVENTS

    def push(self, events: Sequence[Event]) -> None:
        self._queue.extend(events)
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def began(self) -> None:
        self._first_message = len(self._session.fold.messages)

    def sent(self) -> None:
        """Start the limits: the prompt is on its way."""
        if self._deadline_s is not None or self._idle_limit_s is not None:
            self._watch = asyncio.get_running_loop().create_task(self._watch_limits(), name="dragoman limits")

    def ended(self, row: rows.Run) -> None:
        """Finish by the fold's row of a run that is over."""
        self._row = row
        agent, stderr = self._session.agent_name, self._session.stderr_tail()
        failure = self._limit or failure_of(row, agent, stderr)
        if failure is not None:
            failure = self._session.explained(failure)
        self._finish(row, failure)

    def dropped(self, time: float) -> None:
        """Finish a run that was cancelled before it began: it never reached the agent."""
        self._finish(rows.Run(id=self.id, time=time, status="cancelled", ended_time=time), None)

    def lost(self, failure: DragomanError, time: float) -> None:
        """Finish a run that could not begin, or whose end could not be recorded."""
        self._finish(rows.Run(id=self.id, time=time, status="interrupted", ended_time=time), failure)

    async def ended_within(self, seconds: float | None) -> bool:
        """Wait for the end without reading its events. False when `seconds` pass before; None is no limit."""
        try:
            async with timeout(self._clock, seconds):
                await asyncio.wait([self._finished])
        except TimeoutError:
            return self._finished.done()
        return True

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
        messages = [
            message
            for message in fold.messages[self._first_message :]
            if message.run_id == self.id and message.kind == "assistant"
        ]
        return RunResult(
            run_id=self.id,
            session_id=self._session.id,
            status=status,
            text=join_texts(messages),
            stop_reason=row.stop_reason,
            usage=row.usage or rows.Usage(),
            duration=max(0.0, (row.ended_time or row.time) - row.time),  # the clock may have been set back meanwhile
            messages=tuple(message.text for message in messages),
            tool_calls=tuple(call for call in fold.tool_calls if call.run_id == self.id),
        )

    def drain(self) -> None:
        """Drop the rest of the events: no program reads them, and they must not slow the agent."""
        self._reader = "drained"
        self.wants_events = False
        self._queue.clear()
        self._session.wake_reader()

    async def _watch_limits(self) -> None:
        """Cancel the run politely when its deadline has passed, or the agent has sent nothing for too long."""
        session, clock = self._session, self._clock
        deadline = clock.monotonic() + self._deadline_s if self._deadline_s is not None else math.inf
        idle = None
        if self._idle_limit_s is not None:
            idle = IdleWatch(self._idle_limit_s, clock.monotonic(), session.frames)
        while True:
            now = clock.monotonic()
            if now >= deadline:
                self._exceeded(DeadlineExceeded(f"the run's deadline of {self._deadline_s:g} s has passed"))
                return
            if idle is not None and idle.is_exceeded(now, session.frames, at_work=session.at_work):
                self._exceeded(IdleLimitExceeded(f"the agent sent nothing for {self._idle_limit_s:g} s"))
                return
            await clock.sleep(min(deadline - now, idle.interval_s if idle is not None else math.inf))

    def _exceeded(self, limit: LimitExceeded) -> None:
        if self.cancelling:
            return  # it ends already, for another reason
        self._limit = limit
        self._session.cancel_run(self)
