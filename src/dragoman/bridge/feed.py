"""`Feed`: what changes in one session, encoded once for all who follow it.

The last changes are kept, so that whoever is slow, or was away for a moment, goes on from where they were. Who comes
too late for them gets a snapshot: nobody's slowness costs memory. Pure but for waking those who wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from dragoman.bridge.messages import Change
from dragoman.bridge.payload import SessionItem
from dragoman.journal.entry import Cursor
from dragoman.journal.rows import RowStore
from dragoman.journal.session_record import SessionRecord

# Bytes of changes that are kept of each session that is followed: some seconds of a burst, minutes of ordinary talk.
# Who is further behind is better served by a snapshot.
KEPT: Final = 1024 * 1024

# Bytes of changes that are sent as one message, unless a single commit is larger.
TOGETHER: Final = 256 * 1024


class Piece(NamedTuple):
    """What a commit changed, up to the session's `position`: JSON objects with commas between them. `position` is None
    for what is no change of the journal, such as the state of a connection."""

    position: int | None
    body: bytes


class Others:
    """The fold of a session that another process writes to: its rows, made of its frames as they come."""

    def __init__(self, session_id: str) -> None:
        self.record = SessionRecord(session_id)
        self.store = RowStore()
        self.cursor: Cursor | None = None


class Feed:
    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.followers = 0
        self.over = False  # the session was deleted
        self.others: Others | None = None
        self.item: SessionItem | None = None  # as it was last told
        self.floor: int | None = None  # all changes after this position are here; None: it is not known yet
        self.beginning = 0  # those who read what they begin with: what comes meanwhile is kept for them
        self.resets = 0
        self._pieces: deque[Piece] = deque()
        self._first = 0  # the number of the first piece that is here
        self._size = 0
        self._known: int | None = None  # the position up to which it was told
        self._waiting: set[asyncio.Event] = set()

    @property
    def end(self) -> int:
        """The number that the next piece will have."""
        return self._first + len(self._pieces)

    def begin(self, position: int) -> None:
        """Someone follows from this position on."""
        if self.floor is None:
            self.floor = position
        if self._known is None:
            self._known = position

    def misses(self, position: int) -> bool:
        """Whether there was something up to this position that it was not told of: another process wrote it."""
        return self._known is not None and self._known < position

    def put(self, changes: Sequence[Change], position: int | None = None) -> None:
        if position is not None:
            self._known = max(self._known or 0, position)
        if changes:
            piece = Piece(position, msgspec.json.encode(changes)[1:-1])
            self._pieces.append(piece)
            self._size += len(piece.body)
            while self._size > KEPT and len(self._pieces) > 1 and not self.beginning:
                self.drop()
        self.wake()

    @property
    def size(self) -> int:
        """Bytes that could be dropped."""
        return 0 if self.beginning else self._size

    def drop(self) -> None:
        """Forgets the oldest piece: who has not got it yet gets a snapshot next."""
        dropped = self._pieces.popleft()
        self._first += 1
        self._size -= len(dropped.body)
        if dropped.position is not None:
            self.floor = max(self.floor or 0, dropped.position)

    def reset(self) -> None:
        """What was told is no base for what follows: all who follow get a snapshot next."""
        self._first = self.end + 1
        self._pieces.clear()
        self._size = 0
        self._known = self.floor = None
        self.resets += 1
        self.wake()

    def ended(self) -> None:
        self.over = True
        self.wake()

    def wake(self) -> None:
        for event in self._waiting:
            event.set()

    def number_after(self, position: int) -> int:
        """The number of the first piece that tells of something after this position."""
        number = self.end
        for piece in reversed(self._pieces):
            if piece.position is not None and piece.position <= position:
                break
            number -= 1
        return number

    def since(self, number: int, position: int) -> tuple[bytes, int, int] | None:
        """The changes from this number on, as many as go into a message: their JSON, the next number, and the position
        after them. None where they are no longer here.

        `position` is how far whoever asks has come. It may be further than the pieces: what was read from the journal
        just after a commit was there before we are told of it.
        """
        if number < self._first:
            return None
        bodies: list[bytes] = []
        size = 0
        for index in range(number - self._first, len(self._pieces)):
            piece = self._pieces[index]
            if piece.position is None or piece.position > position:
                if bodies and size + len(piece.body) > TOGETHER:
                    break
                bodies.append(piece.body)
                size += len(piece.body)
                position = position if piece.position is None else piece.position
            number += 1
        return b",".join(bodies), number, position

    async def wait(self, number: int) -> None:
        """Returns when there may be something from this number on, or it is over."""
        if number != self.end or self.over:
            return
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            await event.wait()
        finally:
            self._waiting.discard(event)
