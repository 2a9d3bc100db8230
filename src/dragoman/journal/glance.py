"""A few rows of many sessions, without the messages and tool calls that are nearly all of each."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from dragoman.journal.errors import of_sqlite
from dragoman.journal.rows import SessionRows, State, Usage
from dragoman.journal.schema import ROW_TABLES, connect_reader
from dragoman.journal.sqlite import SqliteJournal
from dragoman.journal.store import Journal
from dragoman.journal.upkeep import freshen
from dragoman.record import rows


class Glance(msgspec.Struct, frozen=True):
    """`usage` has an entry for each run whose agent reported any figure."""

    runs: Sequence[rows.Run] = ()
    usage: Sequence[Usage] = ()
    state: State | None = None


async def glances(journal: Journal, session_ids: Iterable[str]) -> dict[str, Glance]:
    """By session."""
    wanted = list(session_ids)
    if not isinstance(journal, SqliteJournal):
        return {one: _of(await journal.rows(one)) for one in wanted}
    await freshen(journal)
    return await asyncio.to_thread(_read, journal.path, wanted)


def _of(found: SessionRows) -> Glance:
    return Glance(found.runs, found.usage, next(iter(found.session_state), None))


def _read(path: Path, session_ids: Sequence[str]) -> dict[str, Glance]:
    try:
        connection = connect_reader(path)
        try:
            return {one: _glance(connection, one) for one in session_ids}
        finally:
            connection.close()
    except sqlite3.Error as problem:
        raise of_sqlite(problem, str(path)) from problem


def _glance(connection: sqlite3.Connection, session_id: str) -> Glance:
    tables = (ROW_TABLES[name] for name in ("runs", "usage", "session_state"))
    runs, usage, states = (
        [
            table.row(values)
            for values in connection.execute(
                f"{table.select} WHERE session = (SELECT key FROM session_ids WHERE id = ?) ORDER BY place",  # noqa: S608
                (session_id,),
            )
        ]
        for table in tables
    )
    return Glance(runs, usage, next(iter(states), None))
