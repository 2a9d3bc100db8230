"""`OutputRun`: what `session.run(…, output_type=T)` returns: a run, and follow-up runs until there is a value.

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

# Events between the runs and whoever iterates; the runs themselves hold more, and hold up the agent.
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
        self._rounds = _Rounds(
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
        """Waits for the value. Raises what it failed with; where it was cancelled the output is None."""
        task = self._started()
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
        """From here on the events are for one reader alone."""
        if self._task is not None or self._rounds.events is not None:
            raise InputError(
                "the events of a run can be iterated once, and not after it was awaited",
                guidance="Iterate first, then await the run for its result.",
            )
        self._rounds.events = asyncio.Queue(MAX_WAITING_EVENTS)

    async def next_events(self) -> list[Event]:
        """All that wait, at least one; empty when the last round is over."""
        task, events = self._started(), self._rounds.events
        while events is not None:
            if not events.empty():
                return [events.get_nowait() for _ in range(events.qsize())]
            if task.done():
                break
            taking = asyncio.ensure_future(events.get())
            await asyncio.wait([taking, task], return_when=asyncio.FIRST_COMPLETED)
            if taking.done():
                return [taking.result()]
            taking.cancel()
        return []

    def drain(self) -> None:
        """Drop the remaining events."""
        events, self._rounds.events = self._rounds.events, None
        while events is not None and not events.empty():
            events.get_nowait()  # whoever waits to put another one goes on

    async def cancel(self) -> None:
        """Asks the agent to stop and returns when it has. No other round follows."""
        task = self._started()
        if self._rounds.run is not None:
            await self._rounds.run.cancel()
        await asyncio.wait([task])

    async def __aenter__(self) -> OutputRun:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.done:
            self.drain()
            await self.cancel()

    @property
    def done(self) -> bool:
        return self._task is not None and self._task.done()

    def _started(self) -> asyncio.Task[PromptResponse[Any]]:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._play(), name="dragoman output")
            self._task.add_done_callback(_look)
        return self._task

    async def _play(self) -> PromptResponse[Any]:
        try:
            return await self._rounds.play(self._prompt, self._stats)
        except DragomanError as problem:
            last = self._rounds.last
            problem.result = PromptResponse(
                output=None,
                text=last.text if last is not None else "",
                stop_reason=last.stop_reason if last is not None else None,
                stats=self._stats(limit_of(problem)),
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


class _Rounds(Rounds):
    """Rounds whose events somebody may want to see."""

    events: asyncio.Queue[Event] | None = None

    async def _of(self, run: Run) -> RunResult:
        if self.events is not None:
            async for event in run:
                if not await self._passed_on(event):
                    break
        return await run

    async def _passed_on(self, event: Event) -> bool:
        """False where nobody looks any more."""
        if self.events is None:
            return False
        await self.events.put(event)
        return True


def _look(task: asyncio.Task[PromptResponse[Any]]) -> None:
    """An error that nobody awaits is no news: it stands in the session's events."""
    if not task.cancelled():
        task.exception()
