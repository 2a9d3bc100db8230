"""Maintenance of any journal: fold a session again, rebuild stale rows, verify that rows and frames agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from dragoman.journal.entry import Cursor, read_message
from dragoman.journal.errors import JournalError
from dragoman.journal.protocols import JournalStore
from dragoman.journal.rows import RowStore, SessionRows
from dragoman.journal.session_record import SessionRecord

# A session that got frames each time it was folded is too busy to be rebuilt, or damaged.
_MAX_TRIES: Final = 20


async def load_record(journal: JournalStore, session_id: str) -> SessionRecord:
    """Fold the session, so that frames can be added: `take` then returns the changes of those alone."""
    record = await fold_session(journal, session_id)
    record.take()
    return record


async def fold_session(journal: JournalStore, session_id: str) -> SessionRecord:
    """Fold all frames of the session; `take` then returns all of its rows."""
    record, _ = await _folded(journal, session_id)
    return record


async def _folded(journal: JournalStore, session_id: str) -> tuple[SessionRecord, Cursor | None]:
    """Return the record, and the cursor after its last frame."""
    record = SessionRecord(session_id)
    cursor: Cursor | None = None
    while (page := await journal.read(session_id, after=cursor)).entries:
        for entry in page.entries:
            record.add(entry, read_message(entry))
        cursor = page.cursor
    return record, cursor


async def rebuild(journal: JournalStore, session_ids: Iterable[str] | None = None) -> int:
    """Rebuild the rows of these sessions, or of all; return how many sessions were rebuilt."""
    count = 0
    for session_id in session_ids if session_ids is not None else await journal.session_ids():
        # A session that gets frames meanwhile is folded again with these.
        for _ in range(_MAX_TRIES):
            if await journal.replace_rows((await fold_session(journal, session_id)).take()):
                break
        else:
            raise JournalError(
                f"the rows of session {session_id} could not be rebuilt: its frames are not those that were appended",
                guidance="Run `dragoman journal verify`, or try again when the session is idle.",
            )
        count += 1
    return count


async def refresh_rows(journal: JournalStore, session_id: str | None = None) -> None:
    """Rebuild stale rows, of this session or of all."""
    stale = await journal.stale_sessions()
    await rebuild(journal, [stale_id for stale_id in stale if session_id in (None, stale_id)])


async def verify(journal: JournalStore) -> Sequence[str]:
    """Describe every defect: of the store itself, and rows that differ from what the frames fold to."""
    defects = list(await journal.check())
    for session_id in await journal.session_ids():
        defects += await verify_session(journal, session_id)
    return defects


async def verify_session(journal: JournalStore, session_id: str) -> Sequence[str]:
    """Describe where rows differ from what the frames fold to. A session that never pauses cannot be verified."""
    for _ in range(_MAX_TRIES):
        record, cursor = await _folded(journal, session_id)
        stored = await journal.stored_rows(session_id)
        if (await journal.read(session_id, after=cursor, limit=1)).entries:
            continue  # new frames came: the rows may be theirs
        tables = differing_tables(stored, rows_of(record))
        if tables and session_id in await journal.stale_sessions():
            return []  # these rows are rebuilt before anyone reads them
        return [f"session {session_id}: the rows in {table} differ from its frames" for table in tables]
    return []


def rows_of(record: SessionRecord) -> SessionRows:
    """Return all rows of a record from which nothing was taken yet, as a store would read them back."""
    store = RowStore()
    store.apply(record.take())
    return store.read()


def differing_tables(left: SessionRows, right: SessionRows) -> list[str]:
    """Return the names of the tables that differ."""
    return [name for name in left.__struct_fields__ if _encoded(getattr(left, name)) != _encoded(getattr(right, name))]


def _encoded(rows: Sequence[object]) -> object:
    # Encoded: a store has of a value only what can be written.
    return [msgspec.json.encode(row, order="sorted") for row in rows]
