"""Rows in SQLite: what a commit changed, put into the tables; the rows of a session, read back.

Works on a connection with a transaction at hand. The index for search is kept here too: it changes with the rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec

from dragoman.journal.rows import (
    TABLE_NAMES,
    Receipt,
    RowChanges,
    Session,
    SessionRows,
    SessionSummary,
    StoredMessage,
    row_key,
)
from dragoman.journal.sqlite.schema import ROW_TABLES, ROWS_VERSION, SESSION_TABLES
from dragoman.wire.vocabulary import ContentBlock

# Two characters after each text: every one or two characters of it then begin a group of three, which is what the
# index is made of.
END_MARK: Final = "\n\n"

# Bits for the rows of one commit: a million, where a rebuild writes a whole session in one.
_PLACES: Final = 20

_place = itemgetter(-1)
_blocks = msgspec.json.Decoder(tuple[ContentBlock, ...])


def values_of(changes: RowChanges) -> list[list[Any]]:
    """What is to be stored of each row that is put. It takes no connection."""
    return [ROW_TABLES[TABLE_NAMES[type(row)]].values(row) for row in changes.puts]


def apply(connection: sqlite3.Connection, session_key: int, changes: RowChanges, values: Sequence[list[Any]]) -> None:
    """`values`: see `values_of`."""
    for table, key in changes.removed:
        connection.execute(f'DELETE FROM "{table}" WHERE session = ? AND key = ?', (session_key, key))  # noqa: S608
    texts: dict[str, str] = {}
    # Later commits come after; within one, rows are in the order in which they were first seen.
    first = changes.position << _PLACES
    for place, (row, stored) in enumerate(zip(changes.puts, values, strict=True), start=first):
        put = ROW_TABLES[TABLE_NAMES[type(row)]].put
        connection.execute(put, (session_key, row_key(row), place, *stored))
        if isinstance(row, StoredMessage) and row.ended:
            connection.execute("DELETE FROM message_parts WHERE session = ? AND message_id = ?", (session_key, row.id))
            texts[row.id] = row.text
        elif isinstance(row, Receipt):
            connection.execute(
                "UPDATE inbox SET outcome = ?, detail = ?, done_at = ?"
                " WHERE command_id = ? AND session_id = ? AND outcome IS NULL",
                (row.outcome, row.detail, row.time, row.id, changes.session_id),
            )
    for part in changes.parts:
        blocks = msgspec.json.encode(part.blocks) if part.blocks else None
        connection.execute(
            "INSERT INTO message_parts VALUES(?, ?, ?, ?)", (session_key, part.message_id, part.text, blocks)
        )
    for doc in changes.docs:
        made = connection.execute(
            "INSERT INTO search_docs(session, row_id, kind, at, text) VALUES(?, ?, ?, ?, ?)",
            (session_key, doc.row_id, doc.kind, doc.at, doc.text),
        )
        text = doc.text if doc.text is not None else texts[doc.row_id]
        connection.execute("INSERT INTO search_index(rowid, text) VALUES(?, ?)", (made.lastrowid, text + END_MARK))
    connection.execute(
        "UPDATE session_ids SET folded = ?, version = ? WHERE key = ?", (changes.position, ROWS_VERSION, session_key)
    )


def remove(connection: sqlite3.Connection, session_key: int) -> None:
    """All rows of a session."""
    # The index has to be told what it knows of a text; it keeps none.
    connection.execute(
        "INSERT INTO search_index(search_index, rowid, text)"
        " SELECT 'delete', d.id, COALESCE(d.text, m.text) || ? FROM search_docs d"
        " LEFT JOIN messages m ON m.session = d.session AND m.key = d.row_id WHERE d.session = ?",
        (END_MARK, session_key),
    )
    for table in SESSION_TABLES:
        connection.execute(f'DELETE FROM "{table}" WHERE session = ?', (session_key,))  # noqa: S608
    connection.execute("UPDATE session_ids SET folded = 0, version = '' WHERE key = ?", (session_key,))


def read(connection: sqlite3.Connection, session_id: str) -> SessionRows:
    """In one look, whatever is written meanwhile."""
    connection.execute("BEGIN")
    try:
        found = connection.execute("SELECT key FROM session_ids WHERE id = ?", (session_id,)).fetchone()
        if found is None:
            return SessionRows()
        (key,) = found
        tables: dict[str, Sequence[Any]] = {}
        for name, table in ROW_TABLES.items():
            stored = connection.execute(f"{table.select} WHERE session = ?", (key,)).fetchall()
            stored.sort(key=_place)  # SQLite would carry all of their text about to sort them
            tables[name] = [table.row(values) for values in stored]
        parts = connection.execute(
            "SELECT message_id, text, blocks FROM message_parts WHERE session = ? ORDER BY rowid", (key,)
        ).fetchall()
    finally:
        connection.execute("COMMIT")
    if parts:
        tables["messages"] = _with_parts(tables["messages"], parts)
    return SessionRows(**tables)


def _with_parts(
    messages: Sequence[StoredMessage], parts: Sequence[tuple[str, str, bytes | None]]
) -> list[StoredMessage]:
    texts: dict[str, list[str]] = {}
    blocks: dict[str, tuple[ContentBlock, ...]] = {}
    for message_id, text, block in parts:
        texts.setdefault(message_id, []).append(text)
        if block is not None:
            blocks[message_id] = blocks.get(message_id, ()) + _blocks.decode(block)
    return [
        msgspec.structs.replace(message, text="".join(texts[message.id]), blocks=blocks.get(message.id, ()))
        if message.id in texts
        else message
        for message in messages
    ]


def read_summary(connection: sqlite3.Connection, session_id: str) -> SessionSummary:
    runs, usage, states = (
        [
            table.row(values)
            for values in connection.execute(
                f"{table.select} WHERE session = (SELECT key FROM session_ids WHERE id = ?) ORDER BY place",  # noqa: S608
                (session_id,),
            )
        ]
        for table in (ROW_TABLES["runs"], ROW_TABLES["usage"], ROW_TABLES["session_state"])
    )
    return SessionSummary(runs, usage, next(iter(states), None))


def read_session(connection: sqlite3.Connection, session_id: str) -> Session | None:
    table = ROW_TABLES["sessions"]
    chosen = f"{table.select} WHERE session = (SELECT key FROM session_ids WHERE id = ?)"  # noqa: S608 (names of ours)
    values = connection.execute(chosen, (session_id,)).fetchone()
    return None if values is None else table.row(values)


def read_sessions(connection: sqlite3.Connection) -> list[Session]:
    table = ROW_TABLES["sessions"]
    return [table.row(values) for values in connection.execute(f"{table.select} ORDER BY updated DESC, session DESC")]
