"""Rows in SQLite: store what a commit changed, and read the rows of a session back.

Every function works within the caller's transaction. The search index is written here too: it changes with the rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

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
from dragoman.journal.sqlite.schema import ROW_TABLES, ROWS_VERSION, SESSION_TABLES, pack_text, unpack_text
from dragoman.wire.vocabulary import ContentBlock

# Two characters after each text: every one or two characters of it then begin a group of three, and the index is made
# of groups of three.
END_MARK: Final = "\n\n"

# Bits for the rows of one commit: a million, because a rebuild writes a whole session in one.
_ORDER_BITS: Final = 20

_row_order = itemgetter(-1)
_block_decoder = msgspec.json.Decoder(tuple[ContentBlock, ...])


class EncodedChanges(NamedTuple):
    """The values to store for each changed row, and the text and blocks of each part of a message."""

    rows: Sequence[list[Any]]
    parts: Sequence[tuple[str | bytes, bytes | None]]


def encode_changes(changes: RowChanges) -> EncodedChanges:
    """Encode the changes of rows. Needs no connection, so that another thread can do it."""
    return EncodedChanges(
        [ROW_TABLES[TABLE_NAMES[type(row)]].encode(row) for row in changes.puts],
        [(pack_text(part.text), msgspec.json.encode(part.blocks) if part.blocks else None) for part in changes.parts],
    )


def apply_changes(
    connection: sqlite3.Connection, session_key: int, changes: RowChanges, encoded: EncodedChanges
) -> None:
    """Store the changes. `encoded` comes from `encode_changes`.

    Not on rows that lack earlier frames or are of another version: these stay stale, and are rebuilt when read.
    """
    for row in changes.puts:
        if isinstance(row, Receipt):
            connection.execute(
                "UPDATE inbox SET outcome = ?, detail = ?, done_at = ?"
                " WHERE command_id = ? AND session_id = ? AND outcome IS NULL",
                (row.outcome, row.detail, row.time, row.id, changes.session_id),
            )
    is_continued = connection.execute(
        "UPDATE session_keys SET folded_count = ?1, rows_version = ?2"
        " WHERE key = ?3 AND folded_count = ?4 AND (rows_version = ?2 OR folded_count = 0)",
        (changes.position, ROWS_VERSION, session_key, changes.previous_position),
    )
    if not is_continued.rowcount:
        return
    for table, key in changes.removed:
        connection.execute(
            f'DELETE FROM "{table}" WHERE session_key = ? AND row_key = ?',  # noqa: S608 (names of our own)
            (session_key, key),
        )
    texts: dict[str, str] = {}
    # Rows of later commits come after; within one, rows are in the order in which they were first seen.
    first = changes.position << _ORDER_BITS
    for order, (row, values) in enumerate(zip(changes.puts, encoded.rows, strict=True), start=first):
        upsert = ROW_TABLES[TABLE_NAMES[type(row)]].upsert
        connection.execute(upsert, (session_key, row_key(row), order, *values))
        if isinstance(row, StoredMessage) and row.ended:
            connection.execute(
                "DELETE FROM message_parts WHERE session_key = ? AND message_id = ?", (session_key, row.id)
            )
            texts[row.id] = row.text
    for part, (text, blocks) in zip(changes.parts, encoded.parts, strict=True):
        connection.execute("INSERT INTO message_parts VALUES(?, ?, ?, ?)", (session_key, part.message_id, text, blocks))
    for document in changes.documents:
        inserted = connection.execute(
            "INSERT INTO search_documents(session_key, row_id, kind, at, text) VALUES(?, ?, ?, ?, ?)",
            (session_key, document.row_id, document.kind, document.at, document.text),
        )
        searched = document.text if document.text is not None else texts[document.row_id]
        connection.execute(
            "INSERT INTO search_index(rowid, text) VALUES(?, ?)", (inserted.lastrowid, searched + END_MARK)
        )


def delete_rows(connection: sqlite3.Connection, session_key: int) -> None:
    """Delete all rows of a session."""
    # The index stores no text, so a deletion has to name the text again.
    connection.execute(
        "INSERT INTO search_index(search_index, rowid, text)"
        " SELECT 'delete', d.id, COALESCE(d.text, m.text) || ? FROM search_documents d"
        " LEFT JOIN messages m ON m.session_key = d.session_key AND m.row_key = d.row_id WHERE d.session_key = ?",
        (END_MARK, session_key),
    )
    for table in SESSION_TABLES:
        connection.execute(f'DELETE FROM "{table}" WHERE session_key = ?', (session_key,))  # noqa: S608
    connection.execute("UPDATE session_keys SET folded_count = 0, rows_version = '' WHERE key = ?", (session_key,))


def read_rows(connection: sqlite3.Connection, session_id: str, max_characters: int | None = None) -> SessionRows:
    """Read all tables in one transaction, so that they belong together whatever is written meanwhile.

    With `max_characters`, only the beginning of texts that are stored compressed.
    """
    connection.execute("BEGIN")
    try:
        key = _session_key(connection, session_id)
        if key is None:
            return SessionRows()
        tables: dict[str, Sequence[Any]] = {}
        for name, table in ROW_TABLES.items():
            records = connection.execute(f"{table.select} WHERE session_key = ?", (key,)).fetchall()
            records.sort(key=_row_order)  # SQLite would move all of their text to sort them
            tables[name] = [table.decode(values, max_characters) for values in records]
        parts = connection.execute(
            "SELECT message_id, text, blocks FROM message_parts WHERE session_key = ? ORDER BY rowid", (key,)
        ).fetchall()
    finally:
        connection.execute("COMMIT")
    if parts:
        tables["messages"] = _with_parts(tables["messages"], parts, max_characters)
    return SessionRows(**tables)


def _session_key(connection: sqlite3.Connection, session_id: str) -> int | None:
    record = connection.execute("SELECT key FROM session_keys WHERE id = ?", (session_id,)).fetchone()
    return None if record is None else int(record[0])


def _with_parts(
    messages: Sequence[StoredMessage],
    parts: Sequence[tuple[str, str | bytes, bytes | None]],
    max_characters: int | None,
) -> list[StoredMessage]:
    texts: dict[str, list[str]] = {}
    blocks: dict[str, tuple[ContentBlock, ...]] = {}
    for message_id, text, encoded_blocks in parts:
        texts.setdefault(message_id, []).append(unpack_text(text, max_characters))
        if encoded_blocks is not None:
            blocks[message_id] = blocks.get(message_id, ()) + _block_decoder.decode(encoded_blocks)
    return [
        msgspec.structs.replace(
            message, text="".join(texts[message.id])[:max_characters], blocks=blocks.get(message.id, ())
        )
        if message.id in texts
        else message
        for message in messages
    ]


def read_summary(connection: sqlite3.Connection, session_id: str) -> SessionSummary:
    key = _session_key(connection, session_id)
    runs, usage, states = (
        [
            table.decode(values)
            for values in connection.execute(f"{table.select} WHERE session_key = ? ORDER BY row_order", (key,))
        ]
        for table in (ROW_TABLES["runs"], ROW_TABLES["usage"], ROW_TABLES["session_state"])
    )
    return SessionSummary(runs, usage, next(iter(states), None))


def read_session(connection: sqlite3.Connection, session_id: str) -> Session | None:
    table = ROW_TABLES["sessions"]
    key = _session_key(connection, session_id)
    values = connection.execute(f"{table.select} WHERE session_key = ?", (key,)).fetchone()
    return None if values is None else table.decode(values)


def read_sessions(connection: sqlite3.Connection) -> list[Session]:
    table = ROW_TABLES["sessions"]
    records = connection.execute(f"{table.select} ORDER BY updated DESC, session_key DESC")
    return [table.decode(values) for values in records]
