"""A call is done or was never there, and calls that share a state take turns."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from dragoman.evaluation.transaction import STATE_LOCKS, Work, perform

TIMEOUT_S = 30.0

plain_or_async = pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])


@pytest.fixture(autouse=True)
async def bounded() -> AsyncIterator[None]:
    async with asyncio.timeout(TIMEOUT_S):
        yield


def as_(plain: bool, function: Any) -> Any:
    """The function, or an async one that does the same."""

    async def later() -> Any:
        return function()

    return function if plain else later


@plain_or_async
async def test_changes_of_a_successful_call_stay(plain: bool) -> None:
    state = {"count": 1}

    def add() -> str:
        state["count"] += 1
        return "added"

    assert await perform(as_(plain, add), plain=plain, state=state) == "added"
    assert state == {"count": 2}


@plain_or_async
@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, StopIteration])
async def test_changes_of_a_failed_call_are_undone_and_only_the_call_ends(
    plain: bool, raised: type[BaseException]
) -> None:
    state = {"count": 1}

    def fail() -> None:
        state["count"] += 1
        raise raised("no")

    with pytest.raises(ValueError if raised is ValueError else RuntimeError):
        await perform(as_(plain, fail), plain=plain, state=state)
    assert state == {"count": 1}


async def test_calls_that_share_a_state_run_in_the_order_they_came() -> None:
    state: dict[str, list[int]] = {"order": []}
    inside = 0

    async def one(number: int) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        await asyncio.sleep(0)
        state["order"].append(number)
        inside -= 1

    await asyncio.gather(*(perform(partial(one, number), plain=False, state=state) for number in range(20)))
    assert state["order"] == list(range(20))


async def test_calls_in_other_loops_and_threads_take_turns_too() -> None:
    state = {"count": 0}
    inside = threading.Lock()

    def add() -> None:
        assert inside.acquire(blocking=False), "two calls were in the state at once"
        state["count"] += 1
        inside.release()

    async def several() -> None:
        await asyncio.gather(*(perform(add, plain=True, state=state) for _ in range(25)))

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, several()) for _ in range(4)))
    assert state == {"count": 100}
    assert not STATE_LOCKS.in_use


async def test_equal_states_are_not_the_same_state() -> None:
    meeting = asyncio.Barrier(2)
    states: list[dict[str, int]] = [{}, {}]
    await asyncio.gather(*(perform(meeting.wait, plain=False, state=state) for state in states))


async def test_a_cancelled_call_that_waited_delays_no_other() -> None:
    state: dict[str, int] = {}
    free = asyncio.Event()
    first = asyncio.create_task(perform(free.wait, plain=False, state=state))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(perform(lambda: None, plain=True, state=state)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    free.set()  # the turn may be on its way to the one that is cancelled next
    await first
    waiting[1].cancel()
    await waiting[2]
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not STATE_LOCKS.in_use


async def test_a_cancelled_async_call_is_undone() -> None:
    state, begun = {"count": 1}, asyncio.Event()

    async def endless() -> None:
        state["count"] = 2
        begun.set()
        await asyncio.Event().wait()

    call = asyncio.create_task(perform(endless, plain=False, state=state))
    await begun.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await perform(lambda: None, plain=True, state=state)  # it gets the turn when all is undone
    assert state == {"count": 1}


async def test_a_cancelled_plain_call_keeps_the_turn_until_it_comes_back_and_is_undone() -> None:
    state, begun, free = {"count": 1}, threading.Event(), threading.Event()
    at_work: set[Work] = set()

    def slow() -> None:
        state["count"] = 2
        begun.set()
        free.wait(TIMEOUT_S)

    call = asyncio.create_task(perform(slow, plain=True, state=state, at_work=at_work))
    await asyncio.to_thread(begun.wait, TIMEOUT_S)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert call.cancelled()
    assert len(at_work) == 1
    seen: list[int] = []
    following = asyncio.create_task(perform(lambda: seen.append(state["count"]), plain=True, state=state))
    await asyncio.sleep(0)
    assert seen == []
    free.set()
    await following
    assert seen == [1]
    assert not at_work


def test_a_plain_call_that_outlives_its_loop_is_undone_and_gives_the_turn_back() -> None:
    state, begun, free = {"count": 1}, threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def slow() -> None:
        threads.append(threading.current_thread())
        state["count"] = 2
        begun.set()
        free.wait(TIMEOUT_S)

    async def cut_short() -> None:
        call = asyncio.create_task(perform(slow, plain=True, state=state))
        await asyncio.to_thread(begun.wait, TIMEOUT_S)
        call.cancel()

    asyncio.run(cut_short())  # it does not wait for the thread
    free.set()
    threads[0].join(TIMEOUT_S)
    assert state == {"count": 1}
    assert not STATE_LOCKS.in_use


async def test_a_plain_function_sees_the_context_of_its_call() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("seen")
    assert await perform(variable.get, plain=True) == "seen"


async def test_a_snapshot_that_fails_costs_the_call_and_no_other() -> None:
    class Broken:
        def snapshot(self) -> None:
            raise OSError("disk")

        def restore(self, _: object) -> None: ...

    state = Broken()
    for _ in range(2):
        with pytest.raises(OSError, match="disk"):
            await perform(lambda: None, plain=True, state=state)
    assert not STATE_LOCKS.in_use


async def test_a_plain_call_that_exits_the_program_does_not() -> None:
    with pytest.raises(RuntimeError, match="SystemExit"):
        await perform(lambda: sys.exit(3), plain=True)
