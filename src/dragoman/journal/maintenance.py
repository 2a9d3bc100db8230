"""Rows from frames, for any journal: fold a session again, rebuild what is stale, check that both agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from dragoman.journal.entry import Cursor, read_message
from dragoman.journal.errors import JournalError
from dragoman.journal.protocols import JournalStore
from dragoman.journal.rows import RowStore, SessionRows
from dragoman.journal.session_record import SessionRecord

# A session that got frames each time it was folded is too busy to be rebuilt, or something is wrong with it.
_TRIES: Final = 20


async def load_record(journal: JournalStore, session_id: str) -> SessionRecord:
    """The session as its frames tell it, to go on from: what is added next has not been taken yet, all before has."""
    record = await fold_session(journal, session_id)
    record.take()
    return record


async def fold_session(journal: JournalStore, session_id: str) -> SessionRecord:
    """The session's frames through a fresh fold; nothing is taken from it yet."""
    record, _ = await _folded(journal, session_id)
    return record


async def _folded(journal: JournalStore, session_id: str) -> tuple[SessionRecord, Cursor | None]:
    """With the cursor after its last frame."""
    record = SessionRecord(session_id)
    cursor: Cursor | None = None
    while (page := await journal.read(session_id, after=cursor)).entries:
        for entry in page.entries:
            record.add(entry, read_message(entry))
        cursor = page.cursor
    return record, cursor


async def rebuild(journal: JournalStore, session_ids: Iterable[str] | None = None) -> int:
    """Makes the rows of these sessions, or of all, anew; how many sessions."""
    count = 0
    for session_id in session_ids if session_ids is not None else await journal.session_ids():
        # A session that goes on meanwhile is folded again, with what it got.
        for _ in range(_TRIES):
            if await journal.replace_rows((await fold_session(journal, session_id)).take()):
                break
        else:
            raise JournalError(
                f"the rows of session {session_id} could not be rebuilt: its frames are not those that were appended",
                guidance="Look at `dragoman journal verify`, or try again when the session is at rest.",
            )
        count += 1
    return count


async def refresh_rows(journal: JournalStore, session_id: str | None = None) -> None:
    """Rebuilds what is stale: this session's rows, or all."""
    stale = await journal.stale_sessions()
    await rebuild(journal, [one for one in stale if session_id in (None, one)])


async def verify(journal: JournalStore) -> Sequence[str]:
    """What is wrong, in words: with the store, and where rows are not what the frames say."""
    problems = list(await journal.check())
    for session_id in await journal.session_ids():
        problems += await verify_session(journal, session_id)
    return problems


async def verify_session(journal: JournalStore, session_id: str) -> Sequence[str]:
    """Where its rows are not what its frames say. Of one that never rests, nothing can be said."""
    for _ in range(_TRIES):
        record, cursor = await _folded(journal, session_id)
        stored = await journal.stored_rows(session_id)
        if (await journal.read(session_id, after=cursor, limit=1)).entries:
            continue  # it goes on: the rows may be of later frames
        tables = differing_tables(stored, rows_of(record))
        if tables and session_id in await journal.stale_sessions():
            return []  # nobody is shown these: they are made anew before
        return [f"session {session_id}: the {table} are not what its frames say" for table in tables]
    return []


def rows_of(record: SessionRecord) -> SessionRows:
    """All rows of a record from which nothing was taken yet, as a store would read them back."""
    store = RowStore()
    store.apply(record.take())
    return store.read()


def differing_tables(left: SessionRows, right: SessionRows) -> list[str]:
    """The tables that are not the same."""
    return [name for name in left.__struct_fields__ if _plain(getattr(left, name)) != _plain(getattr(right, name))]


def _plain(rows: Sequence[object]) -> object:
    # Written and read back: what a store keeps of a value is what can be written.
    return [msgspec.json.encode(row, order="sorted") for row in rows]
