"""`Broadcaster`: the changes of all sessions of a journal, for any number of clients that follow them.

Commits of this process are reported by the journal and cost no second fold. Commits of other processes are read from
the journal and folded here, for the sessions that a client follows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

import msgspec

from dragoman.bridge.broadcast import ForeignFold, SessionBroadcast, StreamMessage
from dragoman.bridge.listing import SessionListing, same_but_progress, session_item, session_state
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.rows import MAX_SENT_CHARS, changes_of, newest_rows, session_details
from dragoman.bridge.telemetry import Metrics
from dragoman.hub.hub import Hub
from dragoman.journal import notes
from dragoman.journal.entry import Cursor, Entry, Page, read_message
from dragoman.journal.errors import JournalError
from dragoman.journal.protocols import PAGE_ENTRIES
from dragoman.journal.rows import RowChanges, SessionRows, Tombstone
from dragoman.journal.rows import Session as SessionRow
from dragoman.protocol.messages import Change, FramesUpdate, PutSession, PutState, SessionSnapshot, StreamEnded
from dragoman.protocol.models import Frame, Rows, SessionItem, SessionState
from dragoman.record.rows import Run

logger = logging.getLogger(__name__)

# Pause between two reads of what other processes committed, while they do.
FOREIGN_READ_PAUSE_S: Final = 0.05

# Time for which the changes of a session are kept for a client that may come back.
LINGER_S: Final = 30.0

# Bytes of changes that are kept of all sessions together.
MAX_KEPT_BYTES: Final = 64 * 1024 * 1024

# Digits of a position in a cursor: more than any session will need, and few enough for an integer.
MAX_POSITION_DIGITS: Final = 15

# Prefix of frames that only the journal keeps: records of an agent's own files that no translator understood.
HIDDEN_KIND: Final = "_native/"

# For a caller that follows a single stream.
NO_LOCK: Final = nullcontext()

_encode = msgspec.json.Encoder().encode


class Broadcaster:
    def __init__(self, hub: Hub, metrics: Metrics) -> None:
        self._hub = hub
        self._journal = hub.journal
        self._metrics = metrics
        self._broadcasts: dict[str, SessionBroadcast] = {}
        self._positions: dict[str, int] = {}  # of each session, as this process last committed it
        self._states: dict[str, SessionState] = {}  # as last sent, of the sessions that are followed
        self._frame_followers: dict[str, set[asyncio.Event]] = {}  # set when there may be more frames
        self._task: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] | None = None
        self.listing = SessionListing(self._item)

    async def start(self) -> None:
        self._stop = self._journal.on_commit(self._on_committed)
        self._hub.on_change = self._on_change
        self._hub.is_followed = self.is_followed
        cursor = await self._journal.cursor()
        sessions = await self._journal.sessions()
        self.listing.begin(sessions)
        for row in sessions:
            if row.status == "running":
                self.listing.set_pending(row.id, await self._journal.rows(row.id, max_characters=MAX_SENT_CHARS))
                self.listing.refresh(row.id)
        self._task = asyncio.get_running_loop().create_task(
            self._follow_other_processes(cursor), name="dragoman broadcaster"
        )

    async def close(self) -> None:
        if self._stop is not None:
            self._stop()
            self._hub.on_change = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    # -- following one session

    def is_followed(self, session_id: str) -> bool:
        """Return whether a client looks at the session, or did a moment ago: it may only have lost its connection."""
        return session_id in self._broadcasts or session_id in self._frame_followers

    async def follow(
        self,
        session_id: str,
        after: str | None = None,
        limit: int = 400,
        lock: AbstractAsyncContextManager[object] = NO_LOCK,
    ) -> AsyncGenerator[StreamMessage, None]:
        """The messages of the stream `session`, encoded: a snapshot, then updates. Ends when the session is deleted.

        Each message is built with the `lock` taken, which is released when the next one is asked for: a client that
        shares a lock between streams has one message in memory, however many are ready.
        """
        broadcast = self._broadcasts.get(session_id)
        if broadcast is None:
            broadcast = self._broadcasts[session_id] = SessionBroadcast(session_id)
        broadcast.followers += 1
        head = b'{"type":"update","stream":"session","id":' + _encode(session_id) + b',"cursor":'
        try:
            while True:
                async with lock:
                    broadcast.starting += 1
                    try:
                        number, position, snapshot = await self._snapshot(broadcast, after, limit)
                    finally:
                        broadcast.starting -= 1
                    after = None
                    yield StreamMessage("snapshot", self._cursor(position), snapshot)
                    del snapshot  # here and below: a waiting follower keeps nothing of what was sent
                while True:
                    await broadcast.wait(number)
                    async with lock:
                        if (batch := broadcast.since(number, position)) is None:
                            break
                        number, position = batch.number, batch.position
                        if batch.body:
                            cursor = self._cursor(position)
                            data = b"".join((head, _encode(cursor), b',"changes":[', batch.body, b"]}"))
                            yield StreamMessage("update", cursor, data, batch.ended_runs, batch.failure)
                            del data
                        elif broadcast.deleted:
                            yield _deleted(session_id)
                            return
                        del batch
        finally:
            broadcast.followers -= 1
            if broadcast.floor is None:
                self._forget(broadcast)  # no client got anything of it
            elif not broadcast.followers:
                asyncio.get_running_loop().call_later(LINGER_S, self._forget, broadcast)

    def _forget(self, broadcast: SessionBroadcast) -> None:
        if not broadcast.followers and self._broadcasts.get(broadcast.session_id) is broadcast:
            del self._broadcasts[broadcast.session_id]
            self._states.pop(broadcast.session_id, None)
            self._hub.on_unfollowed(broadcast.session_id)

    async def _snapshot(self, broadcast: SessionBroadcast, after: str | None, limit: int) -> tuple[int, int, bytes]:
        """The number of the chunk to continue with, the position of the snapshot, and the encoded snapshot."""
        row, session_rows, resumed, elsewhere = await self._base(broadcast, after)
        # Nothing is awaited from here on: the snapshot and the number belong together.
        session_id = broadcast.session_id
        position = resumed if resumed is not None else row.frames
        broadcast.start_at(position)
        state = self._state(row, elsewhere=elsewhere)
        if self._states.get(session_id) != state:
            self._states[session_id] = state
            self._add(broadcast, [PutState(state=state)])
        rows, more, before = (Rows(), False, 0) if resumed is not None else newest_rows(session_rows, limit)
        snapshot = SessionSnapshot(
            id=session_id,
            cursor=self._cursor(position),
            resumed=resumed is not None,
            session=self._item(row),
            state=state,
            details=session_details(next(iter(session_rows.session_state), None)),
            rows=rows,
            more=more,
            before=before,
        )
        return broadcast.number_after(position), position, _encode(snapshot)

    async def _base(
        self, broadcast: SessionBroadcast, after: str | None
    ) -> tuple[SessionRow, SessionRows, int | None, bool]:
        """Read the start of a stream: session and rows, the position to continue from if the follower has these rows
        already, and whether another process has the session."""
        session_id = broadcast.session_id
        while True:
            resets = broadcast.resets
            row = await self._journal.session(session_id)
            if row is None:
                raise Refusal("not_found", f"there is no session {session_id}", field="id")
            elsewhere = await self._hub.owned_elsewhere(session_id)
            if (resumed := self._resume_position(broadcast, after, row)) is not None:
                session_rows = SessionRows(sessions=(row,))
            elif broadcast.foreign is not None:
                session_rows = broadcast.foreign.store.read()
            else:
                session_rows = await self._journal.rows(session_id, max_characters=MAX_SENT_CHARS)
            # After a reset, which another process caused by writing to it, the chunks continue from something else.
            if session_rows.sessions and broadcast.resets == resets:
                return session_rows.sessions[0], session_rows, resumed, elsewhere

    def _resume_position(self, broadcast: SessionBroadcast, after: str | None, row: SessionRow) -> int | None:
        """The position that a client may continue from; None where it needs a full snapshot."""
        if after is None:
            return None
        name, _, digits = after.partition(".")
        if name != f"r{self._journal.name}" or not digits.isdecimal() or len(digits) > MAX_POSITION_DIGITS:
            return None
        position = int(digits)
        if position == row.frames:
            return position
        return position if broadcast.floor is not None and broadcast.floor <= position < row.frames else None

    def _cursor(self, position: int) -> str:
        return f"r{self._journal.name}.{position}"

    async def follow_frames(
        self, session_id: str, after: Cursor | None = None, lock: AbstractAsyncContextManager[object] = NO_LOCK
    ) -> AsyncGenerator[StreamMessage, None]:
        """The frames of a session, encoded: stored ones, then new ones; with the session's state whenever it changed.

        `lock`: see `follow`.
        """
        if await self._journal.session(session_id) is None:
            raise Refusal("not_found", f"there is no session {session_id}", field="id")
        if after is not None and len(after) > len(self._journal.name) + 1 + MAX_POSITION_DIGITS:
            raise Refusal("invalid", "this is not a cursor of this journal", field="after")
        changed = asyncio.Event()
        self._frame_followers.setdefault(session_id, set()).add(changed)
        last_state: SessionState | None = None
        more, deleted = True, False
        try:
            while not deleted:
                if not more:
                    await changed.wait()
                async with lock:
                    changed.clear()
                    page = await self._journal.read(session_id, after=after)
                    state = await self._current_state(session_id)
                    new_state = state if state != last_state else None
                    last_state = state or last_state
                    announced, more = more, len(page.entries) == PAGE_ENTRIES
                    deleted = bool(page.entries) and notes.is_tombstone(page.entries[-1])
                    before, after = after, page.cursor
                    if announced or page.entries or new_state is not None:
                        data = _encode(_frames(session_id, before, page, new_state, more=more))
                        yield StreamMessage("update", page.cursor, data)
                        del data
                    del page  # a waiting follower keeps nothing of what was sent
        finally:
            self._frame_followers[session_id].discard(changed)
            if not self._frame_followers[session_id]:
                del self._frame_followers[session_id]
                self._hub.on_unfollowed(session_id)
        yield _deleted(session_id)

    async def _current_state(self, session_id: str) -> SessionState | None:
        row = self.listing.row(session_id)
        if row is None:
            return None
        return self._state(row, elsewhere=await self._hub.owned_elsewhere(session_id))

    def _state(self, row: SessionRow, *, elsewhere: bool) -> SessionState:
        owned = self._hub.owned_sessions.get(row.id)
        return session_state(row, owned, elsewhere=elsewhere, pending=self.listing.pending_in(row.id))

    # -- commits of this process

    def _on_committed(self, cursor: Cursor, entries: Sequence[Entry], changes: Sequence[RowChanges]) -> None:
        self._metrics.frames.inc(len(entries))
        if self._frame_followers:
            for session_id in self._frame_followers.keys() & {entry.session_id for entry in entries}:
                self._wake_frame_followers(session_id)
        for change in changes:
            try:
                self._publish_commit(change)
            except Exception:  # the session that committed it must go on
                logger.exception("a commit of session %s could not be sent to its followers", change.session_id)

    def _publish_commit(self, change: RowChanges) -> None:
        self._positions[change.session_id] = change.position
        self._update_listing(change)
        broadcast = self._broadcasts.get(change.session_id)
        if broadcast is None:
            return
        if broadcast.foreign is not None or broadcast.misses(
            change.previous_position
        ):  # another process had it, now this one has
            broadcast.foreign = None
            broadcast.reset()
        self._publish(broadcast, change)

    def _publish(self, broadcast: SessionBroadcast, change: RowChanges) -> None:
        sent = changes_of(change)
        for row in change.puts:
            if isinstance(row, SessionRow):
                self._append_item(broadcast, self._item(row), sent)
        if (state := self._changed_state(broadcast.session_id)) is not None:
            sent.append(PutState(state=state))
        self._add(broadcast, sent, change.position)
        if any(isinstance(row, Tombstone) for row in change.puts):
            broadcast.end_all()

    def _add(self, broadcast: SessionBroadcast, changes: Sequence[Change], position: int | None = None) -> None:
        broadcast.add(changes, position)
        while sum([each.droppable_bytes for each in self._broadcasts.values()]) > MAX_KEPT_BYTES:
            max(self._broadcasts.values(), key=lambda each: each.droppable_bytes).drop_oldest()

    def _update_listing(self, change: RowChanges) -> None:
        self.listing.apply(change)
        for row in change.puts:
            if isinstance(row, Run) and row.status != "running":
                self._metrics.runs.labels(status=row.status).inc()

    def _on_change(self, session_id: str) -> None:
        """Refresh listing and followers: state outside the journal (connection, queue) changed."""
        self.listing.refresh(session_id)
        self._wake_frame_followers(session_id)
        broadcast = self._broadcasts.get(session_id)
        if broadcast is not None and (state := self._changed_state(session_id)) is not None:
            sent: list[Change] = [PutState(state=state)]
            if (item := self.listing.item(session_id)) is not None:
                self._append_item(broadcast, item, sent)
            self._add(broadcast, sent)

    def _wake_frame_followers(self, session_id: str) -> None:
        for event in self._frame_followers.get(session_id, ()):
            event.set()

    def _append_item(self, broadcast: SessionBroadcast, item: SessionItem, sent: list[Change]) -> None:
        """Send the session's item only if more than its progress changed: that changes with every frame."""
        if broadcast.item is None or not same_but_progress(broadcast.item, item):
            broadcast.item = item
            sent.append(PutSession(session=item))

    def _changed_state(self, session_id: str) -> SessionState | None:
        row = self.listing.row(session_id)
        if row is None:
            return None
        last = self._states.get(session_id)
        elsewhere = last is not None and last.connection == "elsewhere" and session_id not in self._hub.owned_sessions
        state = self._state(row, elsewhere=elsewhere)
        if state == last:
            return None
        self._states[session_id] = state
        return state

    def _item(self, row: SessionRow) -> SessionItem:
        return session_item(
            row,
            self._hub.owned_sessions.get(row.id),
            pending=self.listing.pending_in(row.id),
            is_sub_agent=self.listing.is_sub_agent(row),
        )

    # -- commits of other processes

    async def _follow_other_processes(self, cursor: Cursor) -> None:
        unread: set[str] = set()
        async for _ in self._journal.changes():
            try:
                cursor, touched = await self._journal.changed_sessions(cursor)
                unread |= touched
                for session_id in touched:
                    self._wake_frame_followers(session_id)
                while unread:
                    session_id = min(unread)
                    try:
                        await self._read_foreign(session_id)
                    except JournalError:
                        raise
                    except Exception:  # one session must not cost the others
                        logger.exception("commits of another process to session %s cannot be sent", session_id)
                    unread.discard(session_id)
            except JournalError as error:
                logger.warning("commits of other processes cannot be read: %s", error)
            await asyncio.sleep(FOREIGN_READ_PAUSE_S)

    async def _read_foreign(self, session_id: str) -> None:
        owned = self._hub.owned_sessions.get(session_id)
        if owned is not None and owned.session is not None:
            return
        row = await self._journal.session(session_id)
        if row is not None and row.frames <= self._positions.get(session_id, 0):
            return
        broadcast = self._broadcasts.get(session_id)
        if row is None:
            self.listing.remove(session_id)
            if broadcast is not None:
                broadcast.end_all()
            return
        if broadcast is not None:
            await self._catch_up(broadcast)
        if row.status == "running" or self.listing.pending_in(session_id):
            self.listing.set_pending(session_id, await self._journal.rows(session_id, max_characters=MAX_SENT_CHARS))
        self.listing.put(row)

    async def _catch_up(self, broadcast: SessionBroadcast) -> None:
        known, resets = broadcast.foreign, broadcast.resets
        foreign = known or ForeignFold(broadcast.session_id)
        while True:
            page = await self._journal.read(broadcast.session_id, after=foreign.cursor)
            if broadcast.resets != resets:
                return  # this process writes to it now, and its commits are published as they are made
            if not page.entries:
                break
            for entry in page.entries:
                foreign.record.add(entry, read_message(entry))
            if foreign.record.is_outdated:  # a transcript goes on after its end was taken for that of a run
                known, foreign = None, ForeignFold(broadcast.session_id)
                continue
            foreign.cursor = page.cursor
            self._apply_foreign(broadcast, foreign, foreign.record.take(are_more_expected=True), known is not None)
        if foreign.record.provisional:
            self._apply_foreign(broadcast, foreign, foreign.record.take(), known is not None)
        if known is None and self._positions.get(broadcast.session_id, 0) <= foreign.record.position:
            broadcast.foreign = foreign
            broadcast.reset()

    def _apply_foreign(
        self, broadcast: SessionBroadcast, foreign: ForeignFold, change: RowChanges, is_followed: bool
    ) -> None:
        foreign.store.apply(change)
        if is_followed:
            self._publish(broadcast, change)


def _deleted(session_id: str) -> StreamMessage:
    return StreamMessage(
        "ended", "", _encode(StreamEnded(stream="session", id=session_id, reason="The session was deleted."))
    )


def _frames(
    session_id: str, after: Cursor | None, page: Page, state: SessionState | None, *, more: bool
) -> FramesUpdate:
    return FramesUpdate(
        id=session_id,
        after=after,
        cursor=page.cursor,
        frames=tuple([_frame(entry, page.cursor_at(index)) for index, entry in enumerate(page.entries)]),
        state=state,
        more=more,
    )


def _frame(entry: Entry, cursor: Cursor) -> Frame:
    hidden = entry.kind.startswith(HIDDEN_KIND)
    return Frame(
        cursor=cursor,
        connection_id=entry.connection_id,
        n=entry.n,
        at=entry.at,
        origin=entry.origin,
        kind="hidden" if hidden else entry.kind,
        frame="" if hidden else entry.frame.decode("utf-8", "replace"),
    )
