"""`SessionBroadcast`: the changes of one session, encoded once for all clients that follow it.

The last changes are kept, so that a client that is slow, or was disconnected for a moment, continues from its cursor.
A client that is further behind gets a snapshot: a slow client costs no memory. Pure but for waking followers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from dragoman.journal.entry import Cursor
from dragoman.journal.rows import RowStore
from dragoman.journal.session_record import SessionRecord
from dragoman.protocol.messages import Change, Put, PutState
from dragoman.protocol.models import Run, SessionFailure, SessionItem

# Bytes of changes that are kept per followed session: some seconds of a burst, minutes of ordinary conversation. A
# client that is further behind is better served by a snapshot.
MAX_KEPT_BYTES: Final = 1024 * 1024

# Bytes of changes that are sent as one message, unless a single commit is larger.
MAX_MESSAGE_BYTES: Final = 256 * 1024


class Waiters:
    """Tasks that wait until something is due. They look again whenever they are woken."""

    def __init__(self) -> None:
        self._events: set[asyncio.Event] = set()

    def wake(self) -> None:
        for event in self._events:
            event.set()

    async def wait(self, is_due: Callable[[], bool]) -> None:
        event = asyncio.Event()
        self._events.add(event)
        try:
            while not is_due():
                event.clear()
                await event.wait()
        finally:
            self._events.discard(event)


class Chunk(NamedTuple):
    """The changes of a commit, up to the session's `position`, as JSON objects with commas between them.

    `position` is None for a change that is not in the journal, such as a new connection state.
    """

    position: int | None
    body: bytes
    ended_runs: tuple[str, ...] = ()
    failure: SessionFailure | None = None  # of the session, if it is not connected any more


class Batch(NamedTuple):
    """Chunks for one message: their JSON, the number and position after them, the ids of runs that end in them, and
    the failure that they report."""

    body: bytes
    number: int
    position: int
    ended_runs: tuple[str, ...]
    failure: SessionFailure | None


class StreamMessage(NamedTuple):
    """An encoded message of a session's stream, with what a server-sent event says of it besides the data."""

    type: str  # snapshot, update or ended
    cursor: str
    data: bytes
    ended_runs: tuple[str, ...] = ()
    failure: SessionFailure | None = None


class ForeignFold:
    """The fold of a session that another process writes: its rows, built from its frames as they are committed."""

    def __init__(self, session_id: str) -> None:
        self.record = SessionRecord(session_id)
        self.store = RowStore()
        self.cursor: Cursor | None = None


class SessionBroadcast:
    """The chunks of one session, numbered in the order in which they were added."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.followers = 0
        self.deleted = False  # the session itself
        self.foreign: ForeignFold | None = None
        self.item: SessionItem | None = None  # as it was last sent
        self.floor: int | None = None  # all changes after this position are kept; None: not known yet
        self.starting = 0  # followers that read their snapshot: nothing is dropped until they have it
        self.resets = 0
        self._chunks: deque[Chunk] = deque()
        self._first = 0  # number of the first chunk that is kept
        self._size = 0  # bytes
        self._position: int | None = None  # of the last change that was added
        self._waiters = Waiters()

    @property
    def end(self) -> int:
        """The number of the next chunk."""
        return self._first + len(self._chunks)

    def start_at(self, position: int) -> None:
        """Note that a client follows from this position on."""
        if self.floor is None:
            self.floor = position
        if self._position is None:
            self._position = position

    def misses(self, position: int) -> bool:
        """Return whether changes up to this position were not added: another process committed them."""
        return self._position is not None and self._position < position

    def add(self, changes: Sequence[Change], position: int | None = None) -> None:
        if position is not None:
            self._position = max(self._position or 0, position)
        if changes:
            chunk = Chunk(position, msgspec.json.encode(changes)[1:-1], _ended_runs(changes), _failure(changes))
            self._chunks.append(chunk)
            self._size += len(chunk.body)
            while self._size > MAX_KEPT_BYTES and len(self._chunks) > 1 and not self.starting:
                self.drop_oldest()
        self._waiters.wake()

    @property
    def droppable_bytes(self) -> int:
        return 0 if self.starting else self._size

    def drop_oldest(self) -> None:
        """Drop the oldest chunk: a follower that has not got it yet gets a snapshot next."""
        dropped = self._chunks.popleft()
        self._first += 1
        self._size -= len(dropped.body)
        if dropped.position is not None:
            self.floor = max(self.floor or 0, dropped.position)

    def reset(self) -> None:
        """Make all followers get a snapshot next: the chunks so far are no base for what follows."""
        self._first = self.end + 1
        self._chunks.clear()
        self._size = 0
        self._position = self.floor = None
        self.resets += 1
        self._waiters.wake()

    def end_all(self) -> None:
        """End the stream of every follower: the session was deleted."""
        self.deleted = True
        self._waiters.wake()

    def number_after(self, position: int) -> int:
        """The number of the first chunk with a change after this position."""
        number = self.end
        for chunk in reversed(self._chunks):
            if chunk.position is not None and chunk.position <= position:
                break
            number -= 1
        return number

    def since(self, number: int, position: int) -> Batch | None:
        """The chunks from this number on, as many as fit into a message.

        None where they are no longer kept. `position` is how far the follower has come. It may be ahead of the chunks:
        a snapshot that was read just after a commit has its changes before they are added here.
        """
        if number < self._first:
            return None
        bodies: list[bytes] = []
        ended_runs: list[str] = []
        failure: SessionFailure | None = None
        size = 0
        for index in range(number - self._first, len(self._chunks)):
            chunk = self._chunks[index]
            if chunk.position is None or chunk.position > position:
                if bodies and size + len(chunk.body) > MAX_MESSAGE_BYTES:
                    break
                bodies.append(chunk.body)
                ended_runs += chunk.ended_runs
                failure = chunk.failure or failure
                size += len(chunk.body)
                position = position if chunk.position is None else chunk.position
            number += 1
        return Batch(b",".join(bodies), number, position, tuple(ended_runs), failure)

    async def wait(self, number: int) -> None:
        """Return when there may be a chunk with this number, or the session was deleted."""
        await self._waiters.wait(lambda: number != self.end or self.deleted)


def _ended_runs(changes: Sequence[Change]) -> tuple[str, ...]:
    runs = [change.row for change in changes if isinstance(change, Put) and isinstance(change.row, Run)]
    return tuple(run.id for run in runs if run.status != "running")


def _failure(changes: Sequence[Change]) -> SessionFailure | None:
    states = [change.state for change in changes if isinstance(change, PutState)]
    return states[-1].failure if states and states[-1].connection != "connected" else None
