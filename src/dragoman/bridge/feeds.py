"""`Feeds`: what changes in the sessions of a journal, for any number of clients that follow.

What this process commits is told by the journal as it is committed, and costs no second fold. What other processes
commit is read from the journal, and folded here, for the sessions that someone follows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

import msgspec

from dragoman.bridge.feed import Feed, Others
from dragoman.bridge.listing import Listing, alike
from dragoman.bridge.live import item_of, live_of
from dragoman.bridge.messages import Change, Ended, FramesUpdate, PutLive, PutSession, SessionSnapshot
from dragoman.bridge.metrics import Metrics
from dragoman.bridge.payload import Frame, Live, Rows, SessionItem
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.rows import changes_of, newest, state_of
from dragoman.hub.hub import Hub
from dragoman.hub.owned_session import OwnedSession
from dragoman.journal import notes
from dragoman.journal.entry import Cursor, Entry, Page, read_message
from dragoman.journal.errors import JournalError
from dragoman.journal.protocols import PAGE_ENTRIES
from dragoman.journal.rows import RowChanges, SessionRows, Tombstone
from dragoman.journal.rows import Session as SessionRow
from dragoman.record.rows import Run

logger = logging.getLogger(__name__)

# Seconds between two looks at what other processes committed, while they do.
LOOK_AGAIN: Final = 0.05

# Seconds that changes of a session are gathered for a client that may come back.
LINGER: Final = 30.0

# Bytes of changes that are kept of all sessions together, however many are followed.
KEPT: Final = 64 * 1024 * 1024

# Of a position: more than any session will have, and few enough for a number.
DIGITS: Final = 15

# Kinds of frames that are for the journal alone: records of an agent's own files that nobody could translate.
HIDDEN: Final = "_native/"

# The turn of one who follows a single stream.
ANY_TIME: Final = nullcontext()

_encode = msgspec.json.Encoder().encode


class Feeds:
    def __init__(self, hub: Hub, metrics: Metrics) -> None:
        self._hub = hub
        self._journal = hub.journal
        self._metrics = metrics
        self._feeds: dict[str, Feed] = {}
        self._told: dict[str, int] = {}  # the position of each session, as this process last committed it
        self._live: dict[str, Live] = {}  # as it was last told, of the sessions that are followed
        self._watched: dict[str, set[asyncio.Event]] = {}  # of those who follow frames: set when there may be more
        self._task: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] | None = None
        self.listing = Listing(self._item)

    async def start(self) -> None:
        self._stop = self._journal.on_commit(self._heard)
        self._hub.on_change = self._changed
        cursor = await self._journal.cursor()
        sessions = await self._journal.sessions()
        self.listing.begin(sessions)
        for row in sessions:
            if row.status == "running":
                self.listing.waits(row.id, await self._journal.rows(row.id))
                self.listing.restate(row.id)
        self._task = asyncio.get_running_loop().create_task(self._follow_others(cursor), name="dragoman feeds")

    async def close(self) -> None:
        if self._stop is not None:
            self._stop()
            self._hub.on_change = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    # -- following one session

    async def follow(
        self,
        session_id: str,
        after: str | None = None,
        limit: int = 400,
        turn: AbstractAsyncContextManager[object] = ANY_TIME,
    ) -> AsyncGenerator[bytes, None]:
        """The messages of the stream `session`, encoded: a snapshot, then what comes. Ends when it is deleted.

        Each message is made when it is its `turn`, and that is over when the next one is asked for: who shares a turn
        between streams has one message in hand, however many wait.
        """
        feed = self._feeds.get(session_id)
        if feed is None:
            feed = self._feeds[session_id] = Feed(session_id)
        feed.followers += 1
        head = b'{"type":"update","stream":"session","id":' + _encode(session_id) + b',"cursor":'
        try:
            while True:
                async with turn:
                    feed.beginning += 1
                    try:
                        number, position, snapshot = await self._begin(feed, after, limit)
                    finally:
                        feed.beginning -= 1
                    after = None
                    yield snapshot
                    del snapshot  # here and below: who waits for more keeps nothing of what was sent
                while True:
                    await feed.wait(number)
                    async with turn:
                        if (found := feed.since(number, position)) is None:
                            break
                        body, number, position = found
                        if body:
                            yield b"".join((head, _encode(self._cursor(position)), b',"changes":[', body, b"]}"))
                        elif feed.over:
                            yield _encode(Ended(stream="session", id=session_id, reason="it was deleted"))
                            return
                        del found, body
        finally:
            feed.followers -= 1
            if feed.floor is None:
                self._forget(feed)  # nobody ever got anything of it
            elif not feed.followers:
                asyncio.get_running_loop().call_later(LINGER, self._forget, feed)

    def _forget(self, feed: Feed) -> None:
        if not feed.followers and self._feeds.get(feed.session_id) is feed:
            del self._feeds[feed.session_id]
            self._live.pop(feed.session_id, None)

    async def _begin(self, feed: Feed, after: str | None, limit: int) -> tuple[int, int, bytes]:
        """Where to go on in the feed, the position that this is, and what to begin with, encoded."""
        row, found, resumed, elsewhere = await self._base(feed, after)
        # From here on nothing is awaited: the snapshot and the number belong together.
        position = resumed if resumed is not None else row.frames
        feed.begin(position)
        held = self._hub.owned_sessions.get(feed.session_id)
        live = live_of(row, held, elsewhere=elsewhere, waiting=self.listing.waiting_in(feed.session_id))
        if self._live.get(feed.session_id) != live:
            self._live[feed.session_id] = live
            self._put(feed, [PutLive(live=live)])
        rows, more, before = (Rows(), False, 0) if resumed is not None else newest(found, limit)
        snapshot = SessionSnapshot(
            id=feed.session_id,
            cursor=self._cursor(position),
            resumed=resumed is not None,
            session=self._item(row),
            live=live,
            state=state_of(next(iter(found.session_state), None)),
            rows=rows,
            more=more,
            before=before,
        )
        return feed.number_after(position), position, _encode(snapshot)

    async def _base(self, feed: Feed, after: str | None) -> tuple[SessionRow, SessionRows, int | None, bool]:
        """What a follower begins with: the session, its rows, and the position to go on from where they have these
        already; and whether another process has it."""
        session_id = feed.session_id
        while True:
            resets = feed.resets
            row = await self._journal.session(session_id)
            if row is None:
                raise Refusal("not_found", f"there is no session {session_id}", field="id")
            elsewhere = await self._hub.owned_elsewhere(session_id)
            if (resumed := self._resumed(feed, after, row)) is not None:
                found = SessionRows(sessions=(row,))
            elif feed.others is not None:
                found = feed.others.store.read()
            else:
                found = await self._journal.rows(session_id)
            # Where another process has begun to write to it meanwhile, or has ended to, the feed tells what follows on
            # something else.
            if found.sessions and feed.resets == resets:
                return found.sessions[0], found, resumed, elsewhere

    def _resumed(self, feed: Feed, after: str | None, row: SessionRow) -> int | None:
        """The position that a client may go on from; None where it needs all anew."""
        if after is None:
            return None
        name, _, digits = after.partition(".")
        if name != f"r{self._journal.name}" or not digits.isdecimal() or len(digits) > DIGITS:
            return None
        position = int(digits)
        if position == row.frames:
            return position
        return position if feed.floor is not None and feed.floor <= position < row.frames else None

    def _cursor(self, position: int) -> str:
        return f"r{self._journal.name}.{position}"

    async def follow_frames(
        self, session_id: str, after: Cursor | None = None, turn: AbstractAsyncContextManager[object] = ANY_TIME
    ) -> AsyncGenerator[bytes, None]:
        """The frames of a session as they went over the wire, encoded: what is stored, then what comes; and with them
        how it stands with the session, whenever that has changed. `turn`: see `follow`."""
        if await self._journal.session(session_id) is None:
            raise Refusal("not_found", f"there is no session {session_id}", field="id")
        if after is not None and len(after) > len(self._journal.name) + 1 + DIGITS:
            raise Refusal("invalid", "this is no cursor of this journal", field="after")
        changed = asyncio.Event()
        self._watched.setdefault(session_id, set()).add(changed)
        told: Live | None = None
        more, over = True, False
        try:
            while not over:
                if not more:
                    await changed.wait()
                async with turn:
                    changed.clear()
                    page = await self._journal.read(session_id, after=after)
                    told, news = await self._news(session_id, told)
                    promised, more = more, len(page.entries) == PAGE_ENTRIES
                    over = bool(page.entries) and notes.is_tombstone(page.entries[-1])
                    after = page.cursor
                    if promised or page.entries or news is not None:
                        yield _encode(_frames(session_id, page, news, more=more))
                    del page  # who waits for more keeps nothing of what was sent
        finally:
            self._watched[session_id].discard(changed)
            if not self._watched[session_id]:
                del self._watched[session_id]
        yield _encode(Ended(stream="session", id=session_id, reason="it was deleted"))

    async def _news(self, session_id: str, told: Live | None) -> tuple[Live | None, Live | None]:
        """How it stands with the session, and the same where that is other than was told."""
        row = self.listing.row(session_id)
        if row is None:
            return told, None
        elsewhere = await self._hub.owned_elsewhere(session_id)
        held = self._hub.owned_sessions.get(session_id)
        live = live_of(row, held, elsewhere=elsewhere, waiting=self.listing.waiting_in(session_id))
        return live, live if live != told else None

    # -- what this process commits

    def _heard(self, cursor: Cursor, entries: Sequence[Entry], changes: Sequence[RowChanges]) -> None:
        self._metrics.frames.add(len(entries))
        if self._watched:
            for session_id in self._watched.keys() & {entry.session_id for entry in entries}:
                self._wake(session_id)
        for change in changes:
            try:
                self._tell_of(entries, change)
            except Exception:  # whoever committed it has nothing to do with it, and must go on
                logger.exception("what session %s got cannot be told", change.session_id)

    def _tell_of(self, entries: Sequence[Entry], change: RowChanges) -> None:
        self._told[change.session_id] = change.position
        self._tell(change)
        feed = self._feeds.get(change.session_id)
        if feed is None:
            return
        before = change.position - sum([entry.session_id == change.session_id for entry in entries])
        if feed.others is not None or feed.misses(before):  # it was another process's, and is ours now
            feed.others = None
            feed.reset()
        self._feed(feed, change)

    def _feed(self, feed: Feed, change: RowChanges) -> None:
        made = changes_of(change)
        for row in change.puts:
            if isinstance(row, SessionRow):
                self._tell_item(feed, self._item(row), made)
        if (live := self._new_live(feed.session_id)) is not None:
            made.append(PutLive(live=live))
        self._put(feed, made, change.position)
        if any(isinstance(row, Tombstone) for row in change.puts):
            feed.ended()

    def _put(self, feed: Feed, changes: Sequence[Change], position: int | None = None) -> None:
        feed.put(changes, position)
        while sum([one.size for one in self._feeds.values()]) > KEPT:
            max(self._feeds.values(), key=lambda one: one.size).drop()

    def _tell(self, change: RowChanges) -> None:
        """To those who follow the list, and what waits."""
        self.listing.changed(change)
        for row in change.puts:
            if isinstance(row, Run) and row.ended_time is not None:
                self._metrics.runs.add(status=row.status)

    def _changed(self, session_id: str) -> None:
        """It may stand otherwise with a session of ours, though nothing was committed."""
        self.listing.restate(session_id)
        self._wake(session_id)
        feed = self._feeds.get(session_id)
        if feed is not None and (live := self._new_live(session_id)) is not None:
            made: list[Change] = [PutLive(live=live)]
            if (item := self.listing.item(session_id)) is not None:
                self._tell_item(feed, item, made)
            self._put(feed, made)

    def _wake(self, session_id: str) -> None:
        for event in self._watched.get(session_id, ()):
            event.set()

    def _tell_item(self, feed: Feed, item: SessionItem, made: list[Change]) -> None:
        """Only where more of it changed than how far it has come: that comes with every frame."""
        if feed.item is None or not alike(feed.item, item):
            feed.item = item
            made.append(PutSession(session=item))

    def _new_live(self, session_id: str) -> Live | None:
        row = self.listing.row(session_id)
        if row is None:
            return None
        known = self._live.get(session_id)
        elsewhere = known is not None and known.connection == "elsewhere"
        held = self._hub.owned_sessions.get(session_id)
        waiting = self.listing.waiting_in(session_id)
        live = live_of(row, held, elsewhere=elsewhere and held is None, waiting=waiting)
        if live == known:
            return None
        self._live[session_id] = live
        return live

    def _item(self, row: SessionRow) -> SessionItem:
        return item_of(row, self._held(row.id), waiting=self.listing.waiting_in(row.id))

    def _held(self, session_id: str) -> OwnedSession | None:
        return self._hub.owned_sessions.get(session_id)

    # -- what other processes commit

    async def _follow_others(self, cursor: Cursor) -> None:
        waiting: set[str] = set()  # those that are still to be looked at
        async for _ in self._journal.changes():
            try:
                cursor, touched = await self._journal.changed_sessions(cursor)
                waiting |= touched
                for session_id in touched:
                    self._wake(session_id)
                while waiting:
                    session_id = min(waiting)
                    try:
                        await self._look_at(session_id)
                    except JournalError:
                        raise
                    except Exception:  # one session must not cost the others
                        logger.exception("what another process wrote to session %s cannot be told", session_id)
                    waiting.discard(session_id)
            except JournalError as problem:
                logger.warning("what other processes write cannot be read: %s", problem)
            await asyncio.sleep(LOOK_AGAIN)

    async def _look_at(self, session_id: str) -> None:
        held = self._hub.owned_sessions.get(session_id)
        if held is not None and held.session is not None:
            return
        row = await self._journal.session(session_id)
        if row is not None and row.frames <= self._told.get(session_id, 0):
            return
        feed = self._feeds.get(session_id)
        if row is None:
            self.listing.gone(session_id)
            if feed is not None:
                feed.ended()
            return
        if feed is not None:
            await self._catch_up(feed)
        if row.status == "running" or self.listing.waiting_in(session_id):
            self.listing.waits(session_id, await self._journal.rows(session_id))
        self.listing.put(row)

    async def _catch_up(self, feed: Feed) -> None:
        known, resets = feed.others, feed.resets
        others = known or Others(feed.session_id)
        while True:
            page = await self._journal.read(feed.session_id, after=others.cursor)
            if feed.resets != resets:
                return  # this process writes to it now, and that is told as it comes
            if not page.entries:
                break
            for entry in page.entries:
                others.record.add(entry, read_message(entry))
            others.cursor = page.cursor
            change = others.record.take()
            others.store.apply(change)
            if known is not None:
                self._feed(feed, change)
        if known is None and self._told.get(feed.session_id, 0) <= others.record.position:
            feed.others = others
            feed.reset()


def _frames(session_id: str, page: Page, live: Live | None, *, more: bool = False) -> FramesUpdate:
    return FramesUpdate(
        id=session_id,
        cursor=page.cursor,
        frames=tuple([_frame(entry, page.cursor_at(index)) for index, entry in enumerate(page.entries)]),
        live=live,
        more=more,
    )


def _frame(entry: Entry, cursor: Cursor) -> Frame:
    hidden = entry.kind.startswith(HIDDEN)
    return Frame(
        cursor=cursor,
        connection_id=entry.connection_id,
        n=entry.n,
        at=entry.at,
        origin=entry.origin,
        kind="hidden" if hidden else entry.kind,
        frame="" if hidden else entry.frame.decode("utf-8", "replace"),
    )
