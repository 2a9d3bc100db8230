"""Calling a program's own callback: a plain function or a coroutine function. Neither may block the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def call(callback: Callable[[T], object], argument: T) -> object:
    """Call it and return its result. A plain function gets a thread of its own, so that it may wait for a person."""
    if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(type(callback).__call__):
        reply: object = callback(argument)
    else:
        reply = await _in_thread(lambda: callback(argument))
    return await reply if inspect.isawaitable(reply) else reply


async def _in_thread(function: Callable[[], object]) -> object:
    """Do as `asyncio.to_thread`, on a daemon thread: one that waits for a person must not delay the program's exit."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(value: object, error: BaseException | None) -> None:
        if result.done():  # the caller gave up
            if inspect.iscoroutine(value):
                value.close()  # never to be awaited, which is no defect
            return
        if error is None:
            result.set_result(value)
        else:
            result.set_exception(error)

    def run() -> None:
        value: object = None
        error: BaseException | None = None
        try:
            value = context.run(function)
        except BaseException as raised:
            # StopIteration cannot pass through a future, and SystemExit would end the loop.
            error = raised if isinstance(raised, Exception) else RuntimeError(repr(raised))
            if isinstance(raised, StopIteration):
                error = RuntimeError(repr(raised))
        try:
            loop.call_soon_threadsafe(deliver, value, error)
        except RuntimeError:
            pass  # the loop is closed

    threading.Thread(target=run, name="dragoman callback", daemon=True).start()
    return await result
