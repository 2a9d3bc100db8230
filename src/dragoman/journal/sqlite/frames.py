"""Frames in SQLite: store many at once, read a page of them, compress old ones.

`FrameWriter` belongs to the writer's thread, `FrameReader` serves many threads; both map names to their numbers.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dragoman.journal.entry import ORIGINS, Entry, Page, format_cursor
from dragoman.journal.errors import NotTheOwner, OutOfOrder, SessionDeleted

_COLUMNS: Final = "connection_key, session_key, n, at, origin, kind_key, frame, dictionary_key"
_COLUMN_COUNT: Final = 8

# Rows of one INSERT statement. With one row each, every row hands over the interpreter's lock, and a busy event loop
# returns it late (the bar of the burst benchmark needs this). Few sizes, so that each statement is prepared once.
# `OR FAIL`: otherwise SQLite prepares to roll back this one statement, and writes out the search index for that; here
# the whole job is rolled back.
_BLOCK_SIZES: Final = (256, 64, 16, 4, 1)
_INSERTS: Final = {
    size: f"INSERT OR FAIL INTO stored_frames({_COLUMNS}) VALUES "  # noqa: S608 (names of our own)
    + ", ".join([f"({', '.join('?' * _COLUMN_COUNT)})"] * size)
    for size in _BLOCK_SIZES
}
_ORIGIN_KEYS: Final = {name: key for key, name in enumerate(ORIGINS)}

# Frames of at least so many bytes are compressed at once, where that helps: lists of models, whole files, diffs. It
# saves more time on the disk than it takes; shorter ones gain nothing without a dictionary (`compress_frames`).
_MIN_COMPRESSED_BYTES: Final = 2048
_NO_DICTIONARY: Final = 0

# Size of a dictionary: the largest that zlib can use.
_DICTIONARY_BYTES: Final = 32 * 1024
_DICTIONARY_SAMPLES: Final = 64


class FrameWriter:
    """Writer of frames, which remembers the numbers of names. After a rollback the caller calls `forget`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.forget()

    def forget(self) -> None:
        self._connections: dict[str, int] = {}
        self._sessions: dict[str | None, int | None] = {None: None}
        self._kinds: dict[str, int] = {}

    def append(
        self,
        entries: Sequence[Entry],
        epochs: Mapping[str, int],
        changed_sessions: Iterable[str],
        compressed: Mapping[int, bytes],
    ) -> int:
        """Check everything, then write; return the sequence number of the last frame.

        `changed_sessions` are those whose rows the caller writes; `compressed` comes from `compress_large`.
        """
        for kind in {entry.kind for entry in entries}.difference(self._kinds):
            self._kinds[kind] = self._key("frame_kinds", "name", kind)
        self._check_numbers(entries)
        frame_counts = Counter([entry.session_id for entry in entries])
        for session_id in {*frame_counts, *changed_sessions}:
            if session_id is not None:
                self._check_session(session_id, epochs)
        values = self._values(entries, compressed)
        done = 0
        last_seq = 0
        for size in _BLOCK_SIZES:
            while len(entries) - done >= size:
                block = values[done * _COLUMN_COUNT : (done + size) * _COLUMN_COUNT]
                last_seq = self._connection.execute(_INSERTS[size], block).lastrowid or 0
                done += size
        del frame_counts[None]
        for session_id, count in frame_counts.items():
            self._connection.execute(
                "UPDATE session_keys SET frame_count = frame_count + ? WHERE key = ?",
                (count, self._sessions[session_id]),
            )
        return last_seq

    def _values(self, entries: Sequence[Entry], compressed: Mapping[int, bytes]) -> list[Any]:
        """Return the values of all rows, one after the other."""
        connections, sessions, origins, kinds = self._connections, self._sessions, _ORIGIN_KEYS, self._kinds
        values: list[Any] = [
            value
            for entry in entries
            for value in (
                connections[entry.connection_id],
                sessions[entry.session_id],
                entry.n,
                entry.at,
                origins[entry.origin],
                kinds[entry.kind],
                entry.frame,
                None,
            )
        ]
        for index, frame in compressed.items():
            values[index * _COLUMN_COUNT + 6 : index * _COLUMN_COUNT + 8] = frame, _NO_DICTIONARY
        return values

    def _check_numbers(self, entries: Sequence[Entry]) -> None:
        if len(entries) > 1 and len({entry.connection_id for entry in entries}) == 1:
            # The common case in a burst, without a step for each entry.
            stored = self._stored_count(entries[0].connection_id)
            if [entry.n for entry in entries] == list(range(stored + 1, stored + 1 + len(entries))):
                self._set_count(entries[0].connection_id, stored + len(entries))
                return
        next_numbers: dict[str, int] = {}
        for entry in entries:
            connection_id = entry.connection_id
            number = next_numbers.get(connection_id)
            if number is None:
                number = self._stored_count(connection_id) + 1
            if entry.n != number:
                raise OutOfOrder(f"frame {entry.n} of connection {connection_id!r} was appended, {number} is the next")
            next_numbers[connection_id] = number + 1
        for connection_id, number in next_numbers.items():
            self._set_count(connection_id, number - 1)

    def _set_count(self, connection_id: str, frame_count: int) -> None:
        self._connection.execute(
            "UPDATE connections SET frame_count = ? WHERE key = ?", (frame_count, self._connections[connection_id])
        )

    def _stored_count(self, connection_id: str) -> int:
        record = self._connection.execute(
            "SELECT key, frame_count FROM connections WHERE id = ?", (connection_id,)
        ).fetchone()
        if record is None:
            raise OutOfOrder(
                f"connection {connection_id!r} is not known to the journal",
                guidance="Call `register_connection` first.",
            )
        self._connections[connection_id] = record[0]
        return int(record[1])

    def _check_session(self, session_id: str, epochs: Mapping[str, int]) -> None:
        """Raise where this process must not write to the session."""
        key = self._sessions.get(session_id)
        if key is None:
            key = self._sessions[session_id] = self._key("session_keys", "id", session_id)
        (is_deleted,) = self._connection.execute("SELECT is_deleted FROM session_keys WHERE key = ?", (key,)).fetchone()
        if is_deleted:
            raise SessionDeleted(f"session {session_id} was deleted")
        claim = self._connection.execute(
            "SELECT process_id, epoch FROM owners WHERE session_id = ?", (session_id,)
        ).fetchone()
        process_id, epoch = claim or (None, 0)
        if epochs.get(session_id) != (epoch if process_id is not None else None):
            raise NotTheOwner(f"session {session_id} is owned by {process_id or 'nobody'} now", owner=process_id)

    def session_key(self, session_id: str) -> int:
        return self._sessions.get(session_id) or self._key("session_keys", "id", session_id)

    def _key(self, table: str, column: str, name: str) -> int:
        self._connection.execute(f'INSERT OR IGNORE INTO "{table}"("{column}") VALUES(?)', (name,))
        record = self._connection.execute(f'SELECT key FROM "{table}" WHERE "{column}" = ?', (name,))  # noqa: S608
        return int(record.fetchone()[0])


def compress_large(entries: Sequence[Entry]) -> dict[int, bytes]:
    """Compress large frames where that helps; return them by index. Needs no connection."""
    large = [index for index, entry in enumerate(entries) if len(entry.frame) >= _MIN_COMPRESSED_BYTES]
    compressed = {index: zlib.compress(entries[index].frame, 1) for index in large}
    return {index: data for index, data in compressed.items() if len(data) < len(entries[index].frame) * 3 // 4}


class FrameReader:
    """Reader of pages, on any connection; it remembers names for all of them."""

    def __init__(self, journal_name: str) -> None:
        self._journal_name = journal_name
        self._connections: dict[int, str] = {}
        self._sessions: dict[int | None, str | None] = {None: None}
        self._kinds: dict[int, str] = {}
        self._dictionaries: dict[int, bytes] = {}

    def read_page(self, connection: sqlite3.Connection, session_id: str | None, after: int, limit: int) -> Page:
        if session_id is None:
            records = connection.execute(
                f"SELECT seq, {_COLUMNS} FROM stored_frames WHERE seq > ? ORDER BY seq LIMIT ?",  # noqa: S608
                (after, limit),
            ).fetchall()
        else:
            records = connection.execute(
                f"SELECT seq, {_COLUMNS} FROM stored_frames"  # noqa: S608
                " WHERE session_key = (SELECT key FROM session_keys WHERE id = ?) AND seq > ? ORDER BY seq LIMIT ?",
                (session_id, after, limit),
            ).fetchall()
        try:
            entries = self._entries(connection, records)
        except KeyError:
            self._learn_names(connection)
            entries = self._entries(connection, records)
        positions = [record[0] for record in records]
        cursor = format_cursor(self._journal_name, positions[-1] if positions else after)
        return Page(entries, cursor, self._journal_name, positions)

    def _entries(self, connection: sqlite3.Connection, records: list[tuple[Any, ...]]) -> list[Entry]:
        connections, sessions, kinds, origins = self._connections, self._sessions, self._kinds, ORIGINS
        return [
            Entry(
                connections[connection_key],
                sessions[session_key],
                n,
                at,
                origins[origin],
                kinds[kind_key],
                frame if dictionary_key is None else self._decompress(connection, frame, dictionary_key),
            )
            for _, connection_key, session_key, n, at, origin, kind_key, frame, dictionary_key in records
        ]

    def _learn_names(self, connection: sqlite3.Connection) -> None:
        self._connections.update(connection.execute("SELECT key, id FROM connections").fetchall())
        self._sessions.update(connection.execute("SELECT key, id FROM session_keys").fetchall())
        self._kinds.update(connection.execute("SELECT key, name FROM frame_kinds").fetchall())

    def _decompress(self, connection: sqlite3.Connection, frame: bytes, dictionary_key: int) -> bytes:
        if dictionary_key == _NO_DICTIONARY:
            return zlib.decompress(frame)
        dictionary = self._dictionaries.get(dictionary_key)
        if dictionary is None:
            (dictionary,) = connection.execute(
                "SELECT data FROM compression_dictionaries WHERE key = ?", (dictionary_key,)
            ).fetchone()
            self._dictionaries[dictionary_key] = dictionary
        return zlib.decompressobj(zdict=dictionary).decompress(frame)


def compress_frames(connection: sqlite3.Connection, session_id: str, limit: int) -> bool:
    """Compress up to `limit` frames of the session with its dictionary; return whether some may be left."""
    record = connection.execute("SELECT key FROM session_keys WHERE id = ?", (session_id,)).fetchone()
    if record is None:
        return False
    (session_key,) = record
    dictionary_key, dictionary = _dictionary(connection, session_key)
    frames = connection.execute(
        "SELECT seq, frame FROM stored_frames WHERE session_key = ? AND dictionary_key IS NULL ORDER BY seq LIMIT ?",
        (session_key, limit),
    ).fetchall()
    for seq, frame in frames:
        compressor = zlib.compressobj(9, zdict=dictionary)
        compressed = compressor.compress(frame) + compressor.flush()
        connection.execute(
            "UPDATE stored_frames SET frame = ?, dictionary_key = ? WHERE seq = ?", (compressed, dictionary_key, seq)
        )
    return len(frames) == limit


def _dictionary(connection: sqlite3.Connection, session_key: int) -> tuple[int, bytes]:
    """Return the session's dictionary; make it of frames from all over the session where it has none."""
    record = connection.execute(
        "SELECT key, data FROM compression_dictionaries WHERE session_key = ?", (session_key,)
    ).fetchone()
    if record is not None:
        return int(record[0]), record[1]
    (count,) = connection.execute("SELECT COUNT(*) FROM stored_frames WHERE session_key = ?", (session_key,)).fetchone()
    samples: list[bytes] = []
    size = 0
    for number in range(0, count, max(1, count // _DICTIONARY_SAMPLES)):
        (frame,) = connection.execute(
            "SELECT frame FROM stored_frames WHERE session_key = ? ORDER BY seq LIMIT 1 OFFSET ?",
            (session_key, number),
        ).fetchone()
        if size + len(frame) <= _DICTIONARY_BYTES:
            samples.append(frame)
            size += len(frame)
    data = b"".join(samples)
    inserted = connection.execute(
        "INSERT INTO compression_dictionaries(session_key, data) VALUES(?, ?)", (session_key, data)
    )
    return int(inserted.lastrowid or 0), data
