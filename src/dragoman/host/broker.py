"""`Broker`: the questions of one session that wait for an answer.

Promised: each question is answered once, by the callback or by `cancel_pending`, whichever is first; what comes after
that gains nothing. Questions do not wait for each other. What goes wrong in the callback denies, and says so.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from dragoman.host.permission import CANCELLED, Answer, OnPermission, PermissionRequest, answer_of

By: TypeAlias = Literal["access", "callback", "default", "cancel"]

NOBODY = "nobody to ask: pass on_permission=… or access='edit-inside'|'full' (command line: --access)"


class Decision(msgspec.Struct, frozen=True):
    """An answer, who gave it, and why."""

    answer: Answer
    by: By
    reason: str


class Broker:
    def __init__(self, on_permission: OnPermission | None) -> None:
        self._callback = on_permission
        self._waiting: set[asyncio.Future[None]] = set()
        self._consulting: set[asyncio.Task[Decision]] = set()  # held: the loop itself holds tasks only weakly

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def cancel_pending(self) -> None:
        for withdrawn in list(self._waiting):
            if not withdrawn.done():
                withdrawn.set_result(None)

    async def ask(self, request: PermissionRequest) -> Decision:
        callback = self._callback
        if callback is None:
            return Decision(request.reject(), "default", NOBODY)
        loop = asyncio.get_running_loop()
        withdrawn: asyncio.Future[None] = loop.create_future()
        consulting = loop.create_task(_consult(callback, request), name=f"dragoman asks: {request.title[:80]}")
        self._waiting.add(withdrawn)
        self._consulting.add(consulting)
        consulting.add_done_callback(self._consulting.discard)
        try:
            both: set[asyncio.Future[Any]] = {withdrawn, consulting}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if withdrawn.done():
                return Decision(CANCELLED, "cancel", "the run was cancelled before it was answered")
            if consulting.cancelled():
                return Decision(request.reject(), "callback", "denied: on_permission was itself cancelled")
            return consulting.result()
        finally:
            self._waiting.discard(withdrawn)
            consulting.cancel()


async def _consult(callback: OnPermission, request: PermissionRequest) -> Decision:
    try:
        if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(type(callback).__call__):
            reply: object = callback(request)
        else:
            reply = await _in_thread(lambda: callback(request))
        if inspect.isawaitable(reply):
            reply = await reply
        answer = answer_of(request, reply)
    except Exception as problem:
        return Decision(
            request.reject(), "callback", f"denied: on_permission failed: {type(problem).__name__}: {problem}"
        )
    if answer.outcome == "cancelled":
        return Decision(answer, "callback", "on_permission cancelled it")
    return Decision(answer, "callback", f"on_permission {'allowed' if answer.allowed else 'refused'} it")


async def _in_thread(function: Callable[[], object]) -> object:
    """Like `asyncio.to_thread`, but on a daemon: one that waits for a person must not hold up the program's exit."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(value: object, problem: BaseException | None) -> None:
        if result.done():  # nobody waits any more
            if inspect.iscoroutine(value):
                value.close()  # never to be awaited, which is no defect
            return
        if problem is None:
            result.set_result(value)
        else:
            result.set_exception(problem)

    def run() -> None:
        value: object = None
        problem: BaseException | None = None
        try:
            value = context.run(function)
        except BaseException as raised:
            # StopIteration cannot pass through a future, and SystemExit would end the loop.
            problem = raised if isinstance(raised, Exception) else RuntimeError(repr(raised))
            if isinstance(raised, StopIteration):
                problem = RuntimeError(repr(raised))
        try:
            loop.call_soon_threadsafe(deliver, value, problem)
        except RuntimeError:
            pass  # the loop is closed: nobody is left to tell

    threading.Thread(target=run, name="dragoman on_permission", daemon=True).start()
    return await result
