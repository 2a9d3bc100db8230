"""Streams of a session over HTTP, awaited or as server-sent events: they end when the client goes, or the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Final

import msgspec

from dragoman.bridge.payload import Out
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.reply import Failed

# Seconds of silence after which a comment is sent: proxies close what says nothing for a minute.
PAUSE: Final = 15.0


async def watched(
    stream: AsyncGenerator[Out, None],
    *,
    ending: asyncio.Event,
    gone: Callable[[], Coroutine[Any, Any, None]] | None = None,
    pause: float | None = None,
) -> AsyncGenerator[Out | None, None]:
    """What the stream brings; None after `pause` seconds without anything. It ends with `ending`, and when
    `gone` returns."""
    stops: set[asyncio.Task[Any]] = {asyncio.create_task(ending.wait())}
    if gone is not None:
        stops.add(asyncio.create_task(gone()))
    following: asyncio.Task[Out] | None = None
    try:
        while True:
            if following is None:
                following = asyncio.create_task(_next(stream))
            done, _ = await asyncio.wait({following, *stops}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if following in done:
                try:
                    message = following.result()
                except StopAsyncIteration:
                    return
                following = None
                yield message
            elif done:
                return
            else:
                yield None
    finally:
        tasks = stops | ({following} if following is not None else set())
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if following is not None and not following.cancelled():
            following.exception()  # looked at, so that nobody complains that nobody did


async def _next(stream: AsyncGenerator[Out, None]) -> Out:
    return await anext(stream)


def event(name: str, content: Out, cursor: str = "") -> bytes:
    """One server-sent event. JSON has no line ends, so that one line of data is enough."""
    place = f"id: {cursor}\n" if cursor else ""
    return f"{place}event: {name}\ndata: ".encode() + msgspec.json.encode(content) + b"\n\n"


def event_of(message: Out) -> bytes:
    """A message of a session's stream, with its cursor as the event's id."""
    return event(str(message.__struct_config__.tag), message, getattr(message, "cursor", ""))


def event_of_refusal(refusal: Refusal) -> bytes:
    return event("error", Failed(error=refusal.body))


COMMENT: Final = b": still here\n\n"
