"""`MessageStream`: the messages that wait for the front end.

Promised: messages come out in the order they went in, each once, none is dropped. It is bounded as the queue of a run
is: while it is full the agent is not read, unless someone waits for an answer that may lie behind what is unread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from dragoman.backend.messages import UnifiedMessage
from dragoman.errors import InputError
from dragoman.session.run import MAX_WAITING_EVENTS, RESUME_READING_EVENTS


class MessageStream:
    """An async iterator for one reader at a time. Who leaves the loop may come back to where it was."""

    def __init__(self) -> None:
        self._waiting: deque[UnifiedMessage] = deque()
        self._reader: asyncio.Future[None] | None = None  # one that found nothing
        self._hurried = 0
        self._ended = False
        self._room = asyncio.Event()
        self._room.set()

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
            self._room.set()
        return message

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def __bool__(self) -> bool:
        return True  # also when nothing waits

    # -- for the session

    def push(self, message: UnifiedMessage) -> None:
        if self._ended:
            return  # nobody will look at it
        self._waiting.append(message)
        if len(self._waiting) > MAX_WAITING_EVENTS and not self._hurried:
            self._room.clear()
        self._wake()

    def end(self) -> None:
        """What waits can still be read; nothing more comes."""
        self._ended = True
        self._room.set()
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    @property
    def has_room(self) -> bool:
        return self._room.is_set()

    async def room(self) -> None:
        """Returns when the agent may be read."""
        await self._room.wait()

    @contextmanager
    def hurry(self) -> Iterator[None]:
        """Within it the agent is read however much waits."""
        self._hurried += 1
        self._room.set()
        try:
            yield
        finally:
            self._hurried -= 1
            if len(self._waiting) > MAX_WAITING_EVENTS and not self._hurried and not self._ended:
                self._room.clear()
