"""`MessageStream`: the messages that wait for the front end.

Promised: messages come out in the order in which they went in, each once, none is dropped. The stream says when it is
full, and the agent is then not read; it is bounded as the queue of a run is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from dragoman.backend.messages import UnifiedMessage
from dragoman.errors import InputError
from dragoman.session.run import MAX_WAITING_EVENTS, RESUME_READING_EVENTS


class MessageStream:
    """An async iterator for one reader at a time. A reader that leaves the loop can come back to where it was.

    `on_room` is called when there is room again, or the stream has ended.
    """

    def __init__(self, on_room: Callable[[], None] | None = None) -> None:
        self._waiting: deque[UnifiedMessage] = deque()
        self._reader: asyncio.Future[None] | None = None  # of a reader that found nothing
        self._on_room = on_room
        self._has_room = True
        self._ended = False

    # -- for the front end

    def __aiter__(self) -> MessageStream:
        return self

    async def __anext__(self) -> UnifiedMessage:
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            if self._reader is not None:
                raise InputError(
                    "the messages of a session are for one reader at a time, and another waits for the next one",
                    guidance="Read them in one place, and hand them on from there.",
                )
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        message = self._waiting.popleft()
        if len(self._waiting) == RESUME_READING_EVENTS:
            self._make_room()
        return message

    def __len__(self) -> int:
        """Return the number of messages that wait."""
        return len(self._waiting)

    def __bool__(self) -> bool:
        return True  # also when nothing waits

    # -- for the session

    def push(self, message: UnifiedMessage) -> None:
        """Add a message; after the end it is ignored."""
        if self._ended:
            return
        self._waiting.append(message)
        if len(self._waiting) > MAX_WAITING_EVENTS:
            self._has_room = False
        self._wake_reader()

    def end(self) -> None:
        """Take no more messages; those that wait can still be read."""
        self._ended = True
        self._make_room()
        self._wake_reader()

    @property
    def has_room(self) -> bool:
        """False from the moment the stream is full until most of it was read."""
        return self._has_room

    def _make_room(self) -> None:
        if not self._has_room:
            self._has_room = True
            if self._on_room is not None:
                self._on_room()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
