"""Frames in SQLite: storing many at once, reading a page of them, storing old ones smaller.

`FrameWriter` lives in the writer's thread, `FrameReader` is used by many; both know names by their numbers.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dragoman.journal.entry import ORIGINS, Entry, Page, format_cursor
from dragoman.journal.errors import NotTheOwner, OutOfOrder, SessionDeleted

_COLUMNS: Final = "connection_id, session_id, n, at, origin, kind, frame, packed"
_WIDTH: Final = 8

# Rows of one statement. With one row each, every row is a hand-over of the interpreter's lock, and a busy event loop
# gives it back late. Few sizes, so that each is prepared once. `OR FAIL`: else SQLite would be ready to take back one
# statement alone, for which it has the index for search written out; here the whole job is taken back.
_BLOCKS: Final = (256, 64, 16, 4, 1)
_INSERT: Final = f"INSERT OR FAIL INTO acp_events({_COLUMNS}) VALUES "  # noqa: S608
_INSERTS: Final = {size: _INSERT + ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * size) for size in _BLOCKS}
# The same where only the time and the bytes differ, as in the stream of a message: a quarter of the values to bind.
_UNIFORM: Final = {
    size: _INSERT
    + ", ".join(f"(?1, ?2, ?3 + {row}, ?{6 + 2 * row}, ?4, ?5, ?{7 + 2 * row}, NULL)" for row in range(size))
    for size in _BLOCKS[:3]
}
# And when they are read again: so many places, one after the other, as far as what stands there is like one that is
# known. (Its session's index would lead to each by itself, hence the plus.)
_ALIKE: Final = (
    "SELECT n, at, frame FROM acp_events WHERE seq > ? AND seq <= ?"
    " AND connection_id = ? AND +session_id IS ? AND origin = ? AND kind = ? AND packed IS ? ORDER BY seq"
)
_ORIGINS: Final = {name: key for key, name in enumerate(ORIGINS)}

# Bytes from which on a frame is stored compressed at once, where that helps: lists of models, whole files, diffs. It
# saves more time on the disk than it takes; shorter ones gain nothing without a dictionary (`pack`).
_LARGE: Final = 2048
_NO_DICTIONARY: Final = 0

# What compression may look back on when it begins with a frame: the largest that zlib can use.
_DICTIONARY: Final = 32 * 1024


class FrameWriter:
    """Whoever rolls a transaction back has to `forget` what was learnt in it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.forget()

    def forget(self) -> None:
        self._connections: dict[str, int] = {}
        self._sessions: dict[str | None, int | None] = {None: None}
        self._kinds: dict[str, int] = {}

    def append(
        self, entries: Sequence[Entry], epochs: Mapping[str, int], also: Iterable[str], smaller: Mapping[int, bytes]
    ) -> int:
        """Checks first, then writes: the last one's place. `also`: sessions whose rows are to be written. `smaller`:
        what the function of this name made of the entries."""
        for kind in {entry.kind for entry in entries}.difference(self._kinds):
            self._kinds[kind] = self._key("kinds", "name", kind)
        self._check_numbers(entries)
        written = Counter([entry.session_id for entry in entries])
        for session_id in {*written, *also}:
            if session_id is not None:
                self._check_session(session_id, epochs)
        done = 0
        last = 0
        for size in _BLOCKS:
            while len(entries) - done >= size:
                last = self._insert(entries[done : done + size], done, smaller)
                done += size
        del written[None]
        for session_id, count in written.items():
            self._connection.execute(
                "UPDATE session_ids SET frames = frames + ? WHERE key = ?", (count, self._sessions[session_id])
            )
        return last

    def _insert(self, block: Sequence[Entry], start: int, smaller: Mapping[int, bytes]) -> int:
        """`start`: which of all entries is the first of these."""
        size = len(block)
        packed = {index: smaller[start + index] for index in range(size) if start + index in smaller} if smaller else {}
        if size in _UNIFORM and not packed and _is_uniform(block):
            first = block[0]
            values: list[Any] = [
                self._connections[first.connection_id],
                self._sessions[first.session_id],
                first.n,
                _ORIGINS[first.origin],
                self._kinds[first.kind],
            ]
            values.extend([value for entry in block for value in (entry.at, entry.frame)])
            return self._connection.execute(_UNIFORM[size], values).lastrowid or 0
        return self._connection.execute(_INSERTS[size], self._values(block, packed)).lastrowid or 0

    def _values(self, entries: Sequence[Entry], packed: Mapping[int, bytes]) -> list[Any]:
        """What stands for these in one statement."""
        connections, sessions, origins, kinds = self._connections, self._sessions, _ORIGINS, self._kinds
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
        for index, frame in packed.items():
            values[index * _WIDTH + 6 : index * _WIDTH + 8] = frame, _NO_DICTIONARY
        return values

    def _check_numbers(self, entries: Sequence[Entry]) -> None:
        if len(entries) > 1 and len({entry.connection_id for entry in entries}) == 1:
            # In a burst: the common case, without a step for each.
            stored = self._stored_frames(entries[0].connection_id)
            if [entry.n for entry in entries] == list(range(stored + 1, stored + 1 + len(entries))):
                self._count(entries[0].connection_id, stored + len(entries))
                return
        expected: dict[str, int] = {}
        for entry in entries:
            connection_id = entry.connection_id
            number = expected.get(connection_id)
            if number is None:
                number = self._stored_frames(connection_id) + 1
            if entry.n != number:
                raise OutOfOrder(f"frame {entry.n} of connection {connection_id!r} was appended, {number} is the next")
            expected[connection_id] = number + 1
        for connection_id, number in expected.items():
            self._count(connection_id, number - 1)

    def _count(self, connection_id: str, frames: int) -> None:
        self._connection.execute(
            "UPDATE connections SET frames = ? WHERE key = ?", (frames, self._connections[connection_id])
        )

    def _stored_frames(self, connection_id: str) -> int:
        found = self._connection.execute(
            "SELECT key, frames FROM connections WHERE id = ?", (connection_id,)
        ).fetchone()
        if found is None:
            raise OutOfOrder(
                f"connection {connection_id!r} is not known to the journal", guidance="Tell it by `connect` first."
            )
        self._connections[connection_id] = found[0]
        return int(found[1])

    def _check_session(self, session_id: str, epochs: Mapping[str, int]) -> None:
        """Raises where this process must not write to it."""
        key = self._sessions.get(session_id)
        if key is None:
            key = self._sessions[session_id] = self._key("session_ids", "id", session_id)
        (deleted,) = self._connection.execute("SELECT deleted FROM session_ids WHERE key = ?", (key,)).fetchone()
        if deleted:
            raise SessionDeleted(f"session {session_id} was deleted")
        owned = self._connection.execute(
            "SELECT process_id, epoch FROM owners WHERE session_id = ?", (session_id,)
        ).fetchone()
        process_id, epoch = owned or (None, 0)
        if epochs.get(session_id) != (epoch if process_id is not None else None):
            raise NotTheOwner(f"session {session_id} is owned by {process_id or 'nobody'} now", owner=process_id)

    def session_key(self, session_id: str) -> int:
        return self._sessions.get(session_id) or self._key("session_ids", "id", session_id)

    def _key(self, table: str, column: str, name: str) -> int:
        self._connection.execute(f'INSERT OR IGNORE INTO "{table}"("{column}") VALUES(?)', (name,))
        found = self._connection.execute(f'SELECT key FROM "{table}" WHERE "{column}" = ?', (name,))  # noqa: S608
        return int(found.fetchone()[0])


def smaller(entries: Sequence[Entry]) -> dict[int, bytes]:
    """What is to be stored in place of large frames, where that helps: by their place among these. It takes no
    connection."""
    large = [index for index, entry in enumerate(entries) if len(entry.frame) >= _LARGE]
    packed = {index: zlib.compress(entries[index].frame, 1) for index in large}
    return {index: data for index, data in packed.items() if len(data) < len(entries[index].frame) * 3 // 4}


def _is_uniform(block: Sequence[Entry]) -> bool:
    return (
        len({entry.kind for entry in block}) == 1
        and len({entry.session_id for entry in block}) == 1
        and len({entry.connection_id for entry in block}) == 1
        and len({entry.origin for entry in block}) == 1
    )


class _Shape(NamedTuple):
    """What the frames of a stream have in common: all but place, number, time and bytes. Names by their numbers."""

    connection: int
    session: int | None
    origin: int
    kind: int
    packed: None


def _common(found: list[tuple[Any, ...]]) -> _Shape | None:
    """The shape of all of them, where it is one, and none of them is packed."""
    _, connection, session, _, _, origin, kind, _, _ = found[-1]
    shape = _Shape(connection, session, origin, kind, None)
    alike = all((values[1], values[2], values[5], values[6], values[8]) == shape for values in found)
    return shape if alike else None


class FrameReader:
    """Reads pages on whichever connection it is given; what it knows of names holds for all of them."""

    def __init__(self, journal: str) -> None:
        self._journal = journal
        self._connections: dict[int, str] = {}
        self._sessions: dict[int | None, str | None] = {None: None}
        self._kinds: dict[int, str] = {}
        self._dictionaries: dict[int, bytes] = {}
        self._like: _Shape | None = None  # of all frames of the last page that was full: the next may be like it

    def page(self, connection: sqlite3.Connection, session_id: str | None, after: int, limit: int) -> Page:
        page = self._page_alike(connection, session_id, after, limit)
        if page is not None:
            return page
        if session_id is None:
            found = connection.execute(
                f"SELECT seq, {_COLUMNS} FROM acp_events WHERE seq > ? ORDER BY seq LIMIT ?",  # noqa: S608
                (after, limit),
            ).fetchall()
        else:
            found = connection.execute(
                f"SELECT seq, {_COLUMNS} FROM acp_events"  # noqa: S608
                " WHERE session_id = (SELECT key FROM session_ids WHERE id = ?) AND seq > ? ORDER BY seq LIMIT ?",
                (session_id, after, limit),
            ).fetchall()
        if not found:
            return Page((), format_cursor(self._journal, after), self._journal, ())
        try:
            entries = self._entries(connection, found)
        except KeyError:
            self._learn(connection)
            entries = self._entries(connection, found)
        if len(found) == limit:
            self._like = _common(found)
        places = [values[0] for values in found]
        return Page(entries, format_cursor(self._journal, places[-1]), self._journal, places)

    def _page_alike(
        self, connection: sqlite3.Connection, session_id: str | None, after: int, limit: int
    ) -> Page | None:
        """A page of frames that differ in number, time and bytes only, at a third less; None where it is no such page:
        there is another frame among them, or a place without one."""
        like = self._like
        if like is None or session_id not in (None, self._sessions[like.session]):
            return None
        found = connection.execute(_ALIKE, (after, after + limit, *like)).fetchall()
        if len(found) < limit:
            self._like = None
            return None
        connection_id, session_id = self._connections[like.connection], self._sessions[like.session]
        origin, kind = ORIGINS[like.origin], self._kinds[like.kind]
        entries = [Entry(connection_id, session_id, n, at, origin, kind, frame) for n, at, frame in found]
        places = range(after + 1, after + limit + 1)
        return Page(entries, format_cursor(self._journal, places[-1]), self._journal, places)

    def _entries(self, connection: sqlite3.Connection, found: list[tuple[Any, ...]]) -> list[Entry]:
        connections, sessions, kinds, origins = self._connections, self._sessions, self._kinds, ORIGINS
        return [
            Entry(
                connections[connection_id],
                sessions[session_id],
                n,
                at,
                origins[origin],
                kinds[kind],
                frame if packed is None else self._unpacked(connection, frame, packed),
            )
            for _, connection_id, session_id, n, at, origin, kind, frame, packed in found
        ]

    def _learn(self, connection: sqlite3.Connection) -> None:
        self._connections.update(connection.execute("SELECT key, id FROM connections").fetchall())
        self._sessions.update(connection.execute("SELECT key, id FROM session_ids").fetchall())
        self._kinds.update(connection.execute("SELECT key, name FROM kinds").fetchall())

    def _unpacked(self, connection: sqlite3.Connection, frame: bytes, packed: int) -> bytes:
        if packed == _NO_DICTIONARY:
            return zlib.decompress(frame)
        dictionary = self._dictionaries.get(packed)
        if dictionary is None:
            (dictionary,) = connection.execute("SELECT data FROM dictionaries WHERE key = ?", (packed,)).fetchone()
            self._dictionaries[packed] = dictionary
        return zlib.decompressobj(zdict=dictionary).decompress(frame)


def pack(connection: sqlite3.Connection, session_id: str, limit: int) -> bool:
    """Stores up to so many frames of the session smaller, in the transaction at hand; whether some may be left."""
    found = connection.execute("SELECT key FROM session_ids WHERE id = ?", (session_id,)).fetchone()
    if found is None:
        return False
    (key,) = found
    dictionary_key, dictionary = _dictionary(connection, key)
    frames = connection.execute(
        "SELECT seq, frame FROM acp_events WHERE session_id = ? AND packed IS NULL ORDER BY seq LIMIT ?", (key, limit)
    ).fetchall()
    for seq, frame in frames:
        packer = zlib.compressobj(9, zdict=dictionary)
        packed = packer.compress(frame) + packer.flush()
        connection.execute("UPDATE acp_events SET frame = ?, packed = ? WHERE seq = ?", (packed, dictionary_key, seq))
    return len(frames) == limit


def _dictionary(connection: sqlite3.Connection, session_key: int) -> tuple[int, bytes]:
    """What the session's frames have in common: some of them, one after the other, from all over it."""
    found = connection.execute("SELECT key, data FROM dictionaries WHERE session_id = ?", (session_key,)).fetchone()
    if found is not None:
        return int(found[0]), found[1]
    (count,) = connection.execute("SELECT COUNT(*) FROM acp_events WHERE session_id = ?", (session_key,)).fetchone()
    samples: list[bytes] = []
    size = 0
    step = max(1, count // 64)
    for number in range(0, count, step):
        (frame,) = connection.execute(
            "SELECT frame FROM acp_events WHERE session_id = ? ORDER BY seq LIMIT 1 OFFSET ?", (session_key, number)
        ).fetchone()
        if size + len(frame) <= _DICTIONARY:
            samples.append(frame)
            size += len(frame)
    data = b"".join(samples)
    made = connection.execute("INSERT INTO dictionaries(session_id, data) VALUES(?, ?)", (session_key, data))
    return int(made.lastrowid or 0), data
