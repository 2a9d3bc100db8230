"""HTTP responses: JSON results, errors, and event streams that end when the client disconnects or the server stops."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Final

import msgspec
from starlette.responses import Response

from dragoman.bridge.broadcast import StreamMessage
from dragoman.bridge.refusal import Refusal
from dragoman.protocol.models import Model
from dragoman.protocol.results import HttpError

JSON: Final = "application/json"

# Silence after which a comment is sent: proxies close connections that are silent for a minute.
KEEP_ALIVE_S: Final = 15.0
KEEP_ALIVE: Final = b": still here\n\n"


def json_response(content: Model | bytes, status: int = 200) -> Response:
    """A response with a result, or with JSON that is encoded already."""
    data = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return Response(data, status, {"cache-control": "no-store"}, JSON)


def refusal_response(refusal: Refusal, status: int | None = None) -> Response:
    """A response with an error. `status`: where HTTP has a more exact one than the refusal's kind."""
    details = refusal.details
    response = json_response(HttpError(error=details), status or refusal.status)
    if details.retry_after is not None:
        response.headers["retry-after"] = str(math.ceil(details.retry_after))
    if details.kind == "unauthorized":
        response.headers["www-authenticate"] = 'Bearer realm="dragoman"'
    return response


# -- server-sent events


def event(name: str, data: bytes, cursor: str = "") -> bytes:
    """One server-sent event. JSON has no line ends, so that one line of data is enough."""
    id_line = f"id: {cursor}\n" if cursor else ""
    return f"{id_line}event: {name}\ndata: ".encode() + data + b"\n\n"


def stream_event(message: StreamMessage) -> bytes:
    """A message of a session's stream as an event, with its cursor as the event's id."""
    return event(message.type, message.data, message.cursor)


def refusal_event(refusal: Refusal) -> bytes:
    return event("error", msgspec.json.encode(HttpError(error=refusal.details)))


async def until_gone(
    stream: AsyncGenerator[StreamMessage, None],
    *,
    stopping: asyncio.Event,
    disconnected: Callable[[], Coroutine[Any, Any, None]] | None = None,
    pause: float | None = None,
) -> AsyncGenerator[StreamMessage | None, None]:
    """The messages of a stream; None after `pause` seconds of silence.

    Ends when the server is `stopping`, and when `disconnected` returns.
    """
    stops: set[asyncio.Task[Any]] = {asyncio.create_task(stopping.wait())}
    if disconnected is not None:
        stops.add(asyncio.create_task(disconnected()))
    next_message: asyncio.Task[StreamMessage] | None = None
    try:
        while True:
            if next_message is None:
                next_message = asyncio.create_task(_next(stream))
            done, _ = await asyncio.wait({next_message, *stops}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if next_message in done:
                try:
                    message = next_message.result()
                except StopAsyncIteration:
                    return
                next_message = None
                yield message
            elif done:
                return
            else:
                yield None
    finally:
        tasks = stops | ({next_message} if next_message is not None else set())
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if next_message is not None and not next_message.cancelled():
            next_message.exception()  # retrieved, so that asyncio does not log it


async def _next(stream: AsyncGenerator[StreamMessage, None]) -> StreamMessage:
    return await anext(stream)
