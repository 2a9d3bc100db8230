"""The promises of `session.ports` as checks, which every implementation of runtime, session and run must pass.

Each check is an async function that opens a runtime by `Subject.open` and raises AssertionError where a promise is
broken. The agent behind it is the demo agent, or one that answers these prompts as it does: `hello`, `think`, `plan`,
`tools`, `permission`, `stream N`, `slow N`, `refuse`, `error`, `silent`.

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    async def test_mine_conforms(check, subject):
        await check(subject)
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from dragoman.errors import (
    DeadlineExceeded,
    DragomanError,
    InputError,
    RequestFailed,
    SessionBusy,
    SessionClosed,
    SilentFailure,
    StoppedEarly,
)
from dragoman.host.permission import OnPermission, PermissionRequest
from dragoman.record import events
from dragoman.record.events import Event
from dragoman.session.handle import SessionHandle
from dragoman.session.options import SessionConfig
from dragoman.session.ports import RunPort, RuntimePort, SessionPort
from dragoman.workspace import Workspace

# Until a check gives up waiting: far more than anything here takes.
TIMEOUT_S = 30.0


class Subject(Protocol):
    """The implementation under test."""

    @property
    def folder(self) -> Path:
        """A folder for sessions to work in."""

    def open(self) -> AbstractAsyncContextManager[RuntimePort]:
        """Start a runtime, which is closed with the context. A second one continues the first one's sessions."""


Check: TypeAlias = Callable[[Subject], Awaitable[None]]
CHECKS: list[Check] = []


def _check(function: Check) -> Check:
    """Add a check, with a time limit."""

    @functools.wraps(function)
    async def limited(subject: Subject) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await function(subject)

    CHECKS.append(limited)
    return limited


def _session_check(function: Callable[[SessionPort], Awaitable[None]]) -> Check:
    """Add a check that needs one open session."""

    @functools.wraps(function)
    async def on_session(subject: Subject) -> None:
        async with _session(subject) as session:
            await function(session)

    return _check(on_session)


@asynccontextmanager
async def _session(subject: Subject, on_permission: OnPermission | None = None) -> AsyncIterator[SessionPort]:
    async with subject.open() as runtime, await runtime.open_session(_config(subject, on_permission)) as session:
        yield session


def _config(subject: Subject, on_permission: OnPermission | None = None) -> SessionConfig:
    return SessionConfig(workspace=Workspace(subject.folder), on_permission=on_permission)


async def _all(run: RunPort) -> list[Event]:
    return [event async for event in run]


@contextmanager
def _raising(kind: type[DragomanError], saying: str = "") -> Iterator[None]:
    try:
        yield
    except kind as error:
        if saying not in str(error):
            raise AssertionError(f"{saying!r} is not in {error}") from error
        return
    raise AssertionError(f"{kind.__name__} should have been raised")


async def _failure(run: RunPort) -> DragomanError:
    try:
        result = await run
    except DragomanError as failure:
        return failure
    raise AssertionError(f"the run should have failed, and ended as {result.status}: {result.text!r}")


# -- events


@_session_check
async def events_go_from_started_to_completed(session: SessionPort) -> None:
    run = session.run("hello")
    seen_events = await _all(run)
    assert isinstance(seen_events[0], events.RunStarted), seen_events[0]
    assert isinstance(seen_events[-1], events.RunCompleted), seen_events[-1]
    assert [event.type for event in seen_events].count("run.completed") == 1
    assert {event.session_id for event in seen_events} == {session.id}
    assert {event.run_id for event in seen_events} == {run.id}
    assert all(before.time <= after.time for before, after in itertools.pairwise(seen_events))
    assert run.done


@_session_check
async def all_text_comes_in_order_and_before_the_end(session: SessionPort) -> None:
    seen_events = await _all(session.run("stream 500"))
    texts = [event.text for event in seen_events if isinstance(event, events.AssistantDelta)]
    messages = [event.text for event in seen_events if isinstance(event, events.AssistantMessage)]
    completed = seen_events[-1]
    assert isinstance(completed, events.RunCompleted)
    assert "".join(texts) == "".join(f"chunk {number}\n" for number in range(1, 501))
    assert "".join(messages) == "".join(texts)
    assert completed.text.strip() == "".join(texts).strip()
    assert completed.status == "success"


@_session_check
async def thoughts_are_separate_from_text(session: SessionPort) -> None:
    seen_events = await _all(session.run("think"))
    thought = "".join(event.text for event in seen_events if isinstance(event, events.ReasoningDelta))
    whole = [event.text for event in seen_events if isinstance(event, events.ReasoningMessage)]
    assert thought
    assert "".join(whole) == thought
    assert any(isinstance(event, events.AssistantMessage) for event in seen_events)


@_session_check
async def each_tool_call_is_reported_once_and_then_its_result(session: SessionPort) -> None:
    seen_events = await _all(session.run("tools"))
    called = [event.tool_call_id for event in seen_events if isinstance(event, events.ToolCall)]
    ended = [event.tool_call_id for event in seen_events if isinstance(event, events.ToolResult)]
    assert called
    assert len(set(called)) == len(called)
    assert sorted(called) == sorted(ended)
    for tool_call_id in called:
        of_it = [event.type for event in seen_events if getattr(event, "tool_call_id", None) == tool_call_id]
        assert of_it.index("tool.call") < of_it.index("tool.result")


@_session_check
async def each_plan_event_has_the_whole_plan(session: SessionPort) -> None:
    plans = [event for event in await _all(session.run("plan")) if isinstance(event, events.PlanUpdated)]
    assert plans
    assert len({len(plan.entries) for plan in plans}) == 1
    assert all(entry.status == "completed" for entry in plans[-1].entries)


@_session_check
async def events_have_the_agents_raw_update(session: SessionPort) -> None:
    seen_events = await _all(session.run("hello"))
    delta = next(event for event in seen_events if isinstance(event, events.AssistantDelta))
    assert delta.raw["sessionUpdate"] == "agent_message_chunk"
    assert delta.raw["content"]["text"] == delta.text


# -- results


@_session_check
async def a_run_can_be_awaited_without_its_events(session: SessionPort) -> None:
    run = session.run("stream 20000")
    result = await run
    assert result.status == "success"
    assert result.stop_reason == "end_turn"
    assert result.text.count("chunk") == 20000
    assert (result.run_id, result.session_id) == (run.id, session.id)
    assert await run == result == await run.result()


@_session_check
async def events_are_iterated_once(session: SessionPort) -> None:
    run = session.run("hello")
    seen_events = await _all(run)
    assert (await run).text == seen_events[-1].text  # type: ignore[union-attr]  # the last is run.completed
    with _raising(InputError):
        await _all(run)


@_session_check
async def the_result_is_complete_if_iteration_stops_early(session: SessionPort) -> None:
    run = session.run("stream 30000")
    async for event in run:
        if isinstance(event, events.AssistantDelta):
            break
    assert (await run).text.count("chunk") == 30000


@_session_check
async def a_run_that_stopped_early_raises_with_its_result(session: SessionPort) -> None:
    failure = await _failure(session.run("refuse"))
    assert isinstance(failure, StoppedEarly)
    assert failure.stop_reason == "refusal"
    assert failure.result.status == "error"
    assert failure.result.text


@_session_check
async def a_failed_run_leaves_the_session_usable(session: SessionPort) -> None:
    failure = await _failure(session.run("error"))
    assert isinstance(failure, RequestFailed)
    assert failure.category == "transient"
    seen_events = await _all(session.run("error"))
    assert [event.type for event in seen_events[-2:]] == ["error", "run.completed"]
    assert session.status() == "idle"
    assert (await session.run("hello")).status == "success"


@_session_check
async def an_end_without_output_is_a_failure(session: SessionPort) -> None:
    assert isinstance(await _failure(session.run("silent")), SilentFailure)


@_session_check
async def an_empty_prompt_is_refused_at_once(session: SessionPort) -> None:
    with _raising(InputError):
        session.run("  ")
    assert session.status() == "idle"


# -- cancelling


async def _until_it_speaks(run: RunPort) -> None:
    async for event in run:
        if isinstance(event, events.AssistantDelta):
            return


@_session_check
async def a_cancelled_run_returns_its_result(session: SessionPort) -> None:
    run = session.run("slow 1000")
    await _until_it_speaks(run)
    await run.cancel()
    assert run.done
    await run.cancel()
    result = await run
    assert result.status == "cancelled"
    assert result.text
    assert session.status() == "idle"
    assert (await session.run("hello")).status == "success"


@_session_check
async def leaving_the_block_cancels_the_run(session: SessionPort) -> None:
    async with session.run("slow 1000") as run:
        await _until_it_speaks(run)
    assert run.done
    assert (await run).status == "cancelled"


@_session_check
async def cancelling_the_waiter_cancels_the_run(session: SessionPort) -> None:
    run = session.run("slow 1000")
    waiting = asyncio.ensure_future(run.result())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (await run).status == "cancelled"


@_session_check
async def cancelling_a_session_empties_its_queue(session: SessionPort) -> None:
    first, second = session.run("slow 1000"), session.run("hello")
    await session.cancel()
    assert (await first).status == "cancelled"
    assert (await second).status == "cancelled"
    assert not (await second).text


@_session_check
async def a_deadline_ends_a_run_and_keeps_its_result(session: SessionPort) -> None:
    failure = await _failure(session.run("slow 1000", deadline=0.2))
    assert isinstance(failure, DeadlineExceeded)
    assert failure.category == "transient"
    assert failure.result.status == "error"
    assert (await session.run("hello")).status == "success"


# -- sessions


@_session_check
async def runs_of_a_session_never_overlap(session: SessionPort) -> None:
    runs = [session.run("stream 50") for _ in range(3)]
    seen_events = [await _all(run) for run in runs]
    for before, after in itertools.pairwise(seen_events):
        assert before[-1].time <= after[0].time
    assert len({run.id for run in runs}) == 3


@_session_check
async def a_busy_session_refuses_a_run_that_may_not_queue(session: SessionPort) -> None:
    async with session.run("slow 1000"):
        assert session.status() == "running"
        with _raising(SessionBusy):
            session.run("hello", when_busy="raise")
    assert (await session.run("hello", when_busy="raise")).status == "success"


@_check
async def sessions_of_a_runtime_run_side_by_side(subject: Subject) -> None:
    async with subject.open() as runtime:
        sessions = [await runtime.open_session(_config(subject)) for _ in range(3)]
        assert len({session.id for session in sessions}) == 3
        results = await asyncio.gather(*(session.run("stream 200").result() for session in sessions))
        assert [result.text.count("chunk") for result in results] == [200, 200, 200]
        assert [result.session_id for result in results] == [session.id for session in sessions]


@_check
async def a_permission_request_waits_for_its_answer(subject: Subject) -> None:
    statuses: list[str] = []

    async def ask(request: PermissionRequest) -> bool:
        statuses.append(session.status())
        return True

    async with _session(subject, ask) as session:
        seen_events = await _all(session.run("permission"))
        requested = next(event for event in seen_events if isinstance(event, events.PermissionRequested))
        resolved = next(event for event in seen_events if isinstance(event, events.PermissionResolved))
        assert seen_events.index(requested) < seen_events.index(resolved)
        assert resolved.permission_id == requested.permission_id
        assert (resolved.outcome, resolved.option_kind, resolved.decided_by) == ("selected", "allow_once", "callback")
        assert statuses == ["waiting"]
        assert session.status() == "idle"


@_session_check
async def a_permission_request_without_an_answer_is_refused(session: SessionPort) -> None:
    seen_events = await _all(session.run("permission"))
    resolved = next(event for event in seen_events if isinstance(event, events.PermissionResolved))
    assert resolved.option_kind == "reject_once"
    assert resolved.reason


@_session_check
async def a_mode_is_set_or_the_error_lists_the_modes(session: SessionPort) -> None:
    await session.set_mode("plan")
    assert session.snapshot().mode == "plan"
    with _raising(InputError, saying="plan"):
        await session.set_mode("no such mode")
    assert session.snapshot().mode == "plan"


@_check
async def a_session_is_resumed_from_its_snapshot(subject: Subject) -> None:
    async with _session(subject) as session:
        await session.run("hello")
        handle = session.snapshot()
        stored = handle.to_json()
    async with subject.open() as runtime, await runtime.resume_session(stored) as session:
        again: SessionHandle = session.snapshot()
        assert session.id == handle.session_id
        assert (again.agent_session_id, again.cwd) == (handle.agent_session_id, handle.cwd)
        assert (await session.run("hello")).status == "success"


@_check
async def a_closed_session_says_so(subject: Subject) -> None:
    async with subject.open() as runtime:
        session = await runtime.open_session(_config(subject))
        await session.close()
        await session.close()
        with _raising(SessionClosed):
            session.run("hello")
        async with await runtime.open_session(_config(subject)) as another:
            assert (await another.run("hello")).status == "success"


@_check
async def closing_a_session_ends_its_run(subject: Subject) -> None:
    async with subject.open() as runtime:
        session = await runtime.open_session(_config(subject))
        run = session.run("slow 1000")
        await session.close()
        assert (await run).status == "cancelled"


@_check
async def capabilities_are_reported(subject: Subject) -> None:
    async with subject.open() as runtime, await runtime.open_session(_config(subject)) as session:
        assert runtime.capabilities() == session.capabilities()
        assert runtime.capabilities().protocol_version == 1
