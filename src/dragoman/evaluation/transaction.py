"""A tool call as a transaction: it is done, or it was never there.

While a call uses a state it has the turn: calls that share one run one after another, in the order they came, also
when they are of several servers, event loops and threads. A call that fails or is cancelled leaves the state as it was.

A plain function runs in a thread, so that it holds up nobody, and a thread cannot be stopped. When its call is
cancelled nobody waits for it any more, but it keeps the turn, and what it did is undone when it comes back.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from dragoman.evaluation.snapshot import Snapshot

Work: TypeAlias = "asyncio.Future[Any]"


async def perform(
    function: Callable[[], Any], *, plain: bool, state: object | None = None, at_work: set[Work] | None = None
) -> Any:
    """What the function returns; with its exception, or a cancellation, the state is as it was.

    `at_work` has what still runs, also after the call was cancelled.
    """
    give_back = _nothing if state is None else await TURNS.take(state)
    try:
        snapshot = Snapshot(state)
    except BaseException:
        give_back()
        raise

    def undo() -> None:
        try:
            snapshot.restore()
        finally:
            give_back()

    work = _in_thread(function, undo) if plain else asyncio.ensure_future(_coroutine(function))
    if at_work is not None:
        at_work.add(work)
        work.add_done_callback(at_work.discard)
    try:
        # Not awaited itself: a cancellation would go through to it, and end it before the function has ended.
        await asyncio.wait({work})
    except asyncio.CancelledError:
        work.add_done_callback(_look_at)
        work.add_done_callback(lambda _: undo())
        if not plain:
            work.cancel()
        raise
    try:
        result = work.result()
    except BaseException:
        undo()
        raise
    give_back()
    return result


def _nothing() -> None:
    pass


def _look_at(done: Work) -> None:
    """An exception that nobody looks at would be reported by the loop; this call was cancelled."""
    if not done.cancelled():
        done.exception()


async def _coroutine(function: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await function()
    except (SystemExit, KeyboardInterrupt) as problem:
        raise _ended(problem) from problem  # it would end the loop, and everybody in it


def _in_thread(function: Callable[[], Any], if_nobody_waits: Callable[[], None]) -> Work:
    """A thread of its own for each call: a pool would be waited for at the end of the process, whatever hangs in it."""
    loop = asyncio.get_running_loop()
    work: Work = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        result: Any = None
        problem: BaseException | None = None
        try:
            result = context.run(function)
        except (SystemExit, KeyboardInterrupt, StopIteration) as ended:
            problem = _ended(ended)
        except BaseException as raised:
            problem = raised
        try:
            loop.call_soon_threadsafe(_settle, work, result, problem)
        except RuntimeError:  # the loop is closed, and with it went everybody who waited
            if_nobody_waits()

    threading.Thread(target=run, name="dragoman tool", daemon=True).start()
    return work


def _ended(problem: BaseException) -> RuntimeError:
    made = RuntimeError(f"the tool raised {type(problem).__name__}")
    made.__cause__ = problem
    return made


def _settle(work: Work, result: Any, problem: BaseException | None) -> None:
    if work.done():
        return
    if problem is None:
        work.set_result(result)
    else:
        work.set_exception(problem)


class Turns:
    """Who uses which state now, and who waits for it. For all threads and event loops of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]]] = {}

    @property
    def held(self) -> bool:
        """Whether anybody has a turn."""
        return bool(self._waiting)

    async def take(self, state: object) -> Callable[[], None]:
        """Waits for the state; returns what gives it back, which may be called from any thread."""
        loop = asyncio.get_running_loop()
        key = id(state)

        def give_back() -> None:
            # Bound to the state, which therefore lives, and its id with it, for as long as somebody has the turn.
            self._next(id(state))

        with self._lock:
            if key not in self._waiting:
                self._waiting[key] = deque()
                return give_back
            mine: asyncio.Future[None] = loop.create_future()
            self._waiting[key].append((loop, mine))
        try:
            await mine
        except asyncio.CancelledError:
            self._leave(key, loop, mine)
            raise
        return give_back

    def _leave(self, key: int, loop: asyncio.AbstractEventLoop, mine: asyncio.Future[None]) -> None:
        with self._lock:
            waiting = (loop, mine) in self._waiting.get(key, ())
            if waiting:
                self._waiting[key].remove((loop, mine))
        if not waiting:  # it was our turn already
            self._next(key)

    def _next(self, key: int) -> None:
        while True:
            with self._lock:
                queue = self._waiting[key]
                if not queue:
                    del self._waiting[key]
                    return
                loop, future = queue.popleft()
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:  # its loop is closed: nobody waits there any more
                continue
            return


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


TURNS = Turns()
