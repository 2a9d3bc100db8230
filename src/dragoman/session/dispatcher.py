"""`SessionDispatcher`: folds every frame of a session and hands what it changed, as events, to its run and its session.

Frames are folded in the order of the wire. With a journal a frame goes there first: it is folded on the way, and
no program sees it before it is committed. The session's `RunQueue` sets which run is active, and learns here that a run
has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.host.host import Host
from dragoman.record import facts, notes, rows
from dragoman.record.events import AssistantDelta, Event, event_from_fact
from dragoman.record.fold import Direction, SessionFold
from dragoman.record.replay_comparison import ReplayComparison
from dragoman.session.interfaces import FrameObserver
from dragoman.session.lifecycle import call_safely
from dragoman.session.options import OnEvent
from dragoman.session.run import Run
from dragoman.wire.connection import copy_error
from dragoman.wire.messages import Message, Notification, Reply, Request, Update

if TYPE_CHECKING:
    from dragoman.journal.entry import Origin
    from dragoman.journal.errors import JournalError
    from dragoman.journal.recorder import ConnectionRecorder, RecordedFrame

# The journal's word for where a frame comes from.
_ORIGINS: Final[dict[Direction, Origin]] = {"in": "agent", "out": "client", "host": "host"}


class _AwaitedNote(msgspec.Struct, eq=False):
    """The context of a note whose commit somebody awaits."""

    run: Run | None
    committed: asyncio.Future[None]


class SessionDispatcher:
    """`emit` gets the events of a run and those between runs; `observer` sees the frames themselves."""

    def __init__(
        self,
        session_id: str,
        fold: SessionFold,
        host: Host,
        recorder: ConnectionRecorder | None,
        *,
        emit: Callable[[Run | None, Event], None],
        on_event: OnEvent | None,
        observer: FrameObserver | None = None,
    ) -> None:
        self.frame_count = 0
        self.active: Run | None = None  # the run that frames belong to now
        self.on_run_ended: Callable[[rows.Run], None] | None = None
        self._session_id = session_id
        self._fold = fold
        self._host = host
        self._recorder = recorder
        self._emit = emit
        self._on_event = on_event
        self._observer = observer
        # Somebody is called for each update: then they are taken one by one.
        self._reports_each_update = recorder is not None or on_event is not None or observer is not None
        self._awaited_notes: set[_AwaitedNote] = set()
        self._replaying = False  # the agent repeats what it said before
        self._replay: ReplayComparison | None = None  # what it repeats, to be compared with what we have
        self._replays_all = False  # it has to repeat the whole history
        if recorder is not None:
            recorder.listen(session_id, self.on_committed)

    # -- frames

    def on_updates(self, updates: Sequence[Update], at: float) -> None:
        """Take updates of this session that came in together.

        Nearly all updates are text of the agent's current message, by the hundred thousand. Those that follow each
        other are folded, and their events pushed, in one go. (Measured: 50,000 of them, from the pipe to the program,
        cost 62 ms in place of 76 ms.)
        """
        if self._reports_each_update:
            for update in updates:
                self._on_update(update, at)
            return
        index = 0
        while index < len(updates):
            index += self._append_texts(updates, index, at)
            if index < len(updates):
                self._on_update(updates[index], at)
                index += 1

    def _append_texts(self, updates: Sequence[Update], first: int, at: float) -> int:
        """Take the updates from `first` on that are text of the current message; return how many these are."""
        run, message = self.active, self._fold.messages.current
        if run is None or message is None or run.heartbeat is not None:
            return 0
        texts = self._fold.messages.append_texts(updates, first)
        self.frame_count += len(texts)
        if texts and run.wants_events:
            session_id, run_id, message_id = self._session_id, run.id, message.id
            frames = zip(updates[first : first + len(texts)], texts, strict=True)
            run.push([AssistantDelta(at, session_id, run_id, update.line, text, message_id) for update, text in frames])
        return len(texts)

    def _on_update(self, update: Update, at: float) -> None:
        self.frame_count = position = self.frame_count + 1
        run = self.active
        if self._recorder is not None:
            if self._replay is not None:
                self._replay.add(update.update)
            self._recorder.add("replay" if self._replaying else "agent", update, at, self._session_id, run)
            return
        if run is not None and run.heartbeat is not None:
            call_safely(self._session_id, run.heartbeat)
        changes = self._fold.update(position, at, update.update)
        if self._observer is not None:
            self._observer.on_frame("in", update, at, changes)
        self._dispatch_facts(changes, at, update.line, run)

    def record(self, direction: Direction, message: Message, at: float) -> None:
        """Take any other frame of this session: sent, received, or noted by us."""
        self._record(direction, message, at, self.active)

    def record_note(self, message: Notification, at: float) -> asyncio.Future[None]:
        """Take a note of ours, now; the future is done when it is committed, or raises why it cannot be."""
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._recorder is None:
            self.record("host", message, at)
            committed.set_result(None)
            return committed
        note = _AwaitedNote(self.active, committed)
        self._record("host", message, at, note)
        if self._recorder.error is not None:
            committed.set_exception(copy_error(self._recorder.error))
        else:
            self._awaited_notes.add(note)
        return committed

    def _record(self, direction: Direction, message: Message, at: float, context: Run | _AwaitedNote | None) -> None:
        self.frame_count += 1
        if self._recorder is None:
            changes = self._fold.apply(self.frame_count, at, direction, message)
            if self._observer is not None:
                self._observer.on_frame(direction, message, at, changes)
            self._dispatch(direction, message, at, changes, self.active)
            return
        is_replayed = self._replaying and direction == "in" and not isinstance(message, Reply)
        origin: Origin = "replay" if is_replayed else _ORIGINS[direction]
        self._recorder.add(origin, message, at, self._session_id, context)

    async def handed_on(self) -> None:
        """Return when the events of all that was recorded so far were emitted; a journal may still be writing it."""
        if self._recorder is not None:
            await self._recorder.handed_on()

    # -- events

    def on_committed(self, frame: RecordedFrame) -> None:
        """Hand on what a frame changed, now that the journal has it."""
        context = frame.context
        if type(context) is _AwaitedNote:
            self._awaited_notes.discard(context)
            if not context.committed.done():
                context.committed.set_result(None)
            context = context.run
        run = self.active if context is self.active else None  # a run may have ended in the same commit
        message, at = frame.message, frame.entry.at
        if type(message) is Update:
            if self._observer is not None:
                self._observer.on_frame("in", message, at, frame.facts)
            if run is not None and run.heartbeat is not None:
                call_safely(self._session_id, run.heartbeat)
            self._dispatch_facts(frame.facts, at, message.line, run)
            return
        origin = frame.entry.origin
        direction: Direction = "host" if origin == "host" else "out" if origin == "client" else "in"
        if self._observer is not None:
            self._observer.on_frame(direction, message, at, frame.facts)
        self._dispatch(direction, message, at, frame.facts, run)

    def _dispatch(
        self, direction: Direction, message: Message, at: float, changes: Sequence[facts.Fact], run: Run | None
    ) -> None:
        if direction == "in" and isinstance(message, Notification) and message.method == "elicitation/complete":
            self._host.questions.complete(message.params)
        if direction == "in" and isinstance(message, Request):
            self._host.announce(message)
        self._dispatch_facts(changes, at, getattr(message, "line", None), run)

    def _dispatch_facts(self, changes: Sequence[facts.Fact], at: float, line: bytes | None, run: Run | None) -> None:
        # Events without a reader are not made: most sessions of a server have none.
        is_wanted = self._on_event is not None or (run is not None and run.wants_events)
        for fact in changes:
            if type(fact) is facts.RunEnded:
                if self.on_run_ended is not None:
                    self.on_run_ended(fact.run)
                run = None
            elif is_wanted:
                event = event_from_fact(fact, at, self._session_id, run.id if run else None, line)
                if event is not None:
                    self._emit(run if run is not None and event.run_id == run.id else None, event)

    # -- a history that the agent repeats

    def begin_replay(self, *, whole_history: bool) -> None:
        """Expect the agent to repeat its history, and to go on with that until the next prompt."""
        self._replaying = True
        self._replays_all = whole_history
        if self._recorder is not None and (self._fold.messages or len(self._fold.tool_calls)):
            self._replay = ReplayComparison()

    def end_replay(self) -> notes.HistoryDiffers | None:
        """Take what comes from here on as new. Returns, once, how what the agent repeated differs from what we have."""
        self._replaying = False
        replay, self._replay = self._replay, None
        if replay is None or not (self._replays_all or replay.exchanges):
            return None
        return replay.compare_with(self._fold)

    # -- the end

    @property
    def error(self) -> JournalError | None:
        """The error after which nothing is committed any more, and no event is emitted."""
        return self._recorder.error if self._recorder is not None else None

    def on_link_lost(self) -> None:
        """Fail those who wait for a commit that can no longer happen."""
        if self.error is not None:
            for note in self._awaited_notes:
                if not note.committed.done():
                    note.committed.set_exception(copy_error(self.error))
