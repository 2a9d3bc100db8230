"""`SessionDispatcher`: folds every frame of a session and tells its run, and the session, what changed.

Each frame is folded in the order of the wire, and what it changed is told as events: to the run that was active when it
was said, and to the session. With a journal the frame goes there first: it is folded on the way, and nobody is told of
it before it is kept for good. Which run is active is up to the session's turns; that one has ended they learn here.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from dragoman.host.host import Host
from dragoman.record import facts, notes, rows
from dragoman.record.events import AssistantDelta, event_from_fact
from dragoman.record.fold import Direction
from dragoman.record.replay_comparison import ReplayComparison
from dragoman.session.callback import call
from dragoman.session.run import Run
from dragoman.wire.connection import copy_error
from dragoman.wire.messages import Message, Notification, Reply, Request, Update

if TYPE_CHECKING:
    from dragoman.journal.entry import Origin
    from dragoman.journal.errors import JournalError
    from dragoman.session.journal_client import ConnectionRecorder
    from dragoman.session.session import Session

# Where a frame comes from, as the journal says it.
_ORIGINS: Final[dict[Direction, Origin]] = {"in": "agent", "out": "client", "host": "host"}


class SessionDispatcher:
    """`tells_all`: the session's `emit` is to be told of every event, whoever iterates."""

    def __init__(self, session: Session, host: Host, kept: ConnectionRecorder | None, *, tells_all: bool) -> None:
        self.count = 0
        self.active: Run | None = None  # the run that goes on: what is said now is said in it
        self.on_run_ended: Callable[[rows.Run], None] | None = None
        self._session_id = session.id
        self._fold = session.fold
        self._host = host
        self._emit = session.emit
        self._on_event = session.config.on_event
        self._tells_all = tells_all
        self._kept = kept
        self._said_in: deque[Run | None] = deque()  # of frames that are not told yet: the run they were said in
        self._awaited: dict[int, asyncio.Future[None]] = {}  # notes that someone wants to know kept, by their number
        self._replaying = False  # what the agent says now, it said before
        self._retold: ReplayComparison | None = None  # what it told again of what we have
        self._retells_all = False  # it has to tell all of it again
        if kept is not None:
            kept.join(session.id, self.told)

    # -- what is said

    def heard(self, update: Update, at: float) -> None:
        """One update: the path that is taken a hundred thousand times, and written for it."""
        self.count = position = self.count + 1
        run = self.active
        if self._kept is not None:
            if self._retold is not None:
                self._retold.add(update.update)
            self._said_in.append(run)
            self._kept.add("replay" if self._replaying else "agent", update, at, self._session_id)
            return
        if run is not None:
            if run.heartbeat is not None:
                call(self._session_id, run.heartbeat)
            said = self._fold.messages.append_text(update.update)
            if said is not None:
                if self._on_event is not None:
                    self._emit(run, AssistantDelta(at, self._session_id, run.id, update.line, said[1], said[0].id))
                elif run.wants_events:  # what `emit` would do: a call less for each of a hundred thousand
                    run.push(AssistantDelta(at, self._session_id, run.id, update.line, said[1], said[0].id))
                return
        self._tell(self._fold.update(position, at, update.update), at, update.line, run)

    def record(self, direction: Direction, message: Message, at: float) -> None:
        """Any other frame of this session, sent, received, or noted by us."""
        self.count += 1
        if self._kept is None:
            self._changed(direction, message, at, self._fold.apply(self.count, at, direction, message), self.active)
            return
        replayed = self._replaying and direction == "in" and not isinstance(message, Reply)
        self._said_in.append(self.active)
        self._kept.add("replay" if replayed else _ORIGINS[direction], message, at, self._session_id)

    def recorded(self, message: Notification) -> asyncio.Future[None]:
        """Records a note of ours, now; the future is done when it is kept for good, or says why it cannot be."""
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.record("host", message, time.time())
        if self._kept is None:
            kept.set_result(None)
        elif self._kept.problem is not None:
            kept.set_exception(copy_error(self._kept.problem))
        else:
            self._awaited[self.count] = kept
        return kept

    # -- what is told

    def told(self, origin: Origin, message: Message, at: float, changed: Sequence[facts.Fact]) -> None:
        """A frame is kept, and this is what it changed."""
        run = self._said_in.popleft()
        if run is not self.active:
            run = None  # it ended in the same breath
        if type(message) is Update:
            if run is not None and run.heartbeat is not None:
                call(self._session_id, run.heartbeat)
            self._tell(changed, at, message.line, run)
            return
        if (kept := self._awaited.pop(self.count - len(self._said_in), None)) is not None and not kept.done():
            kept.set_result(None)
        direction: Direction = "host" if origin == "host" else "out" if origin == "client" else "in"
        self._changed(direction, message, at, changed, run)

    def _changed(
        self, direction: Direction, message: Message, at: float, changed: Sequence[facts.Fact], run: Run | None
    ) -> None:
        if direction == "in" and isinstance(message, Notification) and message.method == "elicitation/complete":
            self._host.completed(message.params)
        if direction == "in" and isinstance(message, Request):
            self._host.announce(message)
        self._tell(changed, at, getattr(message, "line", None), run)

    def _tell(self, changed: Sequence[facts.Fact], at: float, line: bytes | None, run: Run | None) -> None:
        # An event that nobody looks at is not made: most sessions of a server have none who would.
        wanted = self._tells_all or self._on_event is not None or (run is not None and run.wants_events)
        for fact in changed:
            if type(fact) is facts.RunEnded:
                if self.on_run_ended is not None:
                    self.on_run_ended(fact.run)
                run = None
            elif wanted:
                event = event_from_fact(fact, at, self._session_id, run.id if run else None, line)
                if event is not None:
                    self._emit(run, event)

    # -- a history that is told again

    def replays(self, *, all_of_it: bool) -> None:
        """The agent is about to tell its history again, or may do so, and go on with that until the next prompt."""
        self._replaying = True
        self._retells_all = all_of_it
        if self._kept is not None and (self._fold.messages or len(self._fold.tool_calls)):
            self._retold = ReplayComparison()

    def replayed(self) -> notes.HistoryDiffers | None:
        """It cannot go on with that, and what it says from here on is new. How what it told differs from what we have;
        said once."""
        self._replaying = False
        retold, self._retold = self._retold, None
        if retold is None or not (self._retells_all or retold.exchanges):
            return None
        return retold.compare_with(self._fold)

    # -- the end

    @property
    def problem(self) -> JournalError | None:
        """Why nothing more is kept, and so nobody told."""
        return self._kept.problem if self._kept is not None else None

    def lost(self) -> None:
        """The agent is gone. Who waits for what can no longer be kept learns why."""
        if self.problem is not None:
            for kept in self._awaited.values():
                if not kept.done():
                    kept.set_exception(copy_error(self.problem))
