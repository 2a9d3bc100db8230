"""The journal in an SQLite file: one writer thread, reads in a few others, the event loop in neither.

Any number of processes may use the same file: one writes at a time, all read at any time, and each follows what the
others append.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from dragoman.journal import notes
from dragoman.journal.entry import Cursor, Entry, Page, format_cursor, parse_cursor
from dragoman.journal.errors import JournalClosed, JournalCorrupt, JournalError, JournalReadOnly, from_sqlite
from dragoman.journal.maintenance import refresh_rows
from dragoman.journal.notifier import ChangeNotifier
from dragoman.journal.protocols import (
    OWN_CONNECTION,
    PAGE_ENTRIES,
    Command,
    CommandState,
    CommitListener,
    Connection,
    Owner,
    Position,
    Process,
)
from dragoman.journal.rows import RowChanges, Session, SessionRows, SessionSummary, Tombstone
from dragoman.journal.search_documents import SearchHit, SearchQuery, rank
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.sqlite import owners, row_tables, schema, search
from dragoman.journal.sqlite.frames import FrameReader, FrameWriter, pack, smaller
from dragoman.journal.sqlite.writer import Writer

T = TypeVar("T")

# Threads that read. More readers wait for one another for a page's time; a disk is no faster by more of them.
_READERS: Final = 3

# Frames that are compressed in one commit: some milliseconds, so that a running session hardly notices.
_PACKED_AT_ONCE: Final = 500


# Bytes of frames after which the log is copied back into the file when there is time: 4 MB is what SQLite itself does
# it at. A small commit writes some pages, whatever it brings.
_SETTLED_AT: Final = 4 * 1024 * 1024
_COMMIT_BYTES: Final = 32 * 1024

# Bytes of frames that are made ready to be stored in a thread of their own, while the writer stores what came before:
# as imports bring them. With less, to hand it over would cost more than it saves.
_MUCH: Final = 64 * 1024

_POSITION: Final = Position.__struct_fields__
_PUT_POSITION: Final = (
    f"INSERT INTO watch_positions({', '.join(_POSITION)}) VALUES({', '.join('?' * len(_POSITION))})"
    " ON CONFLICT(connection_id) DO UPDATE SET "
    + ", ".join(
        f"{name} = {'MAX(frames, excluded.frames)' if name == 'frames' else f'excluded.{name}'}" for name in _POSITION
    )
)


class SqliteJournal:
    """Made by `open`. See `store.Journal` for what each method promises."""

    def __init__(self, path: Path, connection: sqlite3.Connection, name: str) -> None:
        self.path = path
        self.name = name
        self._connection = connection
        self._frames = FrameWriter(connection)
        self._reader = FrameReader(name)
        self._watched: sqlite3.Connection | None = None
        self._notifier = ChangeNotifier(self._data_version)
        self._unsettled = 0  # bytes of frames since the log was last copied into the file
        self._writer = Writer(connection, str(path), self._notifier.notify, self._frames.forget, self._settle)
        self._aside = ThreadPoolExecutor(1, "dragoman journal bulk")
        self._pool = ThreadPoolExecutor(_READERS, "dragoman journal reader")
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._listeners: list[CommitListener] = []
        self._closed = False

    @classmethod
    async def open(
        cls, path: Path, *, durability: schema.Durability = "process", busy: float = schema.BUSY_SECONDS
    ) -> SqliteJournal:
        """Opens the file, or makes it. `busy`: seconds to wait for other processes when writing."""
        return await asyncio.to_thread(cls._open, path, durability, busy)

    @classmethod
    def _open(cls, path: Path, durability: schema.Durability, busy: float) -> SqliteJournal:
        try:
            if not path.exists():
                path.touch(mode=0o600)  # what is said to agents concerns nobody else
            connection = schema.connect(path, durability, busy=busy)
        except OSError as problem:
            raise JournalReadOnly(f"the journal cannot be made: {problem}") from problem
        except sqlite3.Error as problem:
            raise from_sqlite(problem, str(path)) from problem
        try:
            return cls(path, connection, schema.prepare(connection, path))
        except BaseException:
            connection.close()
            raise

    async def __aenter__(self) -> SqliteJournal:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """What was given is committed; those who read find the end. Closing twice is fine."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.close()
        self._aside.shutdown()
        self._notifier.close()
        if self._watched is not None:
            self._watched.close()
        self._pool.shutdown()
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                break
        self._connection.close()

    @property
    def pending_writes(self) -> int:
        return self._writer.waiting

    def commit_times(self) -> list[float]:
        times = self._writer.times
        return [times.popleft() for _ in range(len(times))]

    def _data_version(self) -> int:
        """Changes with every commit, of whichever process."""
        try:
            if self._watched is None:
                self._watched = schema.connect_reader(self.path)
            return int(self._watched.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:
            return -1  # who reads next will be told what is wrong

    # -- writing

    async def register_connection(self, connection: Connection) -> None:
        await self._writer.do(lambda: self._connect(connection))

    def _connect(self, connection: Connection) -> None:
        self._connection.execute(
            "INSERT INTO connections(id, agent, at, protocol_version, capabilities, agent_info)"
            " VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET agent = excluded.agent,"
            " protocol_version = excluded.protocol_version, capabilities = excluded.capabilities,"
            " agent_info = excluded.agent_info",
            (
                connection.id,
                connection.agent,
                connection.at,
                connection.protocol_version,
                None if connection.capabilities is None else bytes(connection.capabilities).decode(),
                None if connection.agent_info is None else bytes(connection.agent_info).decode(),
            ),
        )

    async def append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges] = (),
        *,
        epochs: Mapping[str, int] = {},
        position: Position | None = None,
    ) -> Cursor:
        size = sum([len(entry.frame) for entry in entries])
        ready = self._aside.submit(_made_ready, entries, changes) if size >= _MUCH and not self._closed else None

        def write() -> int:
            if position is not None:
                self._connection.execute(_PUT_POSITION, msgspec.structs.astuple(position))
            self._unsettled += size + _COMMIT_BYTES
            return self._append(entries, changes, epochs, ready.result() if ready is not None else None)

        def then(place: int) -> None:
            if self._listeners:
                self._tell_listeners(format_cursor(self.name, place), entries, changes)

        return format_cursor(self.name, await self._writer.do(write, then=then))

    def on_commit(self, listener: CommitListener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _tell_listeners(self, cursor: Cursor, entries: Sequence[Entry], changes: Sequence[RowChanges]) -> None:
        for listener in list(self._listeners):
            listener(cursor, entries, changes)

    def _append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges],
        epochs: Mapping[str, int],
        ready: _Ready | None = None,
    ) -> int:
        frames, rows = ready or _made_ready(entries, changes)
        place = self._frames.append(entries, epochs, [change.session_id for change in changes], frames)
        for change, values in zip(changes, rows, strict=True):
            row_tables.apply(self._connection, self._frames.session_key(change.session_id), change, values)
        return place or _end(self._connection)

    def _settle(self) -> None:
        """Copies the log back into the file, at a quiet moment, and only when there is much of it."""
        if self._unsettled >= _SETTLED_AT:
            self._unsettled = 0
            try:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            except sqlite3.Error:
                pass  # the log stays as it is; who writes next is told what is wrong

    async def delete(self, session_id: str, *, at: float, by: str = "") -> bool:
        await refresh_rows(self, session_id)

        def then(done: tuple[int, Entry, RowChanges] | None) -> None:
            if done is not None:
                self._tell_listeners(format_cursor(self.name, done[0]), [done[1]], [done[2]])

        if await self._writer.do(lambda: self._delete(session_id, at, by), then=then) is None:
            return False
        await self._writer.do(self._truncate, alone=True)
        return True

    def _delete(self, session_id: str, at: float, by: str) -> tuple[int, Entry, RowChanges] | None:
        connection = self._connection
        found = connection.execute("SELECT key, deleted FROM session_ids WHERE id = ?", (session_id,)).fetchone()
        if found is None or found[1]:
            return None
        (key, _) = found
        known = row_tables.read_session(connection, session_id)
        row_tables.remove(connection, key)
        for table in ("acp_events", "dictionaries"):
            connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (key,))  # noqa: S608 (names of our own)
        for table in ("owners", "inbox", "watch_positions"):
            connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608
        # Merging all of the index into one leaves no trace of what was taken out.
        self._tell_index("optimize")
        connection.execute("UPDATE session_ids SET frames = 0 WHERE key = ?", (key,))
        connection.execute("INSERT OR IGNORE INTO connections(id, agent, at) VALUES(?, '', ?)", (OWN_CONNECTION, at))
        (n,) = connection.execute("SELECT frames FROM connections WHERE id = ?", (OWN_CONNECTION,)).fetchone()
        note = notes.tombstone(session_id, known, by)
        entry = Entry(OWN_CONNECTION, session_id, n + 1, at, "host", note.method, note.line)
        record = SessionRecord(session_id)
        record.add(entry, note)
        changes = record.take()
        place = self._append([entry], [changes], {})
        connection.execute("UPDATE session_ids SET deleted = 1 WHERE key = ?", (key,))
        return place, entry, changes

    def _truncate(self) -> None:
        """What the log still holds of earlier states goes too."""
        busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise JournalError(
                f"deleted, but {self.path}-wal may hold traces of it: another process reads the journal",
                guidance="Run `dragoman journal vacuum` when nothing else uses it.",
            )

    # -- reading

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise JournalClosed(f"the journal {self.path} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._with_reader, read)

    def _with_reader(self, read: Callable[[sqlite3.Connection], T]) -> T:
        try:
            try:
                connection = self._idle.get_nowait()
            except Empty:
                connection = schema.connect_reader(self.path)
            try:
                return read(connection)
            finally:
                self._idle.put(connection)
        except sqlite3.Error as problem:
            raise from_sqlite(problem, str(self.path)) from problem

    async def cursor(self) -> Cursor:
        return format_cursor(self.name, await self._read(_end))

    async def read(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> Page:
        place = parse_cursor(self.name, after)
        return await self._read(lambda connection: self._reader.page(connection, session_id, place, limit))

    async def subscribe(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> AsyncIterator[Page]:
        with self._notifier.subscribe() as changed:
            while not self._closed:
                changed.clear()
                try:
                    page = await self.read(session_id, after=after, limit=limit)
                except JournalClosed:
                    return
                if page.entries:
                    after = page.cursor
                    yield page
                    if session_id is not None and notes.is_tombstone(page.entries[-1]):
                        return
                else:
                    await changed.wait()

    async def changes(self) -> AsyncIterator[None]:
        with self._notifier.subscribe() as changed:
            while not self._closed:
                changed.clear()
                yield
                await changed.wait()

    async def changed_sessions(self, after: Cursor) -> tuple[Cursor, frozenset[str]]:
        place = parse_cursor(self.name, after)

        def read(connection: sqlite3.Connection) -> tuple[Cursor, frozenset[str]]:
            end = _end(connection)
            found = connection.execute(
                "SELECT id FROM session_ids WHERE key IN"
                " (SELECT DISTINCT session_id FROM acp_events WHERE seq > ? AND seq <= ?)",
                (place, end),
            )
            return format_cursor(self.name, max(place, end)), frozenset(one for (one,) in found)

        return await self._read(read)

    async def connections(self) -> Sequence[Connection]:
        def read(connection: sqlite3.Connection) -> list[Connection]:
            found = connection.execute(
                "SELECT id, agent, at, protocol_version, capabilities, agent_info FROM connections ORDER BY key"
            )
            return [
                Connection(
                    id=id_,
                    agent=agent,
                    at=at,
                    protocol_version=version,
                    capabilities=None if capabilities is None else msgspec.Raw(capabilities.encode()),
                    agent_info=None if info is None else msgspec.Raw(info.encode()),
                )
                for id_, agent, at, version, capabilities, info in found
            ]

        return await self._read(read)

    async def positions(self) -> Sequence[Position]:
        def read(connection: sqlite3.Connection) -> list[Position]:
            names = _POSITION
            found = connection.execute(f"SELECT {', '.join(names)} FROM watch_positions")  # noqa: S608 (names of ours)
            return [msgspec.convert(dict(zip(names, values, strict=True)), Position, strict=False) for values in found]

        return await self._read(read)

    async def _read_rows(self, read: Callable[[sqlite3.Connection], T], session_id: str | None = None) -> T:
        """Reads rows, of one session or of all, after those that are stale have been made anew."""

        def read_if_fresh(connection: sqlite3.Connection) -> tuple[T] | None:
            return None if _stale(connection, session_id) else (read(connection),)

        while (found := await self._read(read_if_fresh)) is None:
            await refresh_rows(self, session_id)
        return found[0]

    async def sessions(self) -> Sequence[Session]:
        return await self._read_rows(row_tables.read_sessions)

    async def session(self, session_id: str) -> Session | None:
        return await self._read_rows(lambda connection: row_tables.read_session(connection, session_id), session_id)

    async def rows(self, session_id: str) -> SessionRows:
        return await self._read_rows(lambda connection: row_tables.read(connection, session_id), session_id)

    async def summaries(self, session_ids: Iterable[str]) -> Mapping[str, SessionSummary]:
        chosen = list(session_ids)
        return await self._read_rows(
            lambda connection: {session_id: row_tables.read_summary(connection, session_id) for session_id in chosen}
        )

    async def tombstones(self) -> Sequence[Tombstone]:
        table = schema.ROW_TABLES["tombstones"]
        return await self._read_rows(
            lambda connection: [table.row(found) for found in connection.execute(table.select)]
        )

    async def search(self, query: SearchQuery) -> Sequence[SearchHit]:
        return await self._read_rows(lambda connection: rank(query, search.candidates(connection, query)))

    # -- owners and the inbox

    async def heartbeat(self, process: Process) -> None:
        await self._writer.do(lambda: owners.heartbeat(self._connection, process))

    async def claim(self, session_id: str, process_id: str, *, is_alive: Callable[[Process], bool]) -> int:
        return await self._writer.do(lambda: owners.claim(self._connection, session_id, process_id, is_alive))

    async def release(self, session_id: str, process_id: str) -> None:
        await self._writer.do(lambda: owners.release(self._connection, session_id, process_id))

    async def owner(self, session_id: str) -> Owner | None:
        return await self._read(lambda connection: owners.owner(connection, session_id))

    async def send_command(self, command: Command) -> bool:
        return await self._writer.do(lambda: owners.send(self._connection, command))

    async def take_commands(self, session_id: str, epoch: int) -> Sequence[Command]:
        return await self._writer.do(lambda: owners.take(self._connection, session_id, epoch))

    async def command_state(self, command_id: str) -> CommandState | None:
        return await self._read(lambda connection: owners.command(connection, command_id))

    async def sessions_with_commands(self) -> frozenset[str]:
        return await self._read(owners.waiting)

    async def pending_commands(self, session_id: str) -> Sequence[Command]:
        return await self._read(lambda connection: owners.unanswered(connection, session_id))

    # -- upkeep

    async def stale_sessions(self) -> Sequence[str]:
        return await self._read(_stale)

    async def session_ids(self) -> Sequence[str]:
        return await self._read(
            lambda connection: [one for (one,) in connection.execute("SELECT id FROM session_ids ORDER BY key")]
        )

    async def stored_rows(self, session_id: str) -> SessionRows:
        return await self._read(lambda connection: row_tables.read(connection, session_id))

    async def replace_rows(self, changes: RowChanges) -> bool:
        return await self._writer.do(lambda: self._replace_rows(changes))

    def _replace_rows(self, changes: RowChanges) -> bool:
        found = self._connection.execute(
            "SELECT key, frames FROM session_ids WHERE id = ?", (changes.session_id,)
        ).fetchone()
        if found is None or found[1] != changes.position:
            return False
        row_tables.remove(self._connection, found[0])
        row_tables.apply(self._connection, found[0], changes, row_tables.values_of(changes))
        return True

    async def check(self) -> Sequence[str]:
        def read(connection: sqlite3.Connection) -> list[str]:
            problems = [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
            problems += [
                f"session {session_id} has {found} frames, {expected} were appended"
                for session_id, expected, found in connection.execute(
                    "SELECT s.id, s.frames, COUNT(e.seq) FROM session_ids s LEFT JOIN acp_events e"
                    " ON e.session_id = s.key GROUP BY s.key HAVING COUNT(e.seq) <> s.frames"
                )
            ]
            problems += [
                f"connection {connection_id} holds a frame number twice, or one past its last"
                for (connection_id,) in connection.execute(
                    "SELECT c.id FROM connections c JOIN acp_events e ON e.connection_id = c.key"
                    " GROUP BY c.key HAVING COUNT(*) <> COUNT(DISTINCT e.n) OR MAX(e.n) > c.frames"
                )
            ]
            return problems

        problems = await self._read(read)
        try:
            await self._writer.do(lambda: self._tell_index("integrity-check"), alone=True)
        except JournalCorrupt as problem:
            problems.append(f"the index for search: {problem}")
        return problems

    def _tell_index(self, command: str) -> None:
        self._connection.execute("INSERT INTO search_index(search_index) VALUES(?)", (command,))

    async def vacuum(self) -> None:
        def run() -> None:
            self._tell_index("optimize")
            self._connection.execute("VACUUM")
            self._truncate()

        await self._writer.do(run, alone=True)

    async def compress(self, session_id: str) -> None:
        while await self._writer.do(lambda: pack(self._connection, session_id, _PACKED_AT_ONCE)):
            pass


class _Ready(NamedTuple):
    """What takes long to make, and needs no connection."""

    frames: Mapping[int, bytes]  # by the places of the entries
    rows: Sequence[Sequence[list[Any]]]  # of each of the changes


def _made_ready(entries: Sequence[Entry], changes: Sequence[RowChanges]) -> _Ready:
    return _Ready(smaller(entries), [row_tables.values_of(change) for change in changes])


def _stale(connection: sqlite3.Connection, session_id: str | None = None) -> list[str]:
    stale = "SELECT id FROM session_ids WHERE (folded <> frames OR version <> ?)"
    if session_id is None:
        found = connection.execute(f"{stale} ORDER BY key", (schema.ROWS_VERSION,))
    else:
        found = connection.execute(f"{stale} AND id = ?", (schema.ROWS_VERSION, session_id))
    return [one for (one,) in found]


def _end(connection: sqlite3.Connection) -> int:
    """The last place that was given out, whether or not its frame is still there."""
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'acp_events'").fetchone()
    return int(found[0]) if found else 0
