"""`RemoteFold`: the state of a session on a server, folded here from its frames. Pure.

The fold is the same as everywhere, so that a session on a server has the rows, facts and events of a local one. A frame
that arrives twice, as after a broken connection, counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from dragoman.journal import notes
from dragoman.journal.entry import Entry, Origin, read_message
from dragoman.journal.rows import Session
from dragoman.journal.session_record import SessionRecord
from dragoman.protocol.models import Frame
from dragoman.record.facts import Fact, RunStarted
from dragoman.record.fold import SessionFold
from dragoman.wire.messages import Message, Notification, Reply, Request, RequestId

_NOTES: Final = "_dragoman/"


class FoldedFrame(NamedTuple):
    """A new frame, the facts that follow from it, and the run that it belongs to."""

    message: Message
    at: float
    facts: Sequence[Fact]
    run_id: str | None
    note: notes.Note | None  # of the host, on the session as a whole


class RemoteFold:
    def __init__(self, session_id: str) -> None:
        self._record = SessionRecord(session_id)
        self._last_numbers: dict[str, int] = {}  # of the last frame of each connection
        self._unanswered: set[RequestId] = set()

    @property
    def fold(self) -> SessionFold:
        return self._record.fold

    @property
    def count(self) -> int:
        return self._record.position

    @property
    def is_serving(self) -> bool:
        """The agent waits for the answer to a request to its host."""
        return bool(self._unanswered)

    @property
    def is_outdated(self) -> bool:
        """A transcript goes on after its end was taken for that of a run: the session has to be folded again."""
        return self._record.is_outdated

    def session(self) -> Session:
        """The session's own row."""
        return self._record.session()

    def add(self, frame: Frame) -> FoldedFrame | None:
        """Fold a frame; None for one that was added before."""
        last = self._last_numbers.get(frame.connection_id, 0)
        if frame.n <= last:
            return None
        if not last:
            self._unanswered.clear()  # requests on an earlier connection get no answer any more
        self._last_numbers[frame.connection_id] = frame.n
        origin = cast(Origin, frame.origin)
        entry = Entry(
            frame.connection_id, self._record.session_id, frame.n, frame.at, origin, frame.kind, frame.frame.encode()
        )
        message = read_message(entry)
        run_id = self.fold.runs.current_id
        facts = self._record.add(entry, message)
        if any(isinstance(fact, RunStarted) for fact in facts):
            run_id = self.fold.runs.current_id
        if isinstance(message, Request) and origin == "agent":
            self._unanswered.add(message.id)
        elif isinstance(message, Reply) and origin == "client":
            self._unanswered.discard(message.id)
        is_note = origin == "host" and isinstance(message, Notification) and message.method.startswith(_NOTES)
        note = notes.read(message) if is_note and isinstance(message, Notification) else None
        return FoldedFrame(message, frame.at, facts, run_id, note)

    def fold_provisional(self) -> list[FoldedFrame]:
        """Fold the provisional frames at the end, because no more frames follow for now."""
        run_id = self.fold.runs.current_id
        return [
            FoldedFrame(read_message(entry), entry.at, facts, run_id, None)
            for entry, facts in self._record.fold_provisional()
        ]

    def drop_changes(self) -> None:
        """Drop the changes that a journal would store: there is none here."""
        self._record.drop_changes()
