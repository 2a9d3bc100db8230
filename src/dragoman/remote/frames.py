"""What the server tells of a session, frame by frame, as what happened in it. Pure.

The same fold as everywhere: a session on a server tells its story in the words of one here. A frame that is told
twice, as after a connection that broke, counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from dragoman.bridge.payload import Frame
from dragoman.journal import notes
from dragoman.journal.entry import Entry, Origin, read_message
from dragoman.journal.rows import Session
from dragoman.journal.session_record import SessionRecord
from dragoman.record.facts import Fact, RunStarted
from dragoman.record.fold import SessionFold
from dragoman.wire.messages import Message, Notification, Reply, Request, RequestId

_NOTES: Final = "_dragoman/"


class Told(NamedTuple):
    """A frame that is new, and what it changed, in the run that it was said in."""

    message: Message
    at: float
    facts: Sequence[Fact]
    run_id: str | None
    note: notes.Note | None  # of the host, on the session as a whole


class Frames:
    def __init__(self, session_id: str) -> None:
        self._record = SessionRecord(session_id)
        self._numbers: dict[str, int] = {}  # of each connection: the last frame that was heard
        self._unanswered: set[RequestId] = set()

    @property
    def fold(self) -> SessionFold:
        return self._record.fold

    @property
    def count(self) -> int:
        return self._record.position

    @property
    def serving(self) -> bool:
        """The agent has asked something of its host, and waits for the answer."""
        return bool(self._unanswered)

    def session(self) -> Session:
        """The session's own row."""
        return self._record.session()

    def add(self, frame: Frame) -> Told | None:
        """None for one that was told before."""
        last = self._numbers.get(frame.connection_id, 0)
        if frame.n <= last:
            return None
        if not last:
            self._unanswered.clear()  # another connection: what was asked on an earlier one has no answer any more
        self._numbers[frame.connection_id] = frame.n
        origin = cast(Origin, frame.origin)
        entry = Entry(
            frame.connection_id, self._record.session_id, frame.n, frame.at, origin, frame.kind, frame.frame.encode()
        )
        message = read_message(entry)
        before = self.fold.runs.current_id
        changed = self._record.add(entry, message)
        started = any(isinstance(fact, RunStarted) for fact in changed)
        if isinstance(message, Request) and origin == "agent":
            self._unanswered.add(message.id)
        elif isinstance(message, Reply) and origin == "client":
            self._unanswered.discard(message.id)
        is_note = origin == "host" and isinstance(message, Notification) and message.method.startswith(_NOTES)
        return Told(
            message,
            frame.at,
            changed,
            self.fold.runs.current_id if started else before,
            notes.read(message) if is_note and isinstance(message, Notification) else None,
        )

    def forget(self) -> None:
        """What changed since the last time is of no use to a store here."""
        self._record.take()
