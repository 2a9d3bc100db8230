"""`Rounds`: prompts to one session until there is a value of the type, and no guard objects.

A round is a run of the session. The first has the caller's prompt, each other one says what is missing. All of them
together stay within one deadline and one budget; whichever limit ends them cancels the run politely.

`OutputRun` is the result of `session.run(…, output_type=T)`: rounds in the session of the caller, without our tool,
so the value is taken from the agent's text. Like a run it is awaitable (the `PromptResponse`, or the error), an async
iterable of the events of all its rounds, and can be cancelled.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias

from dragoman.clock import SYSTEM_CLOCK, Clock, timeout
from dragoman.errors import (
    DeadlineExceeded,
    DragomanError,
    GuardFailed,
    InputError,
    OutputInvalid,
    RunFailed,
    SilentFailure,
    StoppedEarly,
)
from dragoman.evaluation.budget import NO_BUDGET, Spending
from dragoman.evaluation.output import Output, follow_up, instructions
from dragoman.evaluation.response import EvaluationStats, PromptResponse, limit_of
from dragoman.evaluation.types import Type, shape_of
from dragoman.host.pending import call
from dragoman.host.policy.rules import PolicyRule
from dragoman.record import events
from dragoman.record.events import Event
from dragoman.session.options import check_rules
from dragoman.session.prompt import Input, Part, input_parts
from dragoman.session.run import Run, RunResult
from dragoman.session.session import Session

Objection: TypeAlias = str | bool | None
# Of the response so far (`PromptResponse`), with whatever output the caller has asked for.
Guard: TypeAlias = Callable[[Any], Objection | Awaitable[Objection]]


async def objections(guards: Sequence[Guard], response: Any) -> tuple[str, ...]:
    """Return the reasons of the guards that object, in their order."""
    reasons: list[str] = []
    for guard in guards:
        # A plain function gets a thread: it may run a test suite, and the connection to the agent must go on meanwhile.
        verdict = await call(guard, response)
        name = getattr(guard, "__name__", "a guard")
        match verdict:
            case None | True:
                continue
            case False:
                reasons.append(f"the check {name} did not pass")
            case str():
                reasons.append(verdict)
            case _:
                raise InputError(f"the guard {name} returned {verdict!r}; expected None, True, False or a reason")
    return tuple(reasons)


def objection_prompt(reasons: Sequence[str], *, wants_output: bool) -> str:
    """Return the prompt that sends the agent back with the objections."""
    listed = "\n".join(f"- {reason}" for reason in reasons)
    then = " Then hand over the result again, as before." if wants_output else ""
    return f"This is not done yet:\n{listed}\nGo on until it is.{then}"


# A run that ended like this may have handed over its value before.
_BENIGN: Final = (StoppedEarly, SilentFailure)


class TimeLeft:
    """The time until the deadline or the end of a budget of seconds, whichever comes first, from now on."""

    def __init__(self, deadline: float | None, spending: Spending, clock: Clock = SYSTEM_CLOCK) -> None:
        if deadline is not None and not (isinstance(deadline, int | float) and deadline > 0):
            raise InputError(f"deadline must be a number of seconds, more than 0, not {deadline!r}")
        self._clock = clock
        self._began = clock.monotonic()
        self._deadline = math.inf if deadline is None else deadline
        self._spending = spending
        self._budget = math.inf if spending.budget.seconds is None else spending.budget.seconds

    @property
    def ends(self) -> float | None:
        """The end on the clock's monotonic time; None where there is no end."""
        end = self._began + min(self._deadline, self._budget)
        return None if end == math.inf else end

    @property
    def passed(self) -> float:
        return self._clock.monotonic() - self._began

    def left(self) -> float | None:
        """Return the seconds left; raise the error of the deadline or budget where there are none."""
        if self.ends is None:
            return None
        left = self.ends - self._clock.monotonic()
        if left <= 0:
            raise self.over("")
        return left

    def limit(self) -> AbstractAsyncContextManager[None]:
        """Raise TimeoutError in the block of the context manager when no time is left."""
        return timeout(self._clock, None if self.ends is None else self.ends - self._clock.monotonic())

    def over(self, where: str) -> DragomanError:
        if self._budget < self._deadline:
            return self._spending.exceeded("seconds", seconds=self.passed)
        return DeadlineExceeded(f"the deadline of {self._deadline:g} s has passed{where}")


class Rounds:
    """`output` is None where only a text is wanted. `on_event` must get every event of the session."""

    def __init__(
        self,
        session: Session,
        *,
        output: Output | None,
        spending: Spending,
        time: TimeLeft,
        has_tool: bool = False,
        guards: Sequence[Guard] = (),
        max_rounds: int = 3,
        idle_limit: float | None = None,
        heartbeat: Callable[[], None] | None = None,
        rules: tuple[PolicyRule, ...] = (),
        skills: Sequence[str] | None = None,
    ) -> None:
        self.session = session
        self.output = output
        self.number = 0
        self.last: RunResult | None = None
        self.results: list[RunResult] = []
        self._spending = spending
        self._time = time
        self._has_tool = has_tool
        self._guards = guards
        self._max_rounds = max_rounds
        self._run_options: dict[str, Any] = {
            "idle_limit": idle_limit,
            "heartbeat": heartbeat,
            "rules": rules,
            "skills": skills,
        }
        self._used_up: str | None = None  # the budget for which the run was cancelled
        self.run: Run | None = None  # the current one, or the last
        self._first_run: Run | None = None  # begun before `run_all`

    def on_event(self, event: events.Event) -> None:
        """Watch the usage that the agent reports."""
        if isinstance(event, events.UsageUpdated):
            self.stop_if(self._spending.reported(event.usage))

    def stop_if(self, used_up: str | None) -> None:
        """End the current run if a budget is used up."""
        if used_up is not None and self._used_up is None:
            # Not now: we are called in the middle of what the session does with a frame.
            asyncio.get_running_loop().call_soon(self._stop, used_up)

    def _stop(self, used_up: str) -> None:
        run = self.run
        if run is not None and not run.done and not run.cancelling:
            self._used_up = used_up
            self.session.cancel_run(run)

    async def run_all(self, prompt: Input, stats: Callable[[], EvaluationStats]) -> PromptResponse[Any]:
        """Send prompts until there is a valid value, and return the response. Raises why it failed."""
        prompt_to_send: Input = self._first(prompt)
        error: RunFailed | None = None
        while self.number < self._max_rounds:
            if (used_up := self._spending.used_up()) is not None:
                raise self._spending.exceeded(used_up)
            self.number += 1
            result = await self._round(prompt_to_send)
            prompt_to_send, error = await self._check(result, stats)
            if error is None:
                return self._response(result, stats)
        assert error is not None
        raise error

    async def _round(self, prompt: Input) -> RunResult:
        if self.output is not None:
            self.output.begin_round()
        self._spending.begin_run()
        run, self._first_run = self._first_run or self._send(prompt), None
        failure: DragomanError | None = None
        try:
            result = await self._result_of(run)
        except DragomanError as error:
            if error.result is None:
                raise
            failure, result = error, error.result
        self.last = result
        self.results.append(result)
        self._spending.end_run(result.usage)
        if self._used_up is not None:
            raise self._spending.exceeded(self._used_up)
        if isinstance(failure, DeadlineExceeded):
            raise self._time.over("")
        handed_over = self.output is not None and self.output.accepted
        if failure is not None and not (handed_over and isinstance(failure, _BENIGN)):
            raise failure
        if (unknown := self._spending.not_reported(self.session.agent_name)) is not None:
            # An agent may report the size of its context alone, and that at the very end of a run.
            used_up = self._spending.used_up()
            raise unknown if used_up is None else self._spending.exceeded(used_up)
        return result

    def begin(self, prompt: Input, *, when_busy: Literal["queue", "raise"] = "queue") -> Run:
        """Send the first prompt now, or queue it; `run_all` continues from there."""
        self._first_run = self._send(self._first(prompt), when_busy)
        return self._first_run

    def _send(self, prompt: Input, when_busy: Literal["queue", "raise"] = "queue") -> Run:
        self.run = self.session.run(prompt, deadline=self._time.left(), when_busy=when_busy, **self._run_options)
        return self.run

    async def _result_of(self, run: Run) -> RunResult:
        """Return the result of a run; subclasses look at its events first."""
        return await run

    async def _check(self, result: RunResult, stats: Callable[[], EvaluationStats]) -> tuple[str, RunFailed | None]:
        """Return the next prompt, and the error to raise if no round is left; None where nothing is missing."""
        if result.status == "cancelled" and self.run is not None and self.run.cancelling:
            return "", None  # cancelled by the caller
        rounds = f"{self.number} round{'s' if self.number > 1 else ''}"
        output = self.output
        if output is not None and not output.accepted:
            output.read(result.text)
        if output is not None and not output.accepted:
            wrong = "; ".join(output.problems)
            failure: RunFailed = OutputInvalid(
                f"no valid {output.shape.name} after {rounds}: {wrong}", problems=output.problems
            )
            return follow_up(output.problems, has_tool=self._has_tool), failure
        try:
            async with self._time.limit():
                reasons = await objections(self._guards, self._response(result, stats))
        except TimeoutError:
            raise self._time.over(" while a guard looked at the result") from None
        if not reasons:
            return "", None
        failure = GuardFailed(f"not done after {rounds}: {'; '.join(reasons)}", reasons=reasons)
        return objection_prompt(reasons, wants_output=output is not None), failure

    def _first(self, prompt: Input) -> Input:
        if self.output is None:
            return prompt
        how = instructions(self.output.shape, has_tool=self._has_tool)
        if isinstance(prompt, str) and prompt.strip():
            return f"{prompt}\n\n{how}"
        parts: tuple[Part, ...] = input_parts(prompt)
        return (*parts, how)

    def _response(self, result: RunResult, stats: Callable[[], EvaluationStats]) -> PromptResponse[Any]:
        output = self.output.value if self.output is not None else None
        return PromptResponse(output=output, text=result.text, stop_reason=result.stop_reason, stats=stats())


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
        skills: Sequence[str] | None = None,
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
            skills=skills,
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
                if not await self._publish(event):
                    break
        return await run

    async def _publish(self, event: Event) -> bool:
        """Pass an event to the program; return False if it has stopped iterating."""
        if self.events is None:
            return False
        await self.events.put(event)
        return True


def _retrieve_error(task: asyncio.Task[PromptResponse[Any]]) -> None:
    """Retrieve the error, so that asyncio does not warn: it is also among the session's events."""
    if not task.cancelled():
        task.exception()
