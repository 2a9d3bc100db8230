"""`OutputRun`: the result of `session.run(…, output_type=T)`: a run, and follow-up runs until there is a value.

The session is the caller's and has no tool of ours, so that the value is taken from the agent's text. Like a run it is
awaitable (the `PromptResponse`, or the error), an async iterable of the events of all its rounds, and can be cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from types import TracebackType
from typing import Any, Final, Literal

from dragoman.errors import DragomanError, InputError
from dragoman.evaluation.budget import NO_BUDGET, Spending
from dragoman.evaluation.output import Output
from dragoman.evaluation.response import EvaluationStats, PromptResponse, limit_of
from dragoman.evaluation.rounds import Rounds, TimeLeft
from dragoman.evaluation.types import Type, shape_of
from dragoman.host.policy.rules import PolicyRule
from dragoman.record.events import Event
from dragoman.session.options import check_rules
from dragoman.session.prompt import Input
from dragoman.session.run import Run, RunResult
from dragoman.session.session import Session

# Events between the runs and the program that iterates; the runs themselves hold more, and slow the agent.
MAX_WAITING_EVENTS: Final = 64


class OutputRun:
    """`deadline` is for all rounds together. No second prompt is sent before it is awaited or iterated."""

    def __init__(
        self,
        session: Session,
        prompt: Input,
        output_type: Type,
        *,
        max_rounds: int = 3,
        deadline: float | None = None,
        idle_limit: float | None = None,
        heartbeat: Callable[[], None] | None = None,
        rules: Sequence[PolicyRule] = (),
        when_busy: Literal["queue", "raise"] = "queue",
    ) -> None:
        if not isinstance(max_rounds, int) or max_rounds < 1:
            raise InputError(f"max_rounds is {max_rounds!r}; expected a whole number, 1 or more")
        self._spending = Spending(NO_BUDGET)
        self._time = TimeLeft(deadline, self._spending, session.clock)
        self._rounds = _ObservedRounds(
            session,
            output=Output(shape_of(output_type), has_tool=False),
            spending=self._spending,
            time=self._time,
            max_rounds=max_rounds,
            idle_limit=idle_limit,
            heartbeat=heartbeat,
            rules=check_rules(rules),
        )
        self._prompt = prompt
        self._task: asyncio.Task[PromptResponse[Any]] | None = None
        self.id = self._rounds.begin(prompt, when_busy=when_busy).id

    async def result(self) -> PromptResponse[Any]:
        """Wait for the value and return the response; the output of a cancelled run is None. Raises why it failed."""
        task = self._start()
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            raise

    def __await__(self) -> Generator[Any, None, PromptResponse[Any]]:
        return self.result().__await__()

    async def __aiter__(self) -> AsyncIterator[Event]:
        self.claim()
        try:
            while batch := await self.next_events():
                for event in batch:
                    yield event
        finally:
            self.drain()

    def claim(self) -> None:
        """Reserve the events for one reader."""
        if self._task is not None or self._rounds.events is not None:
            raise InputError(
                "the events of a run can be iterated once, and not after it was awaited",
                guidance="Iterate first, then await the run for its result.",
            )
        self._rounds.events = asyncio.Queue(MAX_WAITING_EVENTS)

    async def next_events(self) -> list[Event]:
        """Return the events that are ready, at least one; an empty list when the last round is over."""
        task, events = self._start(), self._rounds.events
        while events is not None:
            if not events.empty():
                return [events.get_nowait() for _ in range(events.qsize())]
            if task.done():
                break
            next_event = asyncio.ensure_future(events.get())
            await asyncio.wait([next_event, task], return_when=asyncio.FIRST_COMPLETED)
            if next_event.done():
                return [next_event.result()]
            next_event.cancel()
        return []

    def drain(self) -> None:
        """Drop the remaining events."""
        events, self._rounds.events = self._rounds.events, None
        while events is not None and not events.empty():
            events.get_nowait()  # a run that waits to put another one goes on

    async def cancel(self) -> None:
        """Ask the agent to stop, and return when it has. No other round follows."""
        task = self._start()
        if self._rounds.run is not None:
            await self._rounds.run.cancel()
        await asyncio.wait([task])

    async def __aenter__(self) -> OutputRun:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.done:
            self.drain()
            await self.cancel()

    @property
    def done(self) -> bool:
        return self._task is not None and self._task.done()

    def _start(self) -> asyncio.Task[PromptResponse[Any]]:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run_rounds(), name="dragoman output")
            self._task.add_done_callback(_retrieve_error)
        return self._task

    async def _run_rounds(self) -> PromptResponse[Any]:
        try:
            return await self._rounds.run_all(self._prompt, self._stats)
        except DragomanError as error:
            last = self._rounds.last
            error.result = PromptResponse(
                output=None,
                text=last.text if last is not None else "",
                stop_reason=last.stop_reason if last is not None else None,
                stats=self._stats(limit_of(error)),
            )
            raise

    def _stats(self, limit: str | None = None) -> EvaluationStats:
        rounds = self._rounds
        reported = tuple(row for result in rounds.results for row in result.tool_calls)
        return EvaluationStats(
            agent=rounds.session.agent_name,
            agent_version=rounds.session.capabilities().agent_version,
            session_id=rounds.session.id,
            rounds=rounds.number,
            duration=self._time.passed,
            usage=self._spending.total,
            calls=len(reported),
            reported=reported,
            limit=limit,
        )


class _ObservedRounds(Rounds):
    """Rounds whose events a program may iterate over."""

    events: asyncio.Queue[Event] | None = None

    async def _result_of(self, run: Run) -> RunResult:
        if self.events is not None:
            async for event in run:
                if self.events is None:
                    break  # the program stopped iterating
                await self.events.put(event)
        return await run


def _retrieve_error(task: asyncio.Task[PromptResponse[Any]]) -> None:
    """Retrieve the error, so that asyncio does not warn: it is also among the session's events."""
    if not task.cancelled():
        task.exception()
